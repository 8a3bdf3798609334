"""PROBLEM on the command line: a model file, a named problem, or the id of a Gymnasium environment."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bqrl.checks import nearest
from bqrl.cli.model import first_states, read_model
from bqrl.mdp.build import check_horizon
from bqrl.mdp.files import ending, states_horizon

if TYPE_CHECKING:
    from bqrl.mdp.model import MDP
    from bqrl.results.words import Words

HORIZON = 100  # stages where neither the problem nor the command line says how many


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What to learn on, what to call it, and what was assumed about it."""

    name: str
    source: Any  # an MDP, or an environment whose kernel is not known
    mdp: MDP | None
    sizes: dict[str, Any]
    horizon: int | None = None  # of an environment
    assumed: str | None = None


def read_problem(
    given: str, horizon: int | None, start: str | None, discount: float | None, columns: str | None = None
) -> Problem:
    """The problem: environments with a toy-text table become models, others with discrete spaces are played as they are."""
    from bqrl.envs import names

    if horizon is not None:
        check_horizon(horizon)
    path = Path(given)
    short = given.removeprefix("bqrl/").removesuffix("-v0")
    is_file = ending(path) is not None or path.is_file()
    if is_file or short in names():
        name, mdp = read_model(given, horizon, start, discount, columns)
        unsaid = is_file and horizon is None and mdp.stationary and not states_horizon(path)
        return _model(name, mdp, _assumed(given, mdp.H) if unsaid else None)
    from gymnasium import registry

    if given not in registry and ":" not in given:
        ids = [name for name in registry if not name.startswith("bqrl/")]
        hint = nearest(given, [*names(), *ids])
        hint = hint if "did you mean" in hint else f"; problems: {', '.join(names())}"
        raise ValueError(
            f"{given[:80]!r} is neither a model file (.csv, .npz, .json) nor a named problem nor a Gymnasium id{hint}"
        )
    return _from_gymnasium(given, horizon, start, discount)


def _model(name: str, mdp: MDP, assumed: str | None = None) -> Problem:
    from bqrl.results.plans import sizes

    return Problem(name, mdp, mdp, sizes(name, mdp), None, assumed)


def problem_words(problem: Problem, title: str | None, unit: str | None, stage: str | None) -> Words:
    """The words of the problem: those that were given, else its own."""
    from bqrl.envs import about, names
    from bqrl.results.words import Words

    own_unit, own_stage = getattr(problem.mdp, "units", None) or "", "stage"
    short = problem.name.removeprefix("bqrl/").removesuffix("-v0")
    if short in names():
        own_unit, own_stage = about(short).unit, about(short).stage
    return Words(title or problem.name, own_unit if unit is None else unit, stage or own_stage)


def _assumed(given: str, stages: int) -> str:
    return f"{given} does not say the horizon: {stages} stages assumed; --horizon sets it"


def _from_gymnasium(given: str, horizon: int | None, start: str | None, discount: float | None) -> Problem:
    from bqrl.learners.gymnasium import HARMLESS, wrappers
    from bqrl.mdp.gymnasium import MDPEnv, from_gymnasium

    env = _make(given)
    limit = None if env.spec is None else env.spec.max_episode_steps
    core, plain = env.unwrapped, all(isinstance(layer, HARMLESS) for layer in wrappers(env))
    if plain and isinstance(core, MDPEnv):
        mdp = core.mdp.replace(horizon=horizon, discount=discount)
        return _model(given, mdp if start is None else mdp.replace(start=first_states(start)))
    stages = check_horizon(horizon if horizon is not None else limit or HORIZON)
    assumed = _assumed(given, stages) if horizon is None and limit is None else None
    if plain and getattr(core, "P", None) is not None:
        mdp = from_gymnasium(env, horizon=stages, discount=1.0 if discount is None else discount)
        return _model(given, mdp if start is None else mdp.replace(start=first_states(start)), assumed)
    for option, value in (("--start", start), ("--discount", discount)):
        if value is not None:
            raise ValueError(f"{option} needs a model, and {given} does not expose its kernel; leave it out")
    sizes = {
        "name": given,
        "states": getattr(env.observation_space, "n", None),
        "actions": getattr(env.action_space, "n", None),
        "horizon": stages,
        "discount": 1.0,
        "start": "as the environment does",
    }
    return Problem(given, env, None, sizes, stages, assumed)


def _make(given: str) -> Any:
    import gymnasium

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions and the like; what matters is an error
            return gymnasium.make(given)
    except (gymnasium.error.Error, ImportError) as fault:
        raise ValueError(" ".join(str(fault).split())) from None
