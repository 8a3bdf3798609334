"""`bqrl.fit`: from logged or played episodes to an estimate whose promises hold with a stated confidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, choice, exact_text, flag, number
from bqrl.display import format_number
from bqrl.logs.drift import action_drift
from bqrl.logs.empirical import Declared, empirical
from bqrl.logs.episodes import ENDED, Episodes, order_episodes
from bqrl.logs.estimate import BY_STAGE, POOLED, Estimate
from bqrl.logs.explained import MODEL
from bqrl.logs.known_model import check_absorbing, from_model, with_events
from bqrl.logs.known_rows import copy_rows, known_rows
from bqrl.logs.played import is_environment, play_log
from bqrl.logs.read import read_columns, rounded_down
from bqrl.logs.trajectories import is_trajectories, named, trajectory_columns
from bqrl.logs.trials import EVENTS, declarations
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.columns import label_text
from bqrl.mdp.model import MDP, check_mdp
from bqrl.mdp.validation import check_discount

CONFIDENCE = 0.95  # the default, in Python and on the command line


def fit(
    log: Any,
    confidence: float = CONFIDENCE,
    columns: Mapping[str, str] | None = None,
    horizon: int | None = None,
    discount: float = 1.0,
    start: Any = None,
    stationary: bool = False,
    model: MDP | None = None,
    known: Any = None,
    support: Any = None,
    reward_range: tuple[float, float] | None = None,
    ends: str | None = None,
    reward_by: str | None = None,
    adaptive: bool | None = None,
    absorbing: Any = None,
    round_rewards: float | None = None,
    *,
    episodes: int | None = None,
    policy: Any = None,
    seed: int | None = None,
    bins: Any = None,
) -> Estimate:
    """Estimate a model from logged or played episodes, with l1 balls that contain the true kernel with the stated confidence.

    Parameters
    ----------
    log : str, Path, frame, mapping, Minari dataset, list of episodes or gymnasium.Env
        A .csv, .csv.gz, .xlsx or .parquet file, a pandas or polars frame, or a dict of arrays, with one row per step and columns
        episode, state, action, reward, and optionally stage, next_state, event and end. A Minari dataset and a list of
        episodes have discrete observations and actions; `bqrl.logs.trajectories` describes an episode. Or a Gymnasium
        environment or its id: episodes are played in it first. Unless `reward_range` or another declaration is given, the
        range of the rewards is then taken to be that of the rewards seen, which `estimate.assumptions` states.
    confidence : float
        Probability in (0, 1) with which all promises of the estimate hold.
    columns : mapping, optional
        Header of each role whose column has another name.
    horizon : int, optional
        Number of stages; by default the length of the longest episode, or that of the model.
    discount : float
        Discount per stage, in (0, 1].
    start : label or {label: probability}, optional
        The first state or its law, if it is known; by default as observed in the log.
    stationary : bool
        Whether the kernel and the rewards do not change with the stage, so that all stages share their counts.
    model : MDP, optional
        Known outcomes, rewards and shared noise; only probabilities are estimated.
    known : list of tuples, file or frame, optional
        Rows known exactly: (state, action, next_state, probability, reward), with the stage in front where it matters, or
        a table with these columns; the next state "(end)" ends the episode, here and in `support`.
    support : list of tuples or "states", optional
        Possible transitions: (state, action, next_state) or (state, action, next_state, reward); "states" declares that
        the log shows every state that can occur.
    reward_range : (float, float), optional
        Lowest and highest possible reward of one step; required unless `support`, `model` or `reward_by` is given. An
        outcome that the log does not show pays the lower end at that step; afterwards it pays the lower end per stage, or
        0 if that is lower, because the episode may have ended.
    ends : "terminal" or "truncated", optional
        Whether episodes shorter than the horizon are complete (the default) or were cut off.
    reward_by : "state-action", optional
        Declares that the reward depends on the state and the action alone (and on the stage, unless `stationary`).
    adaptive : bool, optional
        Whether the policy that wrote the log changed with the data, or episodes depend on one another in another way. Then
        that policy has no promise, and the new plan gets the whole error probability instead of half of it. By default a
        test looks for actions that change along the log (at 1 %); if it finds them, the old policy has no promise, either.
        False declares independent episodes of one policy, whatever the order of the file suggests.
    absorbing : list of labels, optional
        States that are never left and pay nothing, such as death. An episode is complete when it enters one of them, also if
        `ends` is "truncated"; rows in such a state may have an empty action.
    round_rewards : float, optional
        Round every reward of the log down to a multiple of this number. Noisy rewards then share their outcomes, and a
        promise about the rounded return also holds for the return itself.
    episodes, policy, seed, bins : optional
        For an environment: the number of episodes (10,000), the policy that plays them ("random", or any other form that
        `simulate` accepts, without `states`), the seed, and the cells of Box observations (see `learn`).

    Returns
    -------
    Estimate
        The empirical model, its counts and radii; `solve` plans on it.

    Examples
    --------
    >>> log = {"episode": range(200), "state": [0] * 200, "action": [0] * 200, "reward": [1.0] * 200}
    >>> fit(log, reward_range=(0, 1)).solve(tau=0.5).value
    1.0
    >>> fit("FrozenLake-v1", horizon=20, episodes=100, seed=1).assumptions[-1]
    'rewards lie between 0 and 1'
    """
    if is_environment(log):
        log, horizon = play_log(log, episodes, policy, horizon, seed, bins)
        adaptive = False if adaptive is None else adaptive  # one policy plays
        if reward_range is None and model is None and support is None and reward_by is None:
            reward_range = min(log["reward"]), max(log["reward"])
    else:
        given = {"episodes": episodes, "policy": policy, "seed": seed, "bins": bins}
        for name in (name for name, value in given.items() if value is not None):
            raise bad_value(name, given[name], "be left out unless episodes of an environment are played")
    confidence = number(confidence, "confidence", 0.0, 1.0, "()")
    discount = check_discount(discount)
    stationary = flag(stationary, "stationary")
    adaptive = adaptive if adaptive is None else flag(adaptive, "adaptive")
    if reward_by is not None:
        choice(reward_by, "reward_by", ("state-action",))
    if isinstance(support, str):
        choice(support, "support", ("states",))
    if model is not None:
        model = check_mdp(model, "model")
    step = None if round_rewards is None else number(round_rewards, "round_rewards", 0.0, ends="(]")
    declared = Declared(
        start=dict(start) if isinstance(start, Mapping) else start, stationary=stationary, model=model,
        known=known_rows(known), support=copy_rows(support), reward_range=_check_range(reward_range, step), reward_by=reward_by,
        absorbing=copy_rows(absorbing), round_rewards=step,
    )  # fmt: skip
    if model is not None:
        _check_model(declared, model, discount, horizon)
        discount, horizon = model.discount, model.H
    if is_trajectories(log):
        log = trajectory_columns(log) if model is None else named(trajectory_columns(log), model)
    read = read_columns(log, columns)
    steps = order_episodes(read, horizon, ends, declared.absorbing)
    if model is not None:
        check_absorbing(steps, model, declared.absorbing)
    fitted = partial(_estimate, steps, confidence, discount, adaptive=bool(adaptive))
    refits = {name: partial(_refit, fitted, declared, name) for name in _removable_names(steps, declared)}
    drift = action_drift(steps) if adaptive is None else None
    found = fitted(declared, trials=True)
    return replace(found, refits=refits, drift=drift, adaptive=found.adaptive or drift is not None)


def _estimate(
    steps: Episodes, confidence: float, discount: float, declared: Declared, *, adaptive: bool, events: bool = False,
    trials: bool = False,
) -> Estimate:  # fmt: skip
    """Return the estimate from ordered steps; with `events`, as if every step had shown its event."""
    # the old policy's returns are not rounded
    model, returns, recorded = declared.model, steps.returns(discount), steps
    cut = steps.cut_returns(discount, *_stage_rewards(declared, steps.H))
    if declared.round_rewards is not None:
        steps = replace(steps, reward=rounded_down(steps.reward, declared.round_rewards))
    delta = (1.0 - confidence) / (1.0 if adaptive else 2.0)  # the other half belongs to the old policy
    several = model is None and declared.start is None and np.unique(steps.first_states).size > 1
    if model is not None:
        found = from_model(steps, model, delta=delta, stationary=declared.stationary)
        revealed = with_events(steps, model, found) if events or trials else None
        found = revealed if events and revealed is not None else found
    else:
        revealed, found = None, empirical(steps, declared, delta=delta / 2.0 if several else delta, discount=discount)
    again = partial(_estimate, recorded, confidence, discount, adaptive=adaptive)
    added = declarations(steps, declared, found) if trials else {}
    tried = {step: partial(again, replace(declared, **changes)) for step, changes in added.items()}
    return Estimate(
        mdp=found.mdp, balls=found.balls, confidence=confidence, returns=returns, cut=cut,
        assumptions=_assumptions(steps, declared, found.mdp), adaptive=adaptive,
        episodes=steps.T, steps=steps.state.size, tries=found.tries, uncounted=found.uncounted,
        start_atoms=int(np.count_nonzero(found.mdp.mu)) if several else 0,
        floor=found.floor, lowest=found.lowest, events=found.events,
        added=() if model is not None else (found.mdp.S - 2, found.mdp.S - 1),
        trials=tried if revealed is None else tried | {EVENTS: partial(again, declared, events=True)},
    )  # fmt: skip


def _stage_rewards(declared: Declared, H: int) -> tuple[FloatArray, FloatArray]:
    """Return the least and the most that a step can pay, by stage; 0 is possible unless a model says how episodes end."""
    if declared.model is not None:
        paid = [declared.model.stage(h).reward for h in range(H)]
        return np.array([one.min() for one in paid]), np.array([one.max() for one in paid])
    low, high = (-np.inf, np.inf) if declared.reward_range is None else declared.reward_range
    return np.full(H, min(low, 0.0)), np.full(H, max(high, 0.0))


def _removable_names(steps: Episodes, declared: Declared) -> list[str]:
    """Return the declarations that can be left out in a second fit."""
    model = declared.model
    if model is None:
        found = ["stationary"] if declared.stationary and steps.H > 1 else []
        return found + [
            name for name in ("start", "support", "known", "reward_by") if getattr(declared, name) is not None
        ]
    found = ["stationary"] if model.stationary and steps.H > 1 else []
    return [*found, *(["shared noise"] if model.noise is not None else []), MODEL]


def _refit(fitted: Callable[[Declared], Estimate], declared: Declared, name: str) -> Estimate:
    """Return the estimate without one declaration."""
    model = declared.model
    changes: dict[str, Any]
    if model is None:
        changes = {name: False if name == "stationary" else None}
    elif name == "stationary":
        changes = {"model": model.staged(), "stationary": False}
    elif name == "shared noise":
        changes = {"model": model.with_noise(None)}
    else:
        first = {model.state_label(s): float(model.mu[s]) for s in np.flatnonzero(model.mu).tolist()}
        bounds = float(model.reward.min()), float(model.reward.max())
        changes = {"model": None, "stationary": model.stationary, "reward_range": bounds, "start": first}
    return fitted(replace(declared, **changes))


def _check_range(given: Any, step: float | None) -> tuple[float, float] | None:
    """Return the range of the rewards as two numbers, the lower end rounded as the rewards are."""
    if given is None:
        return None
    if isinstance(given, (str, bytes)) or np.ndim(given) != 1 or len(given) != 2:
        raise bad_type("reward_range", given, "be two numbers, e.g. (0, 1)")
    low = number(given[0], "reward_range[0]")
    high = number(given[1], "reward_range[1]", low)
    return low if step is None else float(rounded_down(np.array([low]), step)[0]), high


def _check_model(declared: Declared, model: MDP, discount: float, horizon: int | None) -> None:
    """Raise an error if an argument is given that a model determines."""
    if horizon not in (None, model.H):
        remedy = "change it with model.replace(horizon=...)" if model.stationary else ""
        raise bad_value("horizon", horizon, f"be {model.H}, the number of stages of the model", remedy=remedy)
    given = [
        name
        for name in ("start", "known", "support", "reward_range", "reward_by", "round_rewards")
        if getattr(declared, name) is not None
    ]
    given += ["discount"] if discount not in (1.0, model.discount) else []
    if given:
        value = getattr(declared, given[0], discount)
        raise bad_value(given[0], value, "not be given with model=, which determines it", remedy="drop one of them")


def _assumptions(log: Episodes, declared: Declared, mdp: MDP) -> tuple[str, ...]:
    """Return the assumptions of the promises, each as the end of a sentence that begins "assuming that"."""
    found, pooled = [BY_STAGE.format("stage")], mdp.stationary and mdp.H > 1
    if pooled:
        found = ["the next state and the reward depend only on the state and action", POOLED.format("stage")]
    if log.truncated.any():
        found.append("whether an episode was cut off does not depend on an unrecorded next state")
    if pooled and log.partly_recorded:
        found.append("whether the next state of a last step is recorded does not depend on it")
    if log.short and log.truncated.any():  # a column or an absorbing state tells the two apart
        which = "marked as ended" if "end" in log.columns.codes else "that reach an absorbing state"
        found.append(f"episodes {which} are complete, and none is longer than {log.H} steps")
    elif log.short:
        found.append(f"episodes with fewer than {log.H} steps are complete, and none is longer")
    if declared.model is not None:
        found.append("the given model has the right outcomes, rewards and first state")
        if declared.model.noise is not None and np.any(declared.model.noise.row_law >= 0):
            found.append("its rows share noise as it states")
        if np.any(declared.model.known.reshape(-1) & (np.diff(declared.model.row_start) > 1)):
            found.append("its known rows are right")
    elif declared.start is not None:
        law = "law of the " if isinstance(declared.start, dict) and len(declared.start) > 1 else ""
        found.append(f"the given {law}first state is right")
    elif np.unique(log.first_states).size == 1:
        found.append(f"every episode starts in state {log.states[int(log.first_states[0])]!r}")
    else:
        found.append("first states are drawn as in the log")
    if declared.model is None:
        names = (*(mdp.state_names or ())[len(log.states) : -2], *(mdp.action_names or ())[len(log.actions) :])
        if names:
            listed = ", ".join([*map(repr, names[:3]), *["..."] * (len(names) > 3)])
            found.append(f"the problem has {listed}, which the log does not show")
    if declared.absorbing:
        final = [repr(label_text(label)) for label in declared.absorbing]
        found.append(f"{' and '.join(final)} {'is' if len(final) == 1 else 'are'} never left and without reward")
    if declared.known is not None:
        found.append("the known rows are right")
    if declared.support is not None:
        states = isinstance(declared.support, str)
        found.append(
            "the log shows every state that can occur" if states else "only the listed transitions are possible"
        )
        if states and not (log.absorbing.any() or np.any(log.next_state == ENDED)):
            if declared.reward_by is None:  # an end at the last step may have a reward of its own
                found.append("no step ends an episode")
            elif log.H > 1:
                found.append(f"no episode ends before step {log.H}")
        if declared.reward_by is None and (states or any(len(item) == 3 for item in declared.support)):
            found.append("the reward is determined by the transition")
    if declared.reward_by is not None:
        found.append("the reward depends on the state and action alone")
    if declared.reward_range is not None:
        found.append(
            f"rewards lie between {exact_text(declared.reward_range[0])} and {exact_text(declared.reward_range[1])}"
        )
    if declared.round_rewards is not None:
        size = format_number(declared.round_rewards)
        found.append(f"each reward counts as the next lower multiple of {size}, so that the true return is no lower")
    return tuple(found)
