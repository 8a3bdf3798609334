"""The problems by name, as models and as Gymnasium environments.

Each problem is one module of this package and one entry of `bqrl/problems.py`, from which it is also registered with Gymnasium.
The module's docstring tells the story and the source of the numbers, UNIT names the unit of returns, STAGE names the period of a
stage, and the builder has the module's name. Modules load on first use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from bqrl.checks import bad_type, bad_value, nearest, unknown_argument
from bqrl.mdp.as_env import MDPEnv
from bqrl.mdp.model import MDP
from bqrl.problems import PROBLEMS


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """Facts about a named problem, known without building it."""

    name: str
    id: str  # Gymnasium id
    summary: str  # one line
    story: str  # the module's docstring
    unit: str  # unit of returns
    stage: str  # the period of a stage, such as "month"
    build: Callable[..., MDP]


def names() -> list[str]:
    """Return the names of the problems that `make` builds; the Gymnasium id of each is "bqrl/<name>-v0".

    Returns
    -------
    list of str
        The names in alphabetical order.

    Examples
    --------
    >>> names()[:2]
    ['AmericanPut', 'AssetSelling']
    """
    return list(PROBLEMS)


def about(name: str) -> About:
    """Return the story, units and builder of a named problem.

    Parameters
    ----------
    name : str
        Name of the problem, or its Gymnasium id.

    Returns
    -------
    About
        The facts, without building the problem.

    Examples
    --------
    >>> about("Inventory").unit, about("Inventory").stage
    ('dollars', 'month')
    """
    if not isinstance(name, str):
        raise bad_type("name", name, "be a string such as 'AssetSelling'", type(name).__name__)
    short = name.removeprefix("bqrl/").removesuffix("-v0")
    if short not in PROBLEMS:
        raise bad_value("name", name, "be a known problem", f"{name[:60]!r}{nearest(short, PROBLEMS)}")
    module = import_module(f"bqrl.envs.{PROBLEMS[short]}")
    story = inspect.getdoc(module) or ""
    return About(
        name=short, id=f"bqrl/{short}-v0", summary=" ".join(story.split("\n\n")[0].split()), story=story, unit=module.UNIT,
        stage=module.STAGE, build=getattr(module, PROBLEMS[short]),
    )  # fmt: skip


def make(name: str, **params: Any) -> MDP:
    """Return a named problem.

    Parameters
    ----------
    name : str
        Name of the problem, or its Gymnasium id; `names()` lists the names.
    **params
        Parameters of the problem's builder, e.g. `offers` of "AssetSelling".

    Returns
    -------
    MDP
        The problem.

    Examples
    --------
    >>> make("AssetSelling", offers=5, start=2)
    MDP(H=10, S=6, A=2, start=2, 32 transitions, stationary)
    """
    problem = about(name)
    valid = inspect.signature(problem.build).parameters
    for given in params:
        if given not in valid:
            raise unknown_argument(problem.name, given, params[given], valid)
    return problem.build(**params)


def make_env(name: str = "AssetSelling", render_mode: str | None = None, **params: Any) -> MDPEnv:
    """Return the Gymnasium environment of a named problem; gymnasium.make("bqrl/AssetSelling-v0") calls this.

    Parameters
    ----------
    name : str
        Name of the problem.
    render_mode : str, optional
        As in Gymnasium.
    **params
        Parameters of the problem's builder.

    Returns
    -------
    MDPEnv
        The environment.

    Examples
    --------
    >>> make_env("AssetSelling", offers=5, start=2).observation_space
    Discrete(6)
    """
    return MDPEnv(make(name, **params), render_mode=render_mode)
