"""Scores of finished runs: measures per episode, rankings of learners, and confidence bands of means.

An `Experiment` holds the runs of several learners with common seeds; comparisons return one, studies hold one per problem and
level. Bands of means and clear differences are based on t intervals over seeds, which also hold for few seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from typing import Any

import numpy as np
from scipy.special import stdtrit

from bqrl.checks import bad_value, choice, one_line, whole
from bqrl.display import PROVEN, Charted, count_of, spread_indices, views
from bqrl.laws.law import Law, smallest_scale
from bqrl.laws.objectives import Objective
from bqrl.learners.record import Record
from bqrl.learners.score import random_play
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.plan import GAP_TOL
from bqrl.versions import software

CONFIDENCE = 0.95
LAST = 0.1  # share of the last episodes whose realised returns are reported

# Measures of the episodes of a run: the name for people, and the values (T,) for an objective.
MEASURES: dict[str, tuple[str, Callable[[Record, Objective], FloatArray]]] = {
    "capped": ("gap to the capped reference", lambda record, goal: record.gap(goal, "capped")),
    "exact": ("gap to the exact optimum", Record.gap),
    "expected": ("expected-return regret", lambda record, _: record.expected_regret()),
    "return": ("return", lambda record, _: record.returns),
}
NONNEGATIVE = ("exact", "gap", "expected", "mean_regret")
MEASURES |= {"gap": MEASURES["exact"], "mean_regret": MEASURES["expected"]}


def late_return(record: Record, share: float = LAST, objective: Objective | None = None) -> float:
    """Mean realised return of the last `share` of the episodes, or the value of `objective` for their empirical law."""
    late = record.returns[-max(1, round(share * record.returns.size)) :]
    return float(late.mean()) if objective is None else objective(Law(late, np.full(late.size, 1.0 / late.size)))


def standard_error(values: FloatArray) -> float:
    """Standard error of the mean; NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def beats(mine: FloatArray, other: FloatArray) -> float:
    """Probability that a run with the losses `mine` ends below one with the losses `other`; ties count one half.

    >>> beats(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    difference = mine[:, None] - other[None, :]
    equal = np.abs(difference) <= 1e-9 * max(1.0, float(np.abs(mine).max()), float(np.abs(other).max()))
    return float(np.mean(np.where(equal, 0.5, difference < 0.0)))


def band_name(seeds: int) -> str:
    """Description of the bands of means over a number of seeds."""
    return "one seed, so no band" if seeds == 1 else f"95 % confidence band of the mean, t interval over {seeds} seeds"


def margin(values: FloatArray) -> FloatArray:
    """Half-width of the t interval of the mean over the first axis, the seeds, at 95 % confidence; NaN for one seed.

    >>> round(float(margin(np.array([1.0, 2.0, 3.0]))), 3)
    2.484
    """
    n = len(values)
    if n == 1:
        return np.full(values.shape[1:], np.nan)
    spread: FloatArray = (values - values[0]).std(axis=0, ddof=1)  # exactly 0 for equal rows
    return stdtrit(n - 1, (1.0 + CONFIDENCE) / 2) * spread / np.sqrt(n)


def mean_band(values: FloatArray, measure: str = "") -> tuple[FloatArray, FloatArray]:
    """Band (low, high) of the mean of each column; rows are seeds. The width is 0 for one seed; see `band_name`.

    Gaps and regrets are never negative, and neither are their bands.
    """
    mean, half = values[0] + (values - values[0]).mean(axis=0), np.nan_to_num(margin(values))
    floor = min(0.0, float(values.min(initial=0.0))) if measure in NONNEGATIVE else -np.inf  # rounding may give -1e-17
    return np.maximum(mean - half, floor), mean + half


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Contender:
    """A learner of an experiment: its label, the learner itself, and its parameters."""

    label: str
    learner: Any
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Experiment(Charted):
    """Runs of several learners on one problem, with the same seeds for each; made by `compare`.

    `rows()` and `to_frame()` list the final scores of each learner with their bands, `curves()` and `chart()` the learning
    curves, `beats()` the probability that one learner beats another. Scores have the unit of the rewards.

    Attributes
    ----------
    problem
        The problem as it was given: a model, a name or an environment.
    objective : Objective
        What the learners were given to maximise; `tau` is its level, nan if it has none.
    episodes : int
        Episodes per run.
    seeds : tuple of int
        Seeds of the runs.
    learners : tuple of Contender
        Label, learner and parameters of each learner.
    records : mapping of str to tuple of Record
        For each label one record per seed.

    Examples
    --------
    >>> import bqrl
    >>> experiment = bqrl.compare("SafeOrRisky", ["sarsa", "q-learning"], tau=0.1, episodes=20, seeds=2, workers=1)
    >>> experiment
    Experiment(sarsa, q-learning; 0.1-quantile, 20 episodes, 2 seeds)
    >>> experiment.values("sarsa", "gap").shape
    (2, 20)
    """

    problem: Any
    objective: Objective
    episodes: int
    seeds: tuple[int, ...]
    learners: tuple[Contender, ...]
    records: Mapping[str, tuple[Record, ...]]
    _cumulative: dict[tuple[Record, str], FloatArray] = field(default_factory=dict, repr=False)  # shared with parts

    @property
    def tau(self) -> float:
        """Level of the objective; nan if it has none."""
        return float(getattr(self.objective, "tau", np.nan))

    @property
    def _runs(self) -> list[Record]:
        return [record for records in self.records.values() for record in records]

    @property
    def exact(self) -> bool:
        """Whether every run was scored exactly, with neither rounding nor simulation."""
        return all(record.scores == "exact" for record in self._runs)

    @property
    def known(self) -> bool:
        """Whether the kernel of the problem is known, so that runs have gaps and regrets and not only returns."""
        return all(record.optimum is not None for record in self._runs)

    @property
    def ranked_by(self) -> str:
        """The measure that ranks the learners: "gap", or "late_value" if the kernel is not known."""
        return "gap" if self.known else "late_value"

    @property
    def size(self) -> float:
        """The scale of the returns, at most 1; differences below a billionth of it count as rounding errors."""
        returns = [record.points if self.known else record.returns for record in self._runs]
        return max(map(smallest_scale, returns), default=1.0)

    @property
    def error(self) -> float:
        """How far the optimum may lie above the proven value that gaps refer to; 0.0 if it is exact."""
        return max(
            (record.error_of(self.objective) for record in self._runs if record.optimum is not None), default=0.0
        )

    @property
    def optimum(self) -> float:
        """The certified optimum of the objective; nan if the kernel is not known. See `error`."""
        known = next((record.optimum for record in self._runs if record.optimum is not None), None)
        return np.nan if known is None else known.value(self.objective)

    @property
    def random(self) -> float:
        """The objective value of uniformly random play; nan if the kernel is not known."""
        mdp = next((record.mdp for record in self._runs if record.mdp is not None), None) if self.known else None
        return np.nan if mdp is None else self.objective(random_play(mdp))

    def share(self, value: float) -> float | None:
        """Return the share of the way from random play to the certified optimum that a value of the objective reaches.

        The share is (value - random) / (optimum - random): 0 for random play, 1 for the optimum, negative for worse than random
        play. It is defined for losses, too, and does not depend on the unit or on a constant that is added to all returns.

        Parameters
        ----------
        value
            A value of the objective.

        Returns
        -------
        float or None
            None if the kernel is not known or if random play is optimal.
        """
        way, gained, noise = self.optimum - self.random, value - self.random, GAP_TOL * self.size
        if not way > noise:  # NaN if unknown
            return None
        return gained / way if abs(gained) > noise else 0.0

    @property
    def runs(self) -> str:
        """The runs in words: learners, objective, episodes and seeds."""
        names, seeds = ", ".join(one.label for one in self.learners), self.made["seed_numbers"]
        return f"{names}; {self.objective.label}, {count_of('episode', self.episodes)}, seeds {seeds}"

    @property
    def made(self) -> dict[str, str]:
        """The seeds and the versions of the software, as columns of exported tables."""
        return {"seed_numbers": " ".join(map(str, self.seeds)), "versions": software()}

    @property
    def score_error(self) -> float:
        """How far values and means of policies may lie below the true ones; see `Record.score_error`."""
        return max((record.score_error for record in self._runs), default=0.0)

    def measure_name(self, measure: str) -> str:
        """Name of a measure; the name of a gap says so if the optimum is bracketed."""
        return f"gap to the {PROVEN}" if measure in ("gap", "exact") and self.error > 0.0 else MEASURES[measure][0]

    @property
    def band(self) -> str:
        """Description of the bands in tables and charts."""
        return band_name(len(self.seeds))

    def part(self, seeds: Sequence[int], names: Mapping[str, str] | None = None) -> Experiment:
        """The experiment on some of its seeds.

        Parameters
        ----------
        seeds
            Seeds of the experiment.
        names
            New names by label; other learners are left out. All learners by default.

        Returns
        -------
        An experiment that shares the records.
        """
        names = {one.label: one.label for one in self.learners} if names is None else names
        unknown = [seed for seed in seeds if seed not in self.seeds]
        if unknown:
            raise bad_value("seeds", unknown[0], f"be among those of the experiment, {one_line(self.seeds)}")
        places = [self.seeds.index(seed) for seed in seeds]
        return replace(
            self,
            seeds=tuple(seeds),
            learners=tuple(replace(one, label=names[one.label]) for one in self.learners if one.label in names),
            records={name: tuple(self.records[label][i] for i in places) for label, name in names.items()},
        )

    def values(self, label: str, measure: str = "gap") -> FloatArray:
        """Cumulative measure of every run, shape (seeds, episodes).

        Parameters
        ----------
        label
            The learner's name.
        measure
            "gap" or "exact" (best objective value minus that of the evaluated policy), "capped" (the same for the paper's
            numerical reference, cut at zero), "mean_regret" or "expected" (the same for means), or "return".

        Returns
        -------
        One row per seed.
        """
        _, by_episode = MEASURES[choice(measure, "measure", MEASURES)]
        for record in self.records[choice(label, "label", self.records)]:
            if (record, measure) not in self._cumulative:
                self._cumulative[record, measure] = np.cumsum(by_episode(record, self.objective))
        return np.array([self._cumulative[record, measure] for record in self.records[label]])

    def ends(self, measure: str) -> dict[str, FloatArray]:
        """Values after the last episode.

        Parameters
        ----------
        measure
            As in `values`; or "late_return", the mean return of the last tenth of the episodes; or "late_value", the objective
            value of the returns of these episodes, a noisy estimate; or "value", the objective value of the policy of the last
            episode.

        Returns
        -------
        One array by learner, with one value per seed.
        """
        if measure == "late_return":
            return {label: np.array(list(map(late_return, runs))) for label, runs in self.records.items()}
        if measure == "late_value":
            goal = self.objective
            return {
                label: np.array([late_return(record, objective=goal) for record in runs])
                for label, runs in self.records.items()
            }
        if measure == "value":
            return {
                label: np.array([record.value(self.objective)[-1] for record in runs])
                for label, runs in self.records.items()
            }
        return {label: self.values(label, measure)[:, -1] for label in self.records}

    def order(self, measure: str | None = None) -> list[dict[str, Any]]:
        """The learners, ranked by the mean of `ends`, the best first.

        Parameters
        ----------
        measure
            As in `ends`; by default that of `ranked_by`.

        Returns
        -------
        Rows with the learner, its mean, the mean difference `to_next` to the next learner (paired by seed) with its standard
        error, and whether the difference is `clear`: its 95 % t interval lies above 0. With one seed, `clear` is None.
        """
        measure = measure or self.ranked_by
        values, sign, size = self.ends(measure), -1.0 if measure.endswith(("return", "value")) else 1.0, self.size
        order = sorted(values, key=lambda label: (round(sign * float(values[label].mean()) / size, 9), label))
        unknown = dict.fromkeys(("to_next", "to_next_error", "clear"))
        rows: list[dict[str, Any]] = [{"learner": key, "mean": float(values[key].mean()), **unknown} for key in order]
        for row, (label, after) in zip(rows, pairwise(order), strict=False):
            distance = sign * (values[after] - values[label])
            row["to_next"] = float(distance.mean())
            if distance.size > 1:
                row["to_next_error"] = standard_error(distance)
                row["clear"] = row["to_next"] > float(margin(distance))
        return rows

    def beats(self) -> list[dict[str, Any]]:
        """For each pair of learners, the best first: the probability that a run of the first beats one of the other."""
        scale = (1.0 if self.known else -1.0) / self.size
        losses = {label: scale * ends for label, ends in self.ends(self.ranked_by).items()}
        return [
            {"learner": mine, "other": other, "probability": beats(losses[mine], losses[other])}
            for mine, other in permutations([row["learner"] for row in self.order()], 2)
        ]

    def curves(self, measure: str = "gap", points: int = 200) -> list[dict[str, Any]]:
        """Learning curves: one row per learner and episode, with the mean over seeds and its band.

        Parameters
        ----------
        measure
            As in `values`.
        points
            Episodes per curve; longer runs are thinned evenly.

        Returns
        -------
        Rows with learner, measure, episode, mean, low, high and the number of seeds.
        """
        shown_episodes = spread_indices(self.episodes, whole(points, "points", 1))
        rows = []
        for one in self.learners:
            values = self.values(one.label, measure)[:, shown_episodes]
            columns = (shown_episodes + 1, values.mean(axis=0), *mean_band(values, measure))
            for t, mean, low, high in zip(*(column.tolist() for column in columns), strict=True):
                row = {"learner": one.label, "measure": measure, "episode": t, "mean": mean, "low": low, "high": high}
                rows.append({**row, "seeds": len(self.seeds)})
        return rows

    def rows(self) -> list[dict[str, Any]]:
        """Final values: one row per learner, the smallest mean gap (or the largest objective value of the late returns) first.

        Returns
        -------
        Rows with the cumulative measures after the last episode (`gap` is that of the objective, `mean_regret` that of the
        mean), the mean return of the last tenth of the episodes and the objective value of the last policy, each as mean, low
        and high; the certified `optimum`, the value of `random` play and the `share` of the way between them (see `share`);
        how policies were scored; for every other learner the probability that a run of this one beats a run of that one
        (ties count one half); and a description of the band.
        """
        fixed = {"objective": self.objective.label, "episodes": self.episodes, "seeds": len(self.seeds)}
        won = {(pair["learner"], pair["other"]): pair["probability"] for pair in self.beats()}
        rows = {place["learner"]: {"learner": place["learner"], **fixed} for place in self.order()}
        for measure in ("gap", "mean_regret", "late_return", "value") if self.known else ("late_return", "late_value"):
            for label, values in self.ends(measure).items():
                (low,), (high,) = mean_band(values[:, None], measure)
                band = {f"{measure}_low": float(low), f"{measure}_high": float(high)}
                rows[label] |= {measure: float(values.mean()), **band}
        for label, row in rows.items() if self.known else ():
            row |= {"optimum": self.optimum, "random": self.random, "share": self.share(row["value"])}
            row["scores"] = ", ".join(dict.fromkeys(record.scores for record in self.records[label]))
        for label, row in rows.items():
            row |= {f"beats {other}": won.get((label, other)) for other in rows} | {"band": self.band}
        return list(rows.values())

    def chart(self, measure: str | None = None, *, log: str = "", title: bool | str = True) -> Any:
        """Learning curves with their bands, as an Altair chart, which can be combined with others.

        Parameters
        ----------
        measure
            As in `values`; the default is "gap" if the kernel is known, else "return".
        log
            Logarithmic axes: "x", "y" or "xy". A logarithmic y axis leaves out episodes before the first loss.
        title
            Whether the chart has its title and subtitle; a text replaces them.

        Returns
        -------
        altair.LayerChart
            `bqrl.save(chart, "curves.pdf")` writes it; .svg, .png, .html and .json work, too.
        """
        return views().draw_chart(self, measure, log=choice(log, "log", ("", "x", "y", "xy")), title=title)

    def figure(self, measures: Sequence[str] | None = None, *, columns: int = 2, **options: Any) -> Any:
        """Learning curves of several measures side by side, with one legend; the options are those of `Suite.figure`.

        The default is "gap" and "mean_regret" if the kernel is known, else "return".
        """
        measures = (("gap", "mean_regret") if self.known else ("return",)) if measures is None else measures
        panels = {self.measure_name(choice(measure, "measures", MEASURES)): (self, measure) for measure in measures}
        return views().draw_figure(panels, columns=columns, **options)

    def __repr__(self) -> str:
        names = ", ".join(one.label for one in self.learners)
        counts = f"{count_of('episode', self.episodes)}, {count_of('seed', len(self.seeds))}"
        return f"Experiment({names}; {self.objective.label}, {counts})"
