"""`bqrl reproduce`: the paper's numerical study, or any other study from its settings file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import Option

from bqrl.cli.study import StudyCommand, explain_resuming
from bqrl.errors import ArgumentError
from bqrl.papers import paper_file
from bqrl.papers.ucb_bqrl.view import View
from bqrl.progress import ProgressBar
from bqrl.results.page import PAGE
from bqrl.results.result import check_folder
from bqrl.results.study_view import StudyView, show_study
from bqrl.study.settings import read_settings
from bqrl.study.spec import Spec
from bqrl.study.workers import ClusterWorkers, LocalWorkers

PAPER = "ucb_bqrl"  # what a study file may extend by name
CLUSTER = "Run on the Dask scheduler at ADDRESS (trusted networks only)."


@dataclass(frozen=True, kw_only=True)
class Reproduce(StudyCommand):
    """Run the paper's study: tuning, held-out runs, further seeds, tables, charts, a page. Continues where it stopped."""

    workers: Annotated[int | None, Option(help="Number of processes on this machine; by default one per core.")] = None
    cluster: Annotated[str | None, Option(metavar="ADDRESS", help=CLUSTER)] = None
    study: Annotated[
        Path | None, Option(metavar="FILE", help="Settings (.toml) of another study; it may extend the paper's.")
    ] = None

    def run(self) -> None:
        """Run the study."""
        if self.cluster is not None and self.workers is not None:
            raise ArgumentError("--workers is for this machine and --cluster for another; give only one")
        own = paper_file("study.toml")
        settings, known = self.study or own, {PAPER: own}
        spec = read_settings(settings, Spec, quick=self.quick, known=known)
        folder = self.folder(PAPER if self.study is None else settings.stem)
        view: type[StudyView] = View if self.study is None or _is_of_paper(spec, own) else StudyView
        check_folder(folder, "study", [PAGE, *view.files(spec)])
        pool = LocalWorkers(self.workers) if self.cluster is None else ClusterWorkers(self.cluster)
        with explain_resuming(folder):
            shown = show_study(spec, folder, pool, view, ProgressBar(lines=not self.as_json))
            replace(self, out=folder).conclude(shown)


def _is_of_paper(spec: Spec, own: Path) -> bool:
    """Whether a study has the settings and the problem of the paper's, perhaps with other learners."""
    paper = read_settings(own, Spec, quick=spec.quick)
    return (spec.study, spec.problem) == (paper.study, paper.problem)
