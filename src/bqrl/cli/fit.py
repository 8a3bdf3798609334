"""`bqrl fit`: from logged episodes, or a table of counts, to a policy whose promise holds with a stated confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from bqrl.cli.params import column_names, read_policies, read_value
from bqrl.cli.problem import BINS, CERTAINTY, COLUMN_NAMES, LEVEL, Objectives, SharedOptions
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import Objective
from bqrl.logs.acceptability import Acceptability
from bqrl.logs.counts import fit_counts
from bqrl.logs.estimate import Estimate
from bqrl.logs.fit import CONFIDENCE, fit
from bqrl.logs.played import is_environment
from bqrl.mdp.files.facts import parse_start
from bqrl.mdp.load import load_model
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.plan import Plan
from bqrl.results.estimates import FILES, fit_result
from bqrl.results.posterior import FILES as POSTERIOR_FILES
from bqrl.results.posterior import with_acceptability, with_posterior
from bqrl.results.result import Shown, check_folder
from bqrl.results.words import Words
from bqrl.study.compare import FIRST_SEED

ARGUMENTS = (
    "columns", "horizon", "discount", "start", "stationary", "support", "reward_range", "ends", "reward_by", "absorbing",
    "known", "model", "round_rewards", "adaptive", "episodes", "seed", "bins",
)  # fmt: skip
LOG = "A .csv, .csv.gz, .xlsx or .parquet file, one row per step, or a Gymnasium id that is played at random."
PLAYED = "For a Gymnasium id: number of episodes to play."
COUNTS = "In place of LOG: a table with the columns state, action, next_state and count, and reward unless --rewards is given."
REWARDS = "With --counts: a table with the columns state, action, reward and optionally next_state."
ABSORBING = "A state that is never left and pays nothing, such as Dead; repeatable."
KNOWN = "Rows known exactly: a table with the columns state, action, next_state, probability and reward."
KNOWN_MODEL = "A model whose outcomes and rewards are right; only its probabilities are estimated."
ADAPTIVE = "Whether the policy that wrote the log changed with the data; by default a test looks for it."
AT_LEAST = "A promise that suffices (a number, or old: that of the old policy); the plan is the best one that keeps it."
ROUND = "Round rewards down to multiples of this number; the promise stays valid."
PSA = "Also draw this many models from the posterior and show the policy's value in each (no promise); without a level, at 0.1."
POLICY = "With --cost: a strategy to compare with the new plan, such as today=rule.csv or always:ACTION; repeatable."
COST = "With --psa: the outcome that is paid, to show which strategy is worth its cost at each --threshold."
THRESHOLD = "With --cost: what one unit of the effect is worth; repeatable."
LOG_ONLY = (
    "stationary",
    "reward_range",
    "reward_by",
    "ends",
    "model",
    "round_rewards",
    "adaptive",
    "episodes",
    "seed",
    "bins",
)  # not with --counts
ENDS = "Episodes with fewer steps than the horizon: terminal (complete, the default) or truncated (cut off)."
SHOWN = ("policies", "limits", "projection")  # tables printed


@dataclass(frozen=True, kw_only=True)
class Fit(SharedOptions):
    """Find a policy from logged episodes or from counts, and what it guarantees with a stated confidence."""

    log: Annotated[Path | None, Argument(metavar="LOG", help=LOG)] = None
    episodes: Annotated[int | None, Option(help=PLAYED)] = None
    seed: Annotated[int | None, Option(help=f"For a Gymnasium id: seed of the episodes, by default {FIRST_SEED}.")] = (
        None
    )
    bins: Annotated[str | None, Option(help=BINS)] = None
    counts: Annotated[Path | None, Option(metavar="FILE", help=COUNTS)] = None
    rewards: Annotated[Path | None, Option(metavar="FILE", help=REWARDS)] = None
    tau: Annotated[list[float] | None, Option(metavar="<float>", help=LEVEL)] = None
    certainty: Annotated[list[str] | None, Option(metavar="PERCENT", help=CERTAINTY)] = None
    objective: Objectives = None
    beta: Annotated[float, Option(help="Buffer in [0, tau]: 0 is the quantile, tau is CVaR.")] = 0.0
    confidence: Annotated[float, Option(help="Probability with which the promise holds.")] = CONFIDENCE
    columns: Annotated[str | None, Option(help=COLUMN_NAMES)] = None
    stationary: Annotated[
        bool, Option("--stationary", help="Probabilities and rewards are the same at every stage.")
    ] = False
    horizon: Annotated[int | None, Option(help="Number of stages; by default that of the longest episode.")] = None
    start: Annotated[str | None, Option(help="First state by its id or name, or its law: Well=0.8,Sick=0.2.")] = None
    reward_range: Annotated[str | None, Option(help="Lowest and highest possible reward of one step: LO,HI.")] = None
    reward_by: Annotated[str | None, Option(help="state-action: only state and action determine the reward.")] = None
    support: Annotated[str | None, Option(help="states: the log shows every state that can occur.")] = None
    ends: Annotated[str | None, Option(help=ENDS)] = None
    absorbing: Annotated[list[str] | None, Option(metavar="STATE", help=ABSORBING)] = None
    known: Annotated[Path | None, Option(metavar="FILE", help=KNOWN)] = None
    model: Annotated[Path | None, Option(metavar="FILE", help=KNOWN_MODEL)] = None
    round_rewards: Annotated[float | None, Option(help=ROUND)] = None
    at_least: Annotated[str | None, Option(metavar="PROMISE", help=AT_LEAST)] = None
    points: Annotated[int | None, Option(help="Number of grid points if returns have no exact grid.")] = None
    psa: Annotated[int | None, Option(metavar="DRAWS", help=PSA)] = None
    policy: Annotated[list[str] | None, Option(metavar="NAME=FORM", help=POLICY)] = None
    cost: Annotated[str | None, Option(metavar="OUTCOME", help=COST)] = None
    effect: Annotated[str, Option(metavar="OUTCOME", help="With --cost: the outcome that the cost buys.")] = "reward"
    threshold: Annotated[list[float] | None, Option(metavar="AMOUNT", help=THRESHOLD)] = None
    adaptive: Annotated[bool | None, Option("--adaptive/--one-policy", help=ADAPTIVE)] = None

    def run(self) -> None:
        """Fit the log or the counts, plan, and show the policies, the promise and what limits it."""
        if (self.log is None) == (self.counts is None):
            raise ArgumentError("expected a log or --counts FILE, got " + ("neither" if self.log is None else "both"))
        words = Words.of(None, self.wording, command=True, title=(self.log or self.counts or Path()).name)
        goal = self.goal()  # before the log is read
        check_folder(self.out, "fit", (*FILES, *POSTERIOR_FILES))
        asked = {name: getattr(self, name) for name in ARGUMENTS}
        asked |= {"columns": column_names(self.columns), "reward_range": read_value(self.reward_range or "none")}
        asked["bins"] = read_value(self.bins or "none")
        asked["discount"] = 1.0 if self.factor is None else self.factor
        estimate = self._from_log(asked) if self.counts is None else self._from_counts(asked)
        promise = estimate.solve(goal, **self._choices(estimate, goal))
        goals = {"objective": goal.text} if self.objective else {"tau": self.level(), "beta": self.beta}
        source = (
            {"log": str(self.log)} if self.counts is None else {"counts": str(self.counts), "rewards": self.rewards}
        )
        settings = {
            **source, **goals, "confidence": self.confidence, **asked, "at_least": self.at_least, "points": self.points
        }  # fmt: skip
        settings |= {"psa": self.psa, "policy": self.policy, "cost": self.cost, "threshold": self.threshold}
        settings = {name: str(value) if isinstance(value, Path) else value for name, value in settings.items()}
        result = fit_result(estimate, promise, words, settings, draw=self.out is not None)
        shown = [name for name in SHOWN if name in result.tables]
        if self.psa is not None:
            drawn = estimate.psa(promise, self.psa, points=self.points or BRACKET_POINTS)
            result, shown = with_posterior(result, drawn, words, draw=self.out is not None), [*shown, "posterior"]
        if self.cost is not None:
            found = self._acceptability(estimate, promise, self.cost)
            result, shown = with_acceptability(result, found, draw=self.out is not None), [*shown, "acceptability"]
        full = result.details["sentence"]  # in place of the headline, which a page shows above it
        lines = [full, *(line.text for line in result.lines[1:] if line.text != full)]
        self.conclude(Shown(result.details, result, tables=[result.tables[name] for name in shown], lines=lines))

    def _choices(self, estimate: Estimate, goal: Objective) -> dict[str, Any]:
        """The options of `estimate.solve` that were given."""
        given: dict[str, Any] = {} if self.points is None else {"points": self.points}
        if self.at_least == "old":
            old = estimate.old_promise(goal)
            if old == -math.inf:
                raise ArgumentError("--at-least old requires a promise of the old policy, got none; give a number")
            least = min(old, estimate.solve(goal, **given).value)
            return given if least == -math.inf else given | {"at_least": least}
        if self.at_least is not None:
            given["at_least"] = read_value(self.at_least)
        return given

    def _acceptability(self, estimate: Estimate, promise: Plan, cost: str) -> Acceptability:
        """Which strategy is worth its cost under the posterior."""
        if self.psa is None or not self.policy or not self.threshold:
            raise ArgumentError("--cost requires --psa, --policy and --threshold; add them")
        policies = {"new plan": promise, **read_policies(self.policy)}
        options: dict[str, Any] = {"effect": self.effect, "thresholds": sorted(set(self.threshold)), "draws": self.psa}
        return estimate.acceptability(policies, cost=cost, **options)

    def _from_log(self, asked: dict[str, Any]) -> Estimate:
        """The estimate from logged episodes."""
        if self.rewards is not None:
            raise ArgumentError("--rewards requires --counts; a log has a column of rewards")
        start = None if self.start is None else parse_start(self.start)
        given, log = asked | {"start": start}, str(self.log)
        if is_environment(log) and not Path(log).exists():
            given["seed"] = FIRST_SEED if self.seed is None else self.seed
        if self.model is not None:  # which determines these
            given |= {"start": None, "discount": 1.0, "horizon": None}
            given["model"] = load_model(self.model, horizon=self.horizon, start=start, discount=self.factor)
        return fit(log, self.confidence, **given)

    def _from_counts(self, asked: dict[str, Any]) -> Estimate:
        """The estimate from a table of counts."""
        for name in LOG_ONLY:
            if asked[name] not in (None, False):
                raise ArgumentError(f"--{name.replace('_', '-')} is for logs, not for --counts; leave it out")
        if self.horizon is None:
            raise ArgumentError("--counts requires --horizon, the number of stages")
        start = None if self.start is None else parse_start(self.start)
        return fit_counts(
            self.counts, self.rewards, horizon=self.horizon, confidence=self.confidence, columns=asked["columns"],
            start=start, discount=asked["discount"], absorbing=self.absorbing or (), known=self.known,
            support=self.support or "listed",
        )  # fmt: skip
