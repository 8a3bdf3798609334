"""Values derived from a model, computed once and stored with it; only the function that computes a value writes it.

    @per_model          stored with this model alone, because the value depends on its probabilities
    @per_structure      shared with the models that `MDP.with_probability` makes from it, because the value depends only on
                        outcomes and rewards

Every caller receives the same object, so the functions return frozen records and read-only arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

M = TypeVar("M")  # the model
P = ParamSpec("P")
T = TypeVar("T")


def per_model(function: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Store the value of `function(mdp, *hashable)` with the model."""
    return _memoize(function, "_per_model")


def per_structure(function: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Store the value of `function(mdp, *hashable)` with the model and those that `with_probability` makes from it."""
    return _memoize(function, "_per_structure")


def _memoize(function: Callable[Concatenate[M, P], T], store: str) -> Callable[Concatenate[M, P], T]:
    @wraps(function)
    def stored(mdp: M, *args: P.args, **kwargs: P.kwargs) -> T:
        values: dict[Any, Any] = getattr(mdp, store)
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in values:
            values[key] = function(mdp, *args, **kwargs)
        found: T = values[key]
        return found

    return stored  # type: ignore[return-value]
