"""Checks of inputs that several statements share."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import bad_value, number, numbers
from bqrl.errors import GridError
from bqrl.laws.law import Law
from bqrl.mdp.arrays import BoolArray, FloatArray
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.evaluate import evaluate
from bqrl.planners.room import exact_grid
from bqrl.planners.target import GuaranteeCurve
from bqrl.policies.protocol import Policy

NO_GRID = "requires returns on an exact grid, got a problem without one; round the rewards or drop the discount"


def as_level(tau: Any) -> float:
    """Return `tau` as a quantile level in (0, 1)."""
    return number(tau, "tau", 0.0, 1.0, "()")


def columns_of(mdp: MDP, purpose: str) -> Grid:
    """Return the exact grid of `mdp`; GridError if it has none."""
    columns = exact_grid(mdp)
    if columns is None:
        raise GridError(f"{purpose} {NO_GRID}", name="mdp")
    return columns


def exact_curve(mdp: MDP | str, purpose: str) -> GuaranteeCurve:
    """Return the guarantee curve of `mdp`; GridError if it is only a bracket."""
    curve = guarantee_curve(mdp)
    if not curve.exact:
        raise GridError(f"{purpose} {NO_GRID}", name="mdp")
    return curve


def exact_law(mdp: MDP, policy: Policy, purpose: str) -> Law:
    """Return the exact return law of `policy`; GridError if only a bracket is known."""
    law, upper = evaluate(mdp, policy, bracket=True)
    if upper is not law:
        raise GridError(f"{purpose} {NO_GRID}", name="mdp")
    return law


def as_buffers(value: Any, tau: float, name: str = "beta") -> FloatArray:
    """Return `value` as an array of buffers in (0, tau]."""
    betas = numbers(value, name)
    outside = ~((betas > 0.0) & (betas <= tau))
    if outside.any():
        raise bad_value(name, value, f"be in (0, tau] = (0, {tau:g}]", f"{betas[outside].flat[0]:g}")
    return betas


def reachable_outcomes(mdp: MDP, h: int) -> BoolArray:
    """Return which outcomes of stage h belong to a state that can be reached."""
    return np.repeat(np.repeat(mdp.reachable[h], mdp.A), np.diff(mdp.stage(h).row_start))
