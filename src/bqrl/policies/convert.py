"""Conversion of a policy in any form to a pair of a problem and a Policy with the same return law.

A deterministic form becomes a MarkovPolicy of the given problem. Action probabilities become a problem with one action:
averaging the rows of a state over its actions, where each outcome keeps its reward, gives the same return law.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, flag, nearest
from bqrl.errors import PolicyError
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.files import name_errors, read_arrays
from bqrl.mdp.files.sources import TABLES, is_frame
from bqrl.mdp.model import MDP, check_mdp
from bqrl.mdp.table import Table
from bqrl.policies.files import policy_from_arrays
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.pairs import random_answer, times_asked
from bqrl.policies.protocol import Policy, action_index, check_fits
from bqrl.policies.rule_forms import ABSENT, complete, rule_of_dict, rule_of_names, rule_of_table
from bqrl.policies.shares import drawn_action, shares_in, uniform
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.translate import by_name, named_origin, translated

ALWAYS, RANDOM = "always:", "random"
FORMS = (
    "a Policy, a Plan, f(stage, state), an object with predict, a dict, a table, an array, a .csv or .npz file, "
    "'always:ACTION' or 'random'"
)


class CalledPolicy(Policy):
    """A function f(stage, state) that is called at every step of every episode, so it may draw its actions.

    If it returns action probabilities, the action is drawn from them by `rng`.
    """

    def __init__(self, mdp: MDP, answer: Callable[[int, int], Any], rng: np.random.Generator) -> None:
        self.mdp, self.answer, self.rng, self.H, self.S = mdp, answer, rng, mdp.H, mdp.S

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the answer of the function, or an action drawn from it."""
        found = _answer(self.mdp, self.answer(h, s), h, s)
        if not isinstance(found, np.ndarray):
            return found
        facts = self.mdp.stage(h).available[s], self.mdp.state_label(s), self.mdp.action_label
        return drawn_action(found, float(self.rng.random()), h, *facts)


def bind(
    mdp: Any, policy: Any, *, labels: bool = False, sampled: np.random.Generator | None = None, deterministic: bool = True,
) -> tuple[MDP, Policy]:  # fmt: skip
    """Return a problem and a Policy in it with the same return law as `policy` has in `mdp`.

    Parameters
    ----------
    mdp : MDP
        The problem.
    policy : Policy, Plan, callable, object with `predict`, dict, frame, array_like, str or Path
        - a Policy, or a Plan, which stands for its policy; a plan for a model with other names, and a policy of an estimate
          (alone or from a file), play the actions of the same names;
        - a function f(stage, state) that returns an action, or one probability per action;
        - an object with predict(observation, deterministic=True) -> (action, state) as in Stable-Baselines3;
        - actions of shape (S,) or (H, S), or action probabilities of shape (S, A) or (H, S, A); where H = S = A, a table of
          whole numbers holds actions and one of floats probabilities;
        - a dict from states to actions, a list of names of actions, or a table with the columns state, action and
          optionally stage (see `bqrl.policies.rule_forms`);
        - the path of such a table (.csv, .csv.gz, .xlsx) or of a saved policy (.npz);
        - "always:NAME", the action called NAME in every state that has it, and elsewhere the only action;
        - "random", every available action with the same probability.
    labels : bool
        Pass states to f and predict as values instead of indices: the states of the step function or of the table that the
        model was built from, else their names. Models from files have names only.
    sampled : Generator, optional
        Call a function at every step of every episode instead of tabulating it, so that it may draw its actions; the
        generator draws from probabilities that it returns.
    deterministic : bool
        If False, an object with `predict` plays its own action probabilities, as far as it exposes them:
        policy_probabilities(observation), or policy.get_distribution(observation) as in Stable-Baselines3. For an object
        without them, predict(observation, deterministic=False) is called, which is possible only in a simulation.

    Returns
    -------
    tuple of MDP and Policy
        `mdp` itself unless actions are drawn from probabilities. Functions and `predict` are called for reachable states
        only, at least twice for each; the action of other states is 0. PolicyError if the answers differ.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]], [[0, 1], [2, 2]], horizon=3)
    >>> bind(mdp, lambda stage, state: 1)[1].actions.tolist()
    [[1, 0], [1, 1], [1, 1]]
    """
    problem, labels, deterministic = check_mdp(mdp), flag(labels, "labels"), flag(deterministic, "deterministic")
    source, policy = getattr(policy, "mdp", None), planned_policy(policy)
    if isinstance(policy, Policy):
        origin = named_origin(policy) or (source if isinstance(source, MDP) else None)
        if by_name(origin, problem):
            policy = translated(policy, origin, problem)
        check_fits(policy, problem)
        if isinstance(policy, StochasticPolicy):
            return _bind_shares(problem, policy.probabilities)
        return problem, policy
    if isinstance(policy, (str, Path)):
        return _bind_text(problem, policy)
    if isinstance(policy, Mapping) and not _holds_columns(policy):
        return problem, MarkovPolicy(rule_of_dict(problem, policy))
    if is_frame(policy):
        return problem, MarkovPolicy(rule_of_table(problem, policy))
    states: Sequence[Any] = range(problem.S)
    if labels:
        states = problem.state_values or problem.state_names or states
    if (seen := predictor(policy, deterministic)) is not None:
        if sampled is not None and not deterministic:
            return problem, CalledPolicy(problem, lambda h, s: seen(states[s]), sampled)
        return _tabulate_predict(problem, seen, states)
    if callable(policy):
        _check_arguments(policy)

        def answer(h: int, s: int) -> Any:
            try:
                return policy(h, states[s])
            except Exception as fault:
                if not labels and problem.state_values is not None:
                    value = problem.state_values[s]
                    fault.add_note(
                        f"the function received the index {s} of a state; with labels=True it receives {value!r}"
                    )
                raise

        if sampled is not None:
            return problem, CalledPolicy(problem, answer, sampled)
        return _tabulate_function(problem, answer)
    return _bind_table(problem, policy)


