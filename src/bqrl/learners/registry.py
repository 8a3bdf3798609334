"""The learners by name. A learner is one file and one entry here; its class has its name, label, colour and parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, choice, one_line, unknown_argument
from bqrl.errors import ArgumentTypeError
from bqrl.laws.objectives import Buffered, CVaR, Objective
from bqrl.learners.code import load_learner
from bqrl.learners.envelope import Envelope
from bqrl.learners.ppo import PPO
from bqrl.learners.protocol import Learner, Task
from bqrl.learners.psrl import PSRL
from bqrl.learners.q_learning import QLearning
from bqrl.learners.qr_q import QRQLearning
from bqrl.learners.sarsa import Sarsa
from bqrl.learners.sb3 import SB3
from bqrl.learners.target_q import TargetQ
from bqrl.learners.thompson import Thompson
from bqrl.learners.trpo import TRPO
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.learners.ucbvi import UCBVI
from bqrl.learners.var_q import VaRQ

LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (PSRL, UCBBQRL, UCBVI, Thompson, QLearning, Sarsa, PPO, TRPO, TargetQ, VaRQ, QRQLearning)
}
# learners that require an extra
ADAPTERS: dict[str, type[Learner]] = {learner.name: learner for learner in (Envelope, SB3)}

Maker = Callable[..., Learner]  # a learner class, or a function (task, rng) -> Learner


def find_learner(learner: Any, *folders: Path) -> Maker:
    """Return the learner class with this name or at "module:Class" or "file.py:Class"; a class or function unchanged.

    Files and modules may lie in the `folders`, by default in the current one.
    """
    if isinstance(learner, str):
        everyone = LEARNERS | ADAPTERS
        if ":" not in learner:
            if learner.endswith(".py"):
                raise bad_value("learner", learner, "name a class of the file", remedy=f"write {learner}:CLASS")
            return everyone[choice(learner, "learner", everyone)]
        address, learner = learner, load_learner(learner, *folders)
        if known_learner(learner) is None and (inspect.isclass(learner) or not callable(learner)):
            raise bad_value("learner", address, "name a Learner class or a function (task, rng)")
    if not callable(learner) or (inspect.isclass(learner) and not issubclass(learner, Learner)):
        raise bad_type("learner", learner, "be a name, a Learner class or a function (task, rng)")
    if missing := sorted(getattr(learner, "__abstractmethods__", ())):
        raise bad_type("learner", learner, f"have the method {' and '.join(missing)}", learner.__name__)
    return learner


def known_learner(learner: Any) -> type[Learner] | None:
    """Return the class of a learner that is given by name or as a class; None for other learners."""
    if isinstance(learner, str) and ":" in learner:
        learner = find_learner(learner)
    if isinstance(learner, str):
        return (LEARNERS | ADAPTERS).get(learner)
    return learner if inspect.isclass(learner) and issubclass(learner, Learner) else None


def everyone(objective: Objective | None = None) -> list[tuple[str, dict[str, Any]]]:
    """Return all learners that serve an objective, with the variants that a comparison runs, as names with parameters."""
    return [
        (name, {} if planner is None else {"planner": planner})
        for name, learner in LEARNERS.items()
        if objective is None or serves(learner, objective)
        for planner in (None, *learner.variants)
    ]


def colour_of(learner: Any, params: Mapping[str, Any]) -> str:
    """Return the colour of a learner, or of its variant; "" if it has none."""
    found = known_learner(learner)
    if found is None:
        return ""
    return found.variants.get(str(params.get("planner")), found.colour) if found.variants else found.colour


def check_params(maker: Maker, params: Mapping[str, Any]) -> None:
    """Raise ArgumentTypeError unless the learner has every parameter."""
    signature = inspect.signature(maker.__init__ if inspect.isclass(maker) else maker)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return
    known = [name for name in signature.parameters if name not in ("self", "task", "rng")]
    for name in params:
        if name not in known:
            raise unknown_argument(_name_of(maker) or "the learner", name, params[name], known)


def make_learner(maker: Maker, task: Task, rng: np.random.Generator, params: Mapping[str, Any]) -> Learner:
    """Return the learner; a TypeError of its own code, which does not check its parameters, becomes one that names them."""
    try:
        return maker(task, rng, **params)
    except TypeError as fault:
        if not params or isinstance(fault, ArgumentTypeError):
            raise
        given = ", ".join(f"{name}={one_line(value)}" for name, value in params.items())
        who = f"the learner {_name_of(maker)}".rstrip()
        text = f"{who} must accept its parameters, got {given}: {fault}; pass values of the types that it expects"
        raise ArgumentTypeError(text, name=next(iter(params)), value=dict(params)) from fault


def _name_of(maker: Maker) -> str:
    return str(getattr(maker, "name", "") or getattr(maker, "__name__", ""))


def serves(maker: Maker, objective: Objective) -> bool:
    """Return whether the learner can maximise this kind of objective; CVaR is a Buffered whose buffer is its level."""
    kinds = getattr(maker, "objectives", None)
    own: Any = CVaR if isinstance(objective, Buffered) and objective.beta == objective.tau else type(objective)
    return kinds is None or own in kinds or type(objective) in kinds


def check_served(maker: Maker, objective: Objective) -> None:
    """Raise ArgumentError if the learner cannot maximise this kind of objective, or if records cannot hold it."""
    if not objective.text:
        remedy = "choose one that can be written as text, such as cvar:0.1"
        raise bad_value("objective", objective, "have a written form in records", objective.label, remedy=remedy)
    if not serves(maker, objective):
        names = [kind.__name__ for kind in maker.objectives]  # type: ignore[attr-defined]
        rule = f"be {'one of ' if names[1:] else ''}{', '.join(names)} for the learner {getattr(maker, 'name', '')}"
        others = [name for name, one in LEARNERS.items() if one.objectives is None]
        remedy = f"{', '.join(others)} learn for the mean and can be scored by any objective"
        raise bad_value("objective", objective, rule, objective.label, remedy=remedy)
