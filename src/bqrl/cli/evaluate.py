"""`bqrl evaluate`: strategies side by side in one problem or in several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from typer import Option

from bqrl.checks import choice, number
from bqrl.cli.output import warn
from bqrl.cli.params import read_models, read_policies
from bqrl.cli.problem import BELOW, CERTAINTY, DECIMAL, POLICY, ProblemOptions
from bqrl.errors import ArgumentError
from bqrl.mdp.model import MDP
from bqrl.planners.strategies import strategies
from bqrl.progress import ProgressBar
from bqrl.results.plans import in_one_line, sizes
from bqrl.results.problem import read_problem
from bqrl.results.result import Shown, check_folder
from bqrl.results.strategies import FILES, strategies_document, strategies_result, strategy_sentences, strategy_tables
from bqrl.results.words import Words, list_words

LEVELS = "Share of runs that may fall short, in (0, 1); may be given several times."
MODEL = "A further problem for the same strategies, read with the same options; NAME= gives it a name; repeatable."


@dataclass(frozen=True, kw_only=True)
class Evaluate(ProblemOptions):
    """Show strategies side by side: what each guarantees, its mean, its worst runs and its distance to the best policy."""

    policy: Annotated[list[str] | None, Option(metavar="[NAME=]POLICY", help=POLICY)] = None
    model: Annotated[list[str] | None, Option(metavar="[NAME=]PROBLEM", help=MODEL)] = None
    tau: Annotated[list[float] | None, Option(metavar="<float>", help=LEVELS)] = None
    certainty: Annotated[list[str] | None, Option(metavar="PERCENT", help=CERTAINTY)] = None
    below: Annotated[float | None, Option(help=BELOW)] = None
    decimal: Annotated[str, Option(help=DECIMAL)] = "."

    def run(self) -> None:
        """Evaluate every strategy exactly, or with proven bounds."""
        if self.objective:
            rule = "evaluate shows quantiles, CVaR and means of the levels of --tau"
            raise ArgumentError(f"{rule}; leave out --objective", name="objective")
        policies = read_policies(self.policy or ())
        if not policies:
            raise ArgumentError("Missing option '--policy', e.g. --policy today=rule.csv, or --policy always:ACTION")
        taus = sorted({number(level, "tau", 0.0, 1.0, "()") for level in self.levels()})
        choice(self.decimal, "decimal", (".", ","))
        below = None if self.below is None else number(self.below, "below")
        check_folder(self.out, "strategies", FILES)
        first, words = self._model()
        models = {words.title: first}
        for name, source in read_models(self.model or ()).items():
            if name in models:
                raise ArgumentError(
                    f"--model {name} has the name of another problem; choose another, e.g. low={source}"
                )
            models[name], _ = replace(self, problem=source)._model()
        settings = self.problem_settings() | {"tau": taus, "policy": self.policy, "below": below}
        settings |= {"model": self.model} if self.model else {}
        size = in_one_line(sizes(words.title, first), words)
        if self.model:
            size = f"{len(models)} models, {list_words(list(models))}"
        header = f"{words.title}: {size}"
        with ProgressBar() as watch:
            watch.phase("evaluating the strategies")
            table = strategies(models if self.model else first, policies, taus, below=below)
            result = None
            if self.out is not None:
                result = replace(strategies_result(table, words, settings, size), decimal=self.decimal)
        self.conclude(Shown(
            strategies_document(table, words, settings), result, header=header,
            tables=strategy_tables(table, words), lines=strategy_sentences(table, words),
        ))  # fmt: skip

    def _model(self) -> tuple[MDP, Words]:
        """The model of the problem and its words, after its notices."""
        problem = read_problem(**self.asked)
        mdp = problem.model("play it with bqrl.simulate")
        warn(*problem.notices)
        return mdp, problem.words