def predictor(policy: Any, deterministic: bool = True) -> Callable[[Any], Any] | None:
    """Return a function of the observation for an object with `predict`; None for other objects.

    It returns an action or, unless `deterministic`, one probability per action if the object exposes them.
    """
    if not callable(getattr(policy, "predict", None)):
        return None
    if not deterministic:
        if callable(getattr(policy, "policy_probabilities", None)):
            return policy.policy_probabilities
        network = getattr(policy, "policy", policy)
        if callable(getattr(network, "get_distribution", None)):
            return partial(distribution_of, network)

    takes = "deterministic" in inspect.signature(policy.predict).parameters

    def predict(observation: Any, **options: Any) -> Any:  # `action_masks` as in MaskablePPO
        answer = policy.predict(observation, **({"deterministic": deterministic} if takes else {}), **options)
        return answer[0] if isinstance(answer, tuple) else answer

    return predict


def distribution_of(network: Any, observation: Any, **masks: Any) -> FloatArray:
    """Return the action probabilities of a policy of Stable-Baselines3, for one observation or a batch of them."""
    to_tensor = getattr(network, "obs_to_tensor", None)
    found = network.get_distribution(to_tensor(observation)[0] if callable(to_tensor) else observation, **masks)
    probabilities = getattr(getattr(found, "distribution", found), "probs", None)
    if probabilities is None:
        rule = "have a distribution over discrete actions, with probs"
        raise bad_type("policy", network, rule, type(found).__name__, remedy="pass deterministic=True")
    held = probabilities.detach().cpu() if hasattr(probabilities, "detach") else probabilities
    return np.asarray(held, dtype=np.float64)


def planned_policy(given: Any) -> Any:
    """Return the policy of a Plan; anything else is returned unchanged."""
    planned = getattr(given, "policy", None)
    return planned if isinstance(planned, Policy) and not isinstance(given, Policy) else given


def one_policy(mdp: MDP, given: Any) -> Policy:
    """Return any form of a policy as a Policy of the problem itself; action probabilities must be a StochasticPolicy."""
    policy = planned_policy(given)
    if isinstance(policy, str) and policy == RANDOM:
        return StochasticPolicy(uniform(mdp))
    if isinstance(policy, StochasticPolicy):
        return policy
    model, bound = bind(mdp, given)
    if model is not mdp:
        text = "be a Policy, a function or actions"
        raise bad_type("policy", given, text, "action probabilities", remedy="wrap them in bqrl.StochasticPolicy")
    return bound


