"""Objectives by name: the form "cvar:0.1" of the command line and of files.

An objective has this form if its class has a `name`; the table of planners in solve.py lists the classes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from bqrl.checks import bad_type, bad_value, nearest
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import CVaR, Objective
from bqrl.planners.solve import SOLVERS

KINDS = dict.fromkeys(kind for one in SOLVERS for kind in one.objectives)
OBJECTIVES: dict[str, Callable[..., Objective]] = {kind.name: kind for kind in KINDS if kind.name} | {"cvar": CVaR}


def _form(name: str) -> str:
    """The form of an objective, such as "buffered:TAU,BETA"."""
    numbers = ",".join(each.upper() for each in inspect.signature(OBJECTIVES[name]).parameters)
    return f"{name}:{numbers}" if numbers else name


FORMS = tuple(map(_form, OBJECTIVES))


def read_objective(text: str) -> Objective:
    """Return the objective that a text such as "cvar:0.1" describes.

    >>> read_objective("cvar:0.1"), read_objective("mean"), read_objective(" Mean-CVaR: 0.1, 0.5")
    (CVaR(0.1), Mean(), MeanCVaR(tau=0.1, weight=0.5))
    """
    if not isinstance(text, str):
        raise bad_type("objective", text, "be a text such as 'cvar:0.1'")
    name, _, rest = (part.strip() for part in text.lower().partition(":"))
    if name not in OBJECTIVES:
        rule = f"be one of {', '.join(FORMS)}"
        raise bad_value("objective", text, rule, f"{text[:40]!r}{nearest(name, OBJECTIVES, listed=False)}")
    try:
        numbers = [float(part) for part in rest.split(",")] if rest else []
        inspect.signature(OBJECTIVES[name]).bind(*numbers)
    except (ValueError, TypeError):
        raise bad_value("objective", text, f"be written as {_form(name)}", repr(text[:40])) from None
    try:
        return OBJECTIVES[name](*numbers)
    except ArgumentError as fault:
        raise ArgumentError(f"objective {text[:40]!r}: {fault}", name="objective", value=text) from None
