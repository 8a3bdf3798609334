"""`bqrl theory`: experiments that compare the theory with runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from typer import Option

from bqrl.cli.study import StudyCommand
from bqrl.papers import paper_file
from bqrl.papers.ucb_bqrl.theory.suite import EXPERIMENTS, FILE, run_theory, stored_experiments, theory_result
from bqrl.progress import ProgressBar
from bqrl.results.result import Result, Shown, chart_files, check_folder
from bqrl.study.settings import read_settings

ONLY = f"Experiment to run: {', '.join(EXPERIMENTS)}; may be given several times."


@dataclass(frozen=True, kw_only=True)
class Theory(StudyCommand):
    """Compare the theory with runs: coverage, regret and its bounds, the hard family, buffers, possible returns."""

    only: Annotated[list[str] | None, Option(metavar="NAME", help=ONLY)] = None
    settings: Annotated[Path | None, Option(metavar="FILE", help="Settings (.toml) in place of the paper's.")] = None

    def run(self) -> None:
        """Run the experiments, and keep those that the folder already holds."""
        spec = read_settings(self.settings or paper_file("theory.toml"), FILE, quick=self.quick)
        names = spec.chosen(self.only)
        folder = self.folder(spec.theory.name)
        stems = [stem for name in names for stem in EXPERIMENTS[name].captions]  # a chart has the name of its table
        check_folder(folder, "theory", [*(f"{stem}.csv" for stem in stems), *chart_files(stems)])
        stored = stored_experiments(folder, self.quick)
        with ProgressBar() as watch:
            found = run_theory(spec, names, watch)
            watch.phase("drawing")
            result: Result = theory_result(spec, {**stored, **found})
        document = {"title": result.title, "settings": result.settings, "sentences": result.sentences, **result.details}
        replace(self, out=folder).conclude(Shown(document, result, lines=[line.text for line in result.lines]))
