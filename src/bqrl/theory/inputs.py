"""Checked inputs and read-only outputs that several statements share."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import numbers
from bqrl.errors import ArgumentError, ArgumentTypeError, GridError
from bqrl.laws.law import Law
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import Policy
from bqrl.planners.evaluate import evaluate
from bqrl.planners.target import GuaranteeCurve, guarantee_curve

NO_GRID = "requires returns on an exact grid, and this problem has none; round the rewards or drop the discount"


def as_problem(value: Any, name: str = "mdp") -> MDP:
    """`value` if it is an MDP."""
    if not isinstance(value, MDP):
        raise ArgumentTypeError(
            f"{name} must be an MDP, got {type(value).__name__}; build one with bqrl.MDP, bqrl.load or bqrl.envs.make",
            name=name,
            value=value,
        )
    return value


def exact_curve(mdp: Any, purpose: str) -> GuaranteeCurve:
    """The guarantee curve of `mdp`; GridError if it is only a bracket."""
    curve = guarantee_curve(as_problem(mdp))
    if not curve.exact:
        raise GridError(f"{purpose} {NO_GRID}")
    return curve


def exact_law(mdp: MDP, policy: Policy, purpose: str) -> Law:
    """The exact return law of `policy`; GridError if only a bracket is known."""
    law, upper = evaluate(mdp, policy, bracket=True)
    if upper is not law:
        raise GridError(f"{purpose} {NO_GRID}")
    return law


def as_buffers(value: Any, tau: float, name: str = "beta") -> FloatArray:
    """`value` as an array of buffers in (0, tau]."""
    betas = numbers(value, name)
    wrong = ~((betas > 0.0) & (betas <= tau))
    if wrong.any():
        raise ArgumentError(
            f"{name} must be in (0, tau] = (0, {tau:g}], got {betas[wrong].flat[0]:g}", name=name, value=value
        )
    return betas


def read_only(array: Any) -> Any:
    """A view of `array` that cannot be written to."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
