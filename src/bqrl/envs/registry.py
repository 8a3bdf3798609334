"""The problems by name, as models and as Gymnasium environments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from bqrl.envs.asset_selling import asset_selling
from bqrl.mdp.gymnasium import MDPEnv
from bqrl.mdp.model import MDP

ENVS: dict[str, Callable[..., MDP]] = {"AssetSelling": asset_selling}


def names() -> list[str]:
    """Names of the problems that `make` builds; "bqrl/<name>-v0" is their Gymnasium id.

    >>> names()
    ['AssetSelling']
    """
    return sorted(ENVS)


def make(name: str, **params: Any) -> MDP:
    """The problem called `name` (or by its Gymnasium id), with the parameters of its builder.

    >>> make("AssetSelling", offers=5, start=2)
    MDP(H=10, S=6, A=2, start=2, 32 transitions, stationary)
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a string such as 'AssetSelling', got {type(name).__name__}")
    short = name.removeprefix("bqrl/").removesuffix("-v0")
    if short not in ENVS:
        raise ValueError(f"there is no problem called {name[:60]!r}{_nearest(short, ENVS)}")
    known = inspect.signature(ENVS[short]).parameters
    for given in params:
        if given not in known:
            raise TypeError(f"{short} has no parameter {given!r}{_nearest(given, known)}")
    return ENVS[short](**params)


def make_env(name: str = "AssetSelling", render_mode: str | None = None, **params: Any) -> MDPEnv:
    """The Gymnasium environment of a named problem; gymnasium.make calls this."""
    return MDPEnv(make(name, **params), render_mode=render_mode)


def _nearest(given: str, valid: Iterable[str]) -> str:
    choices = {choice.lower(): choice for choice in valid}
    near = get_close_matches(given.lower(), choices, 1, cutoff=0.5)
    return f"; did you mean {choices[near[0]]!r}?" if near else f"; choose from {', '.join(choices.values())}"
