"""Plans as one JSON document: what `plan.json` holds and `--json` prints."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bqrl
from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.plan import Plan, objective_value
from bqrl.planners.target import GuaranteeCurve
from bqrl.reports.words import meaning

FORMAT = "bqrl plan 1"


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Plans of one problem at several levels, and what to compare them with."""

    name: str
    mdp: MDP
    plans: tuple[Plan, ...]
    neutral: Law | None  # return of the risk-neutral policy; None where that is what was planned
    settings: Mapping[str, Any] = field(default_factory=dict)
    curve: GuaranteeCurve | None = None
    shares: tuple[FloatArray, ...] = ()  # (H, S, A) per plan: how often each action is played where
    seconds: float = 0.0
    neutral_upper: Law | None = None  # the other end where `neutral` is a bracket


def document(solved: Solved) -> dict[str, Any]:
    """Everything worth keeping of the plans, as plain values without NaN or infinity."""
    return plain(
        {
            "format": FORMAT,
            "model": sizes(solved.name, solved.mdp),
            "settings": dict(solved.settings),
            "levels": [_level(plan, solved.neutral, solved.neutral_upper) for plan in solved.plans],
            "seconds": solved.seconds,
            "versions": versions(),
        }
    )


def sizes(name: str, mdp: MDP) -> dict[str, Any]:
    """What the problem is called and how large it is."""
    first = np.flatnonzero(mdp.mu)
    return {
        "name": name,
        "states": mdp.S,
        "actions": mdp.A,
        "horizon": mdp.H,
        "discount": mdp.discount,
        "start": mdp.state_label(int(first[0])) if first.size == 1 else f"a law over {first.size} states",
        "transitions": int(mdp.successor.size),
    }


def _level(plan: Plan, neutral: Law | None, neutral_upper: Law | None) -> dict[str, Any]:
    level = plan.summary()
    level["law_exact"] = plan.law_upper is None
    level["target"] = getattr(plan.policy, "target", None)
    level["randomized_upper"] = plan.details.get("randomized")
    level["risk_neutral"] = (
        None if neutral is None else _neutral(neutral, neutral_upper or neutral, plan.tau, plan.beta)
    )
    level["meaning"] = meaning(level)
    return level


def _neutral(low: Law, high: Law, tau: float, beta: float) -> dict[str, float]:
    return {"value": objective_value(low, tau, beta), "upper": objective_value(high, tau, beta), "mean": low.mean()}


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    import numba

    python = ".".join(map(str, sys.version_info[:3]))
    return {
        "bqrl": bqrl.__version__,
        "python": python,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def plain(value: Any) -> Any:
    """The same value in types that JSON knows; what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part) for part in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def to_json(value: Any, *, ascii_only: bool = False) -> str:
    """Strict JSON, indented; names as they are written unless `ascii_only`, which every terminal and pipe can carry."""
    return json.dumps(plain(value), indent=2, ensure_ascii=ascii_only, allow_nan=False)
