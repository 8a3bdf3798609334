"""Checks and rescaling of action probabilities, shared by policies, evaluation and learners."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bqrl.checks import exact_text
from bqrl.errors import PolicyError
from bqrl.loops.draws import draw
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.model import MDP

ACTIONS_TOL = 1e-6  # tolerance of the sum of action probabilities: networks compute them in single precision


def check_shares(
    shares: FloatArray, available: BoolArray, met: BoolArray, state_label: Callable[[int], str] = str,
    action_label: Callable[[int], str] = str, first: int = 0,
) -> None:  # fmt: skip
    """Raise PolicyError unless `shares` (H, S, A) are probabilities of `available` actions in the states `met` (H, S).

    The stages are counted from `first`.
    """
    sums = shares.sum(axis=2)
    bad = met & ~(np.abs(sums - 1.0) <= ACTIONS_TOL)
    if bad.any():
        h, s = (int(i) for i in np.argwhere(bad)[0])
        where, h = f"in state {state_label(s)} at stage {first + h + 1}", first + h
        raise PolicyError(
            f"action probabilities must sum to 1, got {exact_text(float(sums[h - first, s]))} {where}", stage=h, state=s
        )
    wrong = met[:, :, None] & ((shares < 0.0) | (~available & (shares > 0.0)))
    if wrong.any():
        h, s, a = (int(i) for i in np.argwhere(wrong)[0])
        p, rule = shares[h, s, a], "be 0 where the action is not available"
        where = f"for action {action_label(a)} in state {state_label(s)} at stage {first + h + 1}"
        message = f"action probabilities must {'not be negative' if p < 0.0 else rule}, got {p:g} {where}"
        raise PolicyError(message, stage=first + h, state=s, action=a)


def drawn_action(
    shares: FloatArray, u: float, h: int, available: BoolArray | None = None, state: str = "",
    action_label: Callable[[int], str] = str,
) -> int:  # fmt: skip
    """Return the action that a uniform draw selects from probabilities (A,) at stage `h`; PolicyError unless they are valid."""
    exists = np.ones(shares.size, bool) if available is None else available
    check_shares(shares[None, None], exists[None, None], np.ones((1, 1), bool), lambda _: state, action_label, h)
    return int(draw(shares.tolist(), 0, shares.size, u))


def pair_shares(mdp: MDP, h: int, s: IntArray, shares: FloatArray) -> FloatArray:
    """Return action probabilities (n, A) in the states `s` (n,), rescaled to sum to 1; PolicyError unless they are valid."""
    if shares.shape[1] != mdp.A:
        raise PolicyError(f"action probabilities must have {mdp.A} entries, got {shares.shape[1]}", stage=h)
    return some_shares(shares, mdp.stage(h).available[s], h, lambda i: mdp.state_label(int(s[i])), mdp.action_label)


def some_shares(
    shares: FloatArray, exists: BoolArray, h: int, state_label: Callable[[int], str] = str,
    action_label: Callable[[int], str] = str,
) -> FloatArray:  # fmt: skip
    """Return the action probabilities (n, A) of a stage, rescaled to sum to 1; PolicyError unless they are valid."""
    check_shares(shares[None], exists[None], np.ones((1, len(shares)), bool), state_label, action_label, h)
    return shares / shares.sum(axis=1, keepdims=True)


def draw_actions(shares: FloatArray, u: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the actions (n,) that uniform draws select from probabilities (n, A), and what is left of the draws.

    What is left is uniform, too, and independent of the action: it can draw the next outcome.
    """
    above, rows = np.cumsum(shares, axis=1), np.arange(u.size)
    last = shares.shape[1] - 1 - np.argmax(shares[:, ::-1] > 0.0, axis=1)
    a = np.minimum(np.count_nonzero(above <= u[:, None], axis=1), last)
    left = (u - above[rows, a] + shares[rows, a]) / shares[rows, a]
    return a, np.clip(left, 0.0, np.nextafter(1.0, 0.0))


def shares_in(mdp: MDP, shares: FloatArray) -> FloatArray:
    """Return action probabilities (H, S, A) rescaled to sum to 1; they are uniform in states that cannot be reached."""
    met = mdp.reachable[:-1]
    check_shares(shares, np.broadcast_to(mdp.available, shares.shape), met, mdp.state_label, mdp.action_label)
    sums = np.where(met, shares.sum(axis=2), 1.0)
    return np.where(met[:, :, None], shares / sums[:, :, None], uniform(mdp))


def uniform(mdp: MDP) -> FloatArray:
    """Return equal probabilities of all available actions, shape (H, S, A)."""
    available = np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A))
    return available / np.maximum(available.sum(axis=2, keepdims=True), 1)