def _bind_text(mdp: MDP, given: str | Path) -> tuple[MDP, Policy]:
    """Return the problem and the policy of a file, "always:NAME" or "random"."""
    text = str(given)
    if text == RANDOM:
        return _bind_shares(mdp, uniform(mdp))
    if text.startswith(ALWAYS):
        return mdp, _constant_policy(mdp, text.removeprefix(ALWAYS))
    if text.lower().endswith(".npz"):
        with name_errors(Path(text)):
            return bind(mdp, policy_from_arrays(read_arrays(text)))
    if text.lower().endswith(TABLES):
        return mdp, MarkovPolicy(rule_of_table(mdp, text))
    hint = f"did you mean '{ALWAYS}{text}'?" if text in (mdp.action_names or ()) else ""
    raise bad_value("policy", given, f"be {FORMS}", remedy=hint)


def _holds_columns(given: Mapping[Any, Any]) -> bool:
    """Return whether a dict holds the columns of a table rather than one action per state."""
    return bool(given) and all(np.ndim(cell) == 1 for cell in given.values())


def _constant_policy(mdp: MDP, name: str) -> MarkovPolicy:
    """Return the policy that plays one action wherever it exists."""
    a = _index(mdp, name)
    table = np.where(np.broadcast_to(mdp.available[:, :, a], (mdp.H, mdp.S)), a, ABSENT)
    rule = f"'{ALWAYS}{name}' requires, in every state that it meets, this action or a single other one"
    return MarkovPolicy(complete(mdp, table, rule))


def _tabulate_predict(mdp: MDP, seen: Callable[[Any], Any], states: Sequence[Any]) -> tuple[MDP, Policy]:
    """Return the problem and the policy of a function of the observation, which depends on the state only."""
    met = np.flatnonzero(mdp.reachable[:-1].any(axis=0)).tolist()
    return _bind_answers(
        mdp, [((slice(None), s), _ask(mdp, lambda h, s: seen(states[s]), None, s, len(met))) for s in met]
    )


def _check_arguments(act: Callable[..., Any]) -> None:
    """Raise ArgumentTypeError unless a function can be called with a stage and a state."""
    try:
        signature = inspect.signature(act)
    except ValueError:  # compiled functions have no signature
        return
    try:
        signature.bind(0, 0)
    except TypeError:
        got = f"a function of ({', '.join(signature.parameters)})"
        raise bad_type("policy", act, "take two arguments, stage and state", got) from None


def _tabulate_function(mdp: MDP, act: Callable[[int, int], Any]) -> tuple[MDP, Policy]:
    """Return the problem and the policy of a function, which is called at least twice for every state met at a stage."""
    answers: list[tuple[Any, int | FloatArray]] = []
    for h in range(mdp.H):
        met = np.flatnonzero(mdp.reachable[h]).tolist()
        answers += [((h, s), _ask(mdp, act, h, s, len(met))) for s in met]
    return _bind_answers(mdp, answers)


def _bind_answers(mdp: MDP, answers: Sequence[tuple[Any, int | FloatArray]]) -> tuple[MDP, Policy]:
    """Return the problem and the policy of pairs of a place (stage, state) and an action, or action probabilities."""
    actions, drawn = np.zeros((mdp.H, mdp.S), np.int64), []
    for place, answer in answers:
        if isinstance(answer, np.ndarray):
            drawn.append((place, answer))
        else:
            actions[place] = answer
    if not drawn:
        return mdp, MarkovPolicy(actions)
    shares = np.eye(mdp.A)[actions]
    for place, probabilities in drawn:
        shares[place] = probabilities
    return _bind_shares(mdp, shares)


def _ask(mdp: MDP, act: Callable[[Any, int], Any], h: int | None, s: int, questions: int) -> int | FloatArray:
    """Return the answer to one of several decisions; PolicyError if it differs when asked again."""
    first = _answer(mdp, act(h, s), h, s)
    for _ in range(times_asked(questions) - 1):
        other = _answer(mdp, act(h, s), h, s)
        if not np.array_equal(other, first):
            raise random_answer(mdp, h, s, first, other)
    return first


def _answer(mdp: MDP, given: Any, h: int | None, s: int) -> int | FloatArray:
    """Return the index of an action, or one probability per action."""
    if not isinstance(given, (str, int)) and mdp.A > 1 and np.size(given) == mdp.A:
        try:
            return np.asarray(given, dtype=np.float64).reshape(mdp.A)
        except (TypeError, ValueError):
            pass
    return _index(mdp, given, h, s)


