"""Values derived from a model, computed once and stored with it; only the function that computes a value writes it.

    @per_model          stored with this model alone, because the value depends on its probabilities
    @per_structure      shared with the models that `MDP.with_probability` makes from it, because the value depends only on
                        outcomes and rewards

Every caller receives the same object, so the functions return frozen records and read-only arrays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

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


def digest(mdp: Any) -> str:
    """Return a digest of everything that determines a problem: problems with the same digest are the same."""
    sha = hashlib.sha256(repr((mdp.H, mdp.S, mdp.A, mdp.discount, mdp.available.shape)).encode())
    for array in (mdp.mu, mdp.row_start, mdp.successor, mdp.probability, mdp.reward, mdp.known):
        sha.update(np.ascontiguousarray(array).tobytes())
    if mdp.noise is not None:
        sha.update(repr((mdp.noise.law_start.tolist(), mdp.noise.known, mdp.noise.events_observed)).encode())
        for array in (mdp.noise.row_law, mdp.noise.pair_outcome):
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()
