"""A problem by its text (a model file, a named problem or a Gymnasium id), with its words and with notices for the user."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from bqrl.checks import nearest
from bqrl.envs import about, make, names
from bqrl.errors import ArgumentError, ModelWarning
from bqrl.mdp.as_env import MDPEnv
from bqrl.mdp.files import ending
from bqrl.mdp.files.facts import USUAL_HORIZON
from bqrl.mdp.from_gymnasium import changing_wrapper, from_gymnasium, time_limit
from bqrl.mdp.load import load_model, states_horizon
from bqrl.mdp.model import MDP
from bqrl.mdp.validation import check_horizon
from bqrl.results.words import Words

ASSUMED = "{} states no horizon; assuming {} stages (set --horizon)"
Wording = Mapping[str, str | None]  # words of the user by option, as for `Words.of`


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoadedProblem:
    """A problem with its words and with notices for the user."""

    text: str  # by which it was read
    source: Any  # an MDP, or an environment with unknown kernel
    words: Words
    horizon: int | None = None  # of an environment
    notices: tuple[str, ...] = ()

    @property
    def mdp(self) -> MDP | None:
        """The model, if the kernel is known."""
        return self.source if isinstance(self.source, MDP) else None

    def model(self, remedy: str) -> MDP:
        """The model; ArgumentError with the remedy if the kernel is not known."""
        if not isinstance(self.source, MDP):
            raise ArgumentError(f"{self.text} does not expose its transition probabilities; {remedy}")
        return self.source


def read_problem(
    text: str, wording: Wording, *, columns: dict[str, str] | None = None, rewards: str | None = None,
    horizon: int | None = None, start: Any = None, discount: float | None = None,
) -> LoadedProblem:  # fmt: skip
    """The problem of a text; an environment with a transition table becomes a model, others are only played.

    `columns` and `rewards` are those of `load_model`; `horizon`, `start` and `discount` replace those of the problem.
    """
    path, short = Path(text), text.removeprefix("bqrl/").removesuffix("-v0")
    changes = {"start": start, "discount": discount}
    if ending(path) is not None or path.is_file():
        return _from_file(text, wording, horizon, changes | {"columns": columns, "rewards": rewards})
    for name, value, kinds in (("columns", columns, ".csv, .xlsx and .parquet"), ("rewards", rewards, ".umb and .drn")):
        if value is not None:
            raise ArgumentError(f"{name} must be given for {kinds} files only, got {text[:80]!r}; omit it", name=name)
    if short in names():
        known, mdp = about(short), make(short).replace(horizon=horizon, **changes)
        return _model(text, mdp, Words.of(mdp, wording, command=True, title=short, unit=known.unit, stage=known.stage))
    return _from_gymnasium(text, wording, horizon, changes)


def _model(text: str, mdp: MDP, words: Words, *notices: str) -> LoadedProblem:
    """The problem of a model, with a notice if its discount factor looks like a rate."""
    if mdp.discount < 0.5:
        rate, factor = f"{100 * mdp.discount:.6g} %", 1 / (1 + mdp.discount)
        notices += (f"the discount factor {mdp.discount:g} is small; for a discount rate of {rate} use {factor:.6g}",)
    return LoadedProblem(text=text, source=mdp, words=words, notices=notices)


def _from_file(text: str, wording: Wording, horizon: int | None, given: dict[str, Any]) -> LoadedProblem:
    """The model in a file, with notices about ignored parts."""
    path = Path(text)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            mdp: MDP = load_model(path, horizon=horizon, **given)
    except FileNotFoundError as error:
        beside = [other.name for other in path.parent.glob("*")] if not path.is_symlink() else []
        raise FileNotFoundError(f"{error}{nearest(path.name, beside, listed=False)}") from None
    notices = [f"{path.name}: {notice.message}" for notice in caught]
    if horizon is None and mdp.stationary and not states_horizon(path):
        notices.append(ASSUMED.format(text, mdp.H))
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.stem
    return _model(text, mdp, Words.of(mdp, wording, command=True, title=name), *notices)


def _from_gymnasium(given: str, wording: Wording, horizon: int | None, changes: dict[str, Any]) -> LoadedProblem:
    """The environment of that id, or its model if it exposes one."""
    if given not in gymnasium.registry and ":" not in given:
        known = [*names(), *(name for name in gymnasium.registry if not name.startswith("bqrl/"))]
        kinds = "a model file (.csv, .xlsx, .parquet, .npz, .json, .umb, .drn) nor a named problem nor a Gymnasium id"
        near = nearest(given, known, listed=False) or nearest(given, names())
        raise ArgumentError(f"{given[:80]!r} is neither {kinds}{near}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about versions; real problems raise errors
            env: Any = gymnasium.make(given)
    except gymnasium.error.Error as fault:
        raise ArgumentError(str(fault)) from None
    core, plain = env.unwrapped, changing_wrapper(env) is None
    if plain and isinstance(core, MDPEnv):
        mdp = core.mdp.replace(horizon=horizon, **changes)
        return _model(given, mdp, Words.of(mdp, wording, command=True, title=given))
    stages = time_limit(env) if horizon is None else horizon
    notices = () if stages is not None else (ASSUMED.format(given, USUAL_HORIZON),)
    stages = check_horizon(USUAL_HORIZON if stages is None else stages)
    words = Words.of(None, wording, command=True, title=given)
    if plain and getattr(core, "P", None) is not None:
        return _model(given, from_gymnasium(env, horizon=stages).replace(**changes), words, *notices)
    for name, value in changes.items():
        if value is not None:
            raise ArgumentError(
                f"--{name} needs a model, and {given} does not expose its transition probabilities; leave it out"
            )
    return LoadedProblem(text=given, source=env, words=words, horizon=stages, notices=notices)
