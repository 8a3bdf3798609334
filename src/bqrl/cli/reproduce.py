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
from bqrl.results.page import PAGE, page
from bqrl.results.result import ResultTable, check_folder
from bqrl.results.study_view import StudyView
from bqrl.study.settings import read_settings
from bqrl.study.spec import Spec
from bqrl.study.study import run_study
from bqrl.study.workers import ClusterWorkers, LocalWorkers

PAPER = "ucb_bqrl"  # what a study file may extend by name
CLUSTER = "Run on the Dask scheduler at ADDRESS (trusted networks only)."
SHOWN = {
    "where": "where", "level": "level", "label": "label", "printed": "printed", "ours": "ours", "ours_std": "ours_std",
    "further seeds": "further_mean", "further seeds_std": "further_std",
}  # fmt: skip


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
            with ProgressBar(lines=not self.as_json) as watch:
                finished = run_study(spec, folder, pool, watch)
                watch.phase("drawing the charts and the page")
                result = view(finished).result()
                try:
                    result = replace(result, files={**result.files, PAGE: page(result).encode()})
                except ImportError as error:
                    result = replace(result, left_out=[*result.left_out, str(error)])
            printed = result.tables.get("printed_numbers", ResultTable([]))
            rows = [{name: row[key] for name, key in SHOWN.items()} for row in printed.rows]
            replace(self, out=folder).conclude(
                {"settings": result.settings, "sentences": result.sentences, **result.details},
                result,
                tables=[replace(printed, rows=rows)],
                lines=[line.text for line in result.lines],
            )


def _is_of_paper(spec: Spec, own: Path) -> bool:
    """Whether a study has the settings and the problem of the paper's, perhaps with other learners."""
    paper = read_settings(own, Spec, quick=spec.quick)
    return (spec.study, spec.problem) == (paper.study, paper.problem)
