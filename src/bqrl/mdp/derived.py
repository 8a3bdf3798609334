"""Values derived from a model, computed once and kept with it; the function that computes them is the only owner.

    @per_model          kept with this model alone: the value depends on its probabilities
    @per_structure      shared with the twins that `MDP.with_probability` makes: it depends on outcomes and rewards only

What is kept is handed out again, so functions return frozen records and read-only arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from bqrl.mdp.model import MDP

T = TypeVar("T")
P = ParamSpec("P")
Derived = Callable[Concatenate["MDP", P], T]


def per_model(function: Derived[P, T]) -> Derived[P, T]:
    """Keep the value of `function(mdp, *hashable)` with the model."""
    return _kept(function, "_per_model")


def per_structure(function: Derived[P, T]) -> Derived[P, T]:
    """Keep the value of `function(mdp, *hashable)` with the model and its twins."""
    return _kept(function, "_per_structure")


def _kept(function: Derived[P, T], store: str) -> Derived[P, T]:
    @wraps(function)
    def kept(mdp: MDP, *args: P.args, **kwargs: P.kwargs) -> T:
        values: dict[Any, Any] = getattr(mdp, store)
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in values:
            values[key] = function(mdp, *args, **kwargs)
        found: T = values[key]
        return found

    return kept  # type: ignore[return-value]