def _bind_table(mdp: MDP, given: Any) -> tuple[MDP, MarkovPolicy]:
    """Return the problem and the policy of an array of actions, of their names, or of action probabilities."""
    if _holds_names(given):
        return mdp, MarkovPolicy(rule_of_names(mdp, given))
    table = read_table("policy", given, mdp.H, mdp.S, mdp.A)
    if table.ndim == 3:
        return _bind_shares(mdp, table)
    outside = (table < 0) | (table >= mdp.A)
    if outside.any():
        h, s = (int(i) for i in np.argwhere(outside)[0])
        raise _action_error(mdp, int(table[h, s]), h, s)
    return mdp, MarkovPolicy(table)


def _holds_names(given: Any) -> bool:
    """Return whether an array or a list, which may be nested once, holds texts."""
    first = given
    for _ in range(2):
        if isinstance(first, (list, tuple, np.ndarray)) and len(first):
            first = first[0]
    return isinstance(first, str) and first is not given


def read_table(name: str, given: Any, H: int, S: int, A: int) -> Any:
    """Return an array as actions (H, S) or as action probabilities (H, S, A); its values are not checked."""
    try:
        table = np.asarray(given)
    except (TypeError, ValueError):
        table = np.asarray(None)
    if table.ndim == 0 or table.dtype.kind not in "iuf":
        what = f"{type(given).__name__}" if table.ndim == 0 else f"an array of {table.dtype}"
        raise bad_type(name, given, f"be {FORMS}", what)
    floats = table.dtype.kind == "f"
    if table.shape == (H, S, A) or (table.shape == (S, A) and (floats or (H, S) != (S, A))):
        return np.broadcast_to(table.astype(np.float64), (H, S, A))
    if table.shape not in ((S,), (H, S)):
        rule = f"have shape {(S,)} or {(H, S)} (actions) or {(S, A)} or {(H, S, A)} (probabilities)"
        raise bad_value(name, given, rule, table.shape)
    if floats:
        raise bad_type(name, given, "hold actions as whole numbers", "an array of floats")
    return np.broadcast_to(table.astype(np.int64), (H, S))


def _bind_shares(mdp: MDP, probabilities: FloatArray) -> tuple[MDP, MarkovPolicy]:
    """Return the problem averaged over action probabilities and its only policy."""
    return average_actions(mdp, probabilities), MarkovPolicy(np.zeros((mdp.H, mdp.S), np.int64))


def average_actions(mdp: MDP, probabilities: FloatArray) -> MDP:
    """Return the problem with a single action in which actions are drawn from `probabilities` (H, S, A).

    It is stationary if `mdp` is and the probabilities are the same at every stage.
    """
    shares = shares_in(mdp, probabilities)
    model = mdp if np.array_equal(shares[:-1], shares[1:]) else mdp.staged()
    K = model.available.shape[0]
    by_row = shares[:K].reshape(-1)
    weights = np.repeat(by_row, np.diff(model.row_start))
    # The A rows of a state are stored one after the other, so every A-th row start begins the joint row of a state.
    table = Table(
        S=mdp.S, A=1, K=K, row_start=model.row_start[:: mdp.A].copy(), successor=model.successor,
        probability=model.probability * weights, reward=model.reward, further=model.further,
    )  # fmt: skip
    return MDP.from_table(
        table, mdp.H, mdp.mu, mdp.discount, state_names=mdp.state_names, state_values=mdp.state_values
    )


def _index(mdp: MDP, action: Any, h: int | None = None, s: int | None = None) -> int:
    """Return the index of an action given by its index or name."""
    if isinstance(action, str):
        names: tuple[str, ...] = mdp.action_names or tuple(map(str, range(mdp.A)))
        if action not in names:
            raise PolicyError(
                f"expected the name of an action, got {action!r}{nearest(action, names)}", stage=h, state=s
            )
        return names.index(action)
    if isinstance(action, np.ndarray) and action.size == 1:  # predict may return an array of one action
        action = action.reshape(-1)[0]
    label = "" if s is None else mdp.state_label(s)
    a = action_index(action, h, s, label, f"an index, a name or {mdp.A} probabilities")
    if not 0 <= a < mdp.A:
        raise _action_error(mdp, a, h, s)
    return a


def _action_error(mdp: MDP, a: int, h: int | None, s: int | None) -> PolicyError:
    """Return the error for an action outside 0 .. A - 1."""
    where = ("" if s is None else f" in state {mdp.state_label(s)}") + ("" if h is None else f" at stage {h + 1}")
    message = f"the action{where} must be from 0 to {mdp.A - 1}, got {a}"
    return PolicyError(message, stage=h, state=s, action=a)
