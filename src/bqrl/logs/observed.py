"""What a log shows: visits, radii, states that it leaves open, and the returns of the policy that wrote it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bqrl.checks import bad_value, exact_text
from bqrl.display import count_of
from bqrl.errors import ArgumentError
from bqrl.laws.interval import lower_end, quantile_interval, share_interval
from bqrl.laws.law import Law
from bqrl.laws.objectives import Buffered, Objective, Quantile, check_objective
from bqrl.logs.balls import Balls
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.planners.chance import Chance
from bqrl.planners.facts import OpenStates
from bqrl.planners.terminal import Utility


def _law(returns: FloatArray) -> Law:
    """Return the empirical law."""
    return Law(returns, np.full(returns.size, 1.0 / returns.size))


def _hits(goal: Chance, returns: FloatArray) -> int:
    """Return how many returns, which may be infinite, reach the target."""
    finite = returns[np.isfinite(returns)]
    reached = round(goal(_law(finite)) * finite.size) if finite.size else 0
    return reached + int(np.count_nonzero(returns == math.inf))


def promised_levels(given: Objective | float, beta: float = 0.0) -> tuple[float, float]:
    """Return level and buffer of an objective, given as a record or as a level."""
    goal = check_objective(given, beta=beta)
    if not isinstance(goal, Quantile | Buffered):
        remedy = "estimate.solve gives the promise of any objective"
        raise bad_value("objective", goal, "be a Quantile or Buffered here", goal.label, remedy=remedy)
    return goal.tau, goal.beta


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Observed:
    """An empirical model with the numbers behind it; files hold these fields, and `Estimate` adds the promises.

    Attributes
    ----------
    mdp : MDP
        The empirical model. Unless a model was given, two states are added after those of the log: "(end)" absorbs
        complete episodes, and outcomes that the log does not show lead to "(unseen)". A state without any usable action
        has a single action, with the worst outcome.
    balls : Balls
        Visits and numbers of outcomes of the rows, from which the radii are computed.
    confidence : float
        Probability with which all promises hold.
    assumptions : tuple of str
        The assumptions on which the promises rest.
    returns : ndarray of shape (n,)
        Discounted returns of the n logged episodes that were not cut off.
    cut : ndarray of shape (m, 2)
        Bounds on the returns of the m others: what they earned plus the least and the most that could still come, infinite
        unless a `reward_range` or a model says.
    episodes, steps : int
        Episodes and steps of the log.
    tries : ndarray of shape (1 or H, S, A)
        Steps of the log that count towards each row: a step without a known successor does not.
    uncounted : ndarray of shape (1 or H, S)
        Steps of the log in each state that count towards no row.
    start_atoms : int
        Number of first states if their law is estimated; 0 if it is known.
    floor, lowest : float
        The lowest possible return, -inf if unseen outcomes count as a return below all others; the lowest of the others.
    added : tuple of int
        Indices of the states "(end)" and "(unseen)"; empty if a model was given.
    adaptive : bool
        Whether the log was declared adaptive or seems to be, so that the policy that wrote it has no promise.
    drift : float or None
        The p-value if a test found that the actions change along the log; None if it found nothing or was not needed.
    """

    mdp: MDP
    balls: Balls
    confidence: float
    assumptions: tuple[str, ...]
    returns: FloatArray
    episodes: int
    steps: int
    tries: IntArray
    uncounted: IntArray
    start_atoms: int
    floor: float
    lowest: float
    added: tuple[int, ...]
    adaptive: bool = False
    drift: float | None = None
    cut: FloatArray = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def counts(self) -> IntArray:
        """Observations behind every row, shape (1 or H, S, A): its tries or, if rows share noise, those of its law."""
        return self.balls.visits

    @property
    def counted(self) -> int:
        """Number of steps that count towards a row."""
        return int(self.tries.sum())

    @property
    def seen(self) -> BoolArray:
        """Which rows the log shows, shape (1 or H, S, A)."""
        return self.tries > 0

    @property
    def settled(self) -> BoolArray:
        """Which states, such as death, are known and were never acted in, shape (1 or H, S); nothing is to be decided there."""
        known = np.all(~self.mdp.available | self.balls.known, axis=2)
        return np.asarray(known & ~self.seen.any(axis=2) & ~self._untried_states())

    @property
    def radii(self) -> FloatArray:
        """l1 radius of every row, shape (1 or H, S, A); 2 where nothing is known, 0 where the row is known exactly."""
        return self.balls.radii()

    @property
    def logging_policy(self) -> FloatArray:
        """Frequencies of the logged actions, shape (1 or H, S, A); NaN in states that the log does not show."""
        totals = self.tries.sum(axis=2, keepdims=True)
        return np.where(totals > 0, self.tries / np.maximum(totals, 1), np.nan)

    @property
    def has_returns(self) -> bool:
        """Whether the return of an episode is known or bounded."""
        return bool(self.returns.size or np.isfinite(self.cut).any())

    def start_error(self, more: int = 1) -> float:
        """Return a bound on the total-variation distance between the true law of the first state and the observed frequencies.

        It is 0 if the law is known. `more` multiplies the number of episodes, for projections.
        """
        if not self.start_atoms:
            return 0.0
        T, d = self.episodes * more, self.start_atoms
        level = d * math.log(2.0) + math.log(d * (d + 1.0)) - math.log(self.balls.delta)
        return min(1.0, d / T + math.sqrt(level / (2.0 * T)))

    def logged(self, tau: Objective | float, beta: float = 0.0) -> dict[str, float]:
        """Return the objective of the old policy, the one that wrote the log, with an interval for independent episodes.

        Parameters
        ----------
        tau, beta
            As for `solve`: an objective, or a level with its buffer.

        Returns
        -------
        dict
            value, lower and upper. Each end fails with probability (1 - confidence) / 2 at most, and `lower` is the promise
            of the old policy. Episodes that were cut off may have any return within their bounds, which widens the interval;
            the value is NaN if it depends on their returns, because complete episodes may differ from the others. An end is
            infinite if too few returns are known or bounded, or if the log is adaptive. Quantiles and chances have two ends;
            for other objectives the upper one is infinite, and the lower one is without a lowest return, or for a `Utility`
            that is not declared increasing.
        """
        goal = check_objective(tau, beta=beta)
        if not self.episodes:
            raise ArgumentError("expected logged episodes, got a table of counts, which no policy logged", name="log")
        if not self.has_returns:
            message = "expected a complete episode, got only truncated ones, whose returns are unknown"
            raise ArgumentError(f"{message}; declare reward_range, or ends as terminal", name="ends")
        # The k-th lowest of lower bounds is at most the k-th lowest return, whatever made an episode end early.
        lowest, highest = (np.r_[self.returns, end] for end in self.cut.T)
        if isinstance(goal, Quantile):
            low, high = (quantile_interval(given, goal.tau, self.confidence) for given in (lowest, highest))
            value = low["value"] if low["value"] == high["value"] else math.nan
            lower, upper = low["lower"], high["upper"]
        else:
            value, upper = math.nan if self.cut.size else goal(_law(self.returns)), math.inf
            if isinstance(goal, Chance):
                hits = [_hits(goal, given) for given in (lowest, highest)]
                lower = share_interval(hits[0], self.episodes, self.confidence)[0]
                upper = share_interval(hits[1], self.episodes, self.confidence)[1]
            elif isinstance(goal, Utility) and not goal.increasing:
                lower = -math.inf
            else:
                lower = lower_end(goal, lowest, self.confidence, self.floor)
        if self.adaptive:
            lower, upper = -math.inf, math.inf
        return {"value": value, "lower": lower, "upper": upper}

    def old_promise(self, tau: Objective | float, beta: float = 0.0) -> float:
        """Return the promise of the old policy, the lower end of `logged`; -inf if it has none.

        It holds together with the promise of the new plan with the stated confidence, so the higher one may be chosen.

        Examples
        --------
        >>> import bqrl
        >>> log = {"episode": range(200), "state": [0] * 200, "action": [0] * 200, "reward": [1.0] * 200}
        >>> bqrl.fit(log, reward_range=(0, 1)).old_promise(tau=0.5)
        1.0
        """
        return self.logged(tau, beta)["lower"] if self.has_returns else -math.inf

    def _untried_states(self) -> BoolArray:
        """Return the states of the log in which no action was tried and no row is known, shape (1 or H, S)."""
        if not self.added:
            return np.zeros(self.counts.shape[:2], bool)
        mdp, first = self.mdp, self.mdp.row_start[:-1].reshape(self.counts.shape)[:, :, 0]
        first = np.minimum(first, mdp.successor.size - 1)
        lowest = self.lowest - 1e-9 * abs(self.lowest)
        reward = mdp.reward[0][first] if len(mdp.reward) == 1 else mdp.reward[np.arange(mdp.H)[:, None], first]
        lost = (mdp.successor[first] == self.added[1]) | (self._has_misses & (reward < lowest))
        lost[:, list(self.added)] = False
        return np.asarray(lost & (self.counts.sum(axis=2) == 0))

    def _open_states(self) -> list[OpenStates]:
        """Return the fact that the log shows states without any recorded successor, such as death; empty if there are none."""
        states = np.flatnonzero(np.any(self._untried_states() & (self.uncounted > 0), axis=0)).tolist()
        return [self._open(states)] if states else []

    def _open(self, states: list[int]) -> OpenStates:
        """Return the fact that no step in these states has a recorded successor."""
        names = tuple(self.mdp.state_label(s) for s in states)
        return OpenStates(states=names, steps=int(self.uncounted[:, states].sum()))

    @property
    def _has_misses(self) -> bool:
        """Whether unseen outcomes are modelled by a return below all others."""
        return bool(self.added) and self.floor == -math.inf

    def _describe(self, row: tuple[int, ...], radii: FloatArray) -> dict[str, Any]:
        """Return one row as a dict of words and numbers."""
        k, s, a = row
        return {
            "stage": None if self.mdp.stationary else k + 1, "state": self.mdp.state_label(s),
            "action": self.mdp.action_label(a), "visits": int(self.tries[row]), "radius": float(radii[row]),
        }  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per row seen in the log: stage (from 1; None if pooled), state, action, visits, radius and outcomes."""
        radii = self.radii
        return [
            self._describe((k, s, a), radii) | {"outcomes": int(self.balls.outcomes[k, s, a])}
            for k, s, a in np.argwhere(self.seen).tolist()
        ]

    def coverage(self) -> dict[str, Any]:
        """Return how much the log shows: numbers of episodes, steps and rows, and the median visits of the rows seen."""
        n, states = self.tries[self.seen], self.mdp.S - len(self.added)
        return {
            "episodes": self.episodes, "steps": self.steps, "counted_steps": self.counted,
            "rows_seen": int(n.size), "rows": int(np.count_nonzero(~self.settled[:, :states])) * self.mdp.A,
            "median_visits": float(np.median(n)) if n.size else 0.0,
            "rows_without_information": int(np.count_nonzero(self.radii[self.seen] >= 2.0)),
        }  # fmt: skip

    def __str__(self) -> str:
        seen = self.coverage()
        lines = [
            f"Estimate from {self.data_words()}, horizon {self.mdp.H}",
            f"  rows seen     {seen['rows_seen']} of {seen['rows']}, median visits {seen['median_visits']:g}",
            f"  too few       {seen['rows_without_information']} seen rows have radius 2: too few visits to be useful",
            f"  confidence    {exact_text(self.confidence)}",
            *(f"  assumes that  {text}" for text in self.assumptions),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        seen = count_of("row", int(self.seen.sum()))
        return f"Estimate({count_of(self._unit, self._size)}, {seen} seen, confidence={exact_text(self.confidence)})"

    @property
    def _unit(self) -> str:
        return "episode" if self.episodes else "transition"

    @property
    def _size(self) -> int:
        return self.episodes or self.steps

    def data_words(self, words: Any = None) -> str:
        """Return what the estimate was made from, such as "200 episodes, 600 steps", in the words of a result if given."""
        count = count_of if words is None else words.count
        steps = f", {count('step', self.steps)}" if self.episodes else ""
        return f"{count(self._unit, self._size)}{steps}"
