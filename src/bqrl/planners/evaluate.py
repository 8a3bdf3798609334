"""The return of a given policy: its exact law or a bracket, and simulated episodes.

The forward pass carries, for every state, the mass of each sum of rewards collected so far:

    m_0(s, 0) = mu(s),    m_{h+1}(s', g + r) += P_h(s', r | s, a) m_h(s, g)    with a = the policy's action at (h, s, g).

A target policy reads its need, target - g, off the sum, so one pass serves Markov and target policies. For the other kinds
of policies the pass runs over their (finitely many) memories.
"""

# There are two kinds of forward pass, each with one implementation of a stage.
# - Over states and sums on a grid, for Markov and target policies: `push_mass` in loops/rollout.py. policies/forward.py calls
#   it stage by stage for laws, tables and occupancies. Learners evaluate after every episode and call `push_stages`, which runs
#   all stages in one compiled loop. Dense stages use matrix products, which are faster there.
# - Over pairs (state, memory), for any policy: `reached_pairs` in policies/pairs.py. It gives occupancies, decision rows and
#   label graphs. If no grid fits, it gives a policy's own returns, with pairs distinguished by their sums. The law of such a
#   policy on a grid is `push_mass` with pairs in place of states.
# Over an l1 ball the kernel depends on the need; loops/ball.py has these passes.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np

from bqrl.checks import bad_type, flag, one_line, whole
from bqrl.errors import GridError, SizeError
from bqrl.laws.law import Bound, Law, size_of
from bqrl.loops.layout import Rows
from bqrl.loops.rollout import draw_many
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.mdp.find_grid import (
    MAX_POINTS,
    MAX_SET,
    ROUNDING,
    cut_to_possible,
    distinct_rewards,
    returns_grid,
    rounded_grid,
)
from bqrl.mdp.grid import Grid, Lattice, Rounded
from bqrl.mdp.grid_step import GridModel
from bqrl.mdp.model import MDP
from bqrl.mdp.outcomes import check_known
from bqrl.mdp.unstored import StepModel
from bqrl.planners.cluster import Cluster, as_cluster
from bqrl.planners.on_demand import narrows
from bqrl.planners.step_kernel import bind_unstored, law_unstored, play_unstored
from bqrl.policies.convert import bind
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.forward import (
    MAX_MASSES,
    empty_masses,
    pairs_of,
    push_forward,
    push_stage,
    push_with_mean,
    sums_grid,
    sums_on,
)
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.pairs import check_played, reached_pairs
from bqrl.policies.protocol import PLANNED, Policy, check_rewards
from bqrl.policies.shares import draw_actions, pair_shares
from bqrl.policies.target import TargetPolicy

BRACKET_POINTS = 20_000
MAX_ATOMS = 20_000  # largest number of (state, memory, sum) triples per stage for which all returns are enumerated
MAX_DRAWS = 2**34  # bytes of the random numbers of one simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes of the grids that `evaluate` may use."""

    points: int = BRACKET_POINTS
    max_points: int = MAX_POINTS
    max_set: int = MAX_SET
    max_atoms: int = MAX_ATOMS
    max_masses: int = MAX_MASSES // 8  # numbers per stage on the exact grid, for a policy without memory


@overload
def evaluate(
    mdp: MDP | StepModel | str, policy: Any, *, bracket: Literal[False] = False, labels: bool = ..., points: int = ...,
    max_points: int = ..., max_set: int = ..., max_atoms: int = ..., rewards: str = ..., deterministic: bool = ...,
    cluster: Any = ...,
) -> Law: ...  # fmt: skip
@overload
def evaluate(
    mdp: MDP | StepModel | str, policy: Any, *, bracket: Literal[True], labels: bool = ..., points: int = ...,
    max_points: int = ..., max_set: int = ..., max_atoms: int = ..., rewards: str = ..., deterministic: bool = ...,
    cluster: Any = ...,
) -> tuple[Law, Law]: ...  # fmt: skip
def evaluate(
    mdp: MDP | StepModel | str, policy: Any, *, bracket: bool = False, labels: bool = False, points: int = BRACKET_POINTS,
    max_points: int = MAX_POINTS, max_set: int = MAX_SET, max_atoms: int = MAX_ATOMS, rewards: str = PLANNED,
    deterministic: bool = True, cluster: Any = None,
) -> Law | tuple[Law, Law]:  # fmt: skip
    """Return the law of the return of a policy.

    The law is exact if the returns of the problem lie on an exact grid or this policy has few returns. Otherwise returns
    are rounded down and up, which gives two laws. The true law is proven to lie between them in first-order dominance.

    Parameters
    ----------
    mdp : MDP or str
        The problem, or its name as for `solve`.
    policy : Policy, callable, object with `predict`, array_like or str
        A Policy; a function f(stage, state) that returns an action or one probability per action; an object with
        predict(observation, deterministic=True); actions of shape (S,) or (H, S); action probabilities of shape (S, A) or
        (H, S, A); or "always:NAME". Functions, `predict` and custom policies are asked twice for each decision; PolicyError if
        the answers differ, SizeError if a custom policy has too many memories.
    bracket : bool
        Return both ends of the bracket instead of the lower law.
    labels : bool
        Pass states to a function or to `predict` as their own values (`mdp.state_values`, else their names), not as indices.
    points : int
        Size of the rounded grid; the width of the bracket is inversely proportional to it.
    max_points, max_set : int
        Limits on the exact grid of all returns.
    max_atoms : int
        Limit on the number of returns of this policy that are enumerated one by one.
    rewards : {"planned", "this model"}
        By default, a policy that tracks rewards is refused if some state, action and successor pay a different reward than
        in the model for which it was planned. With "this model" it follows the rewards of `mdp`, as in scenarios. To
        evaluate other outcomes of a plan, such as costs, convert its policy first: `plan.policy.to_labels(model)`, with
        the model of the plan, follows the states alone if the rewards of that model are not random.
    deterministic : bool
        If False, an object with `predict` is evaluated by its action probabilities, policy_probabilities(observation) or, as
        in Stable-Baselines3, policy.get_distribution(observation).
    cluster : str or distributed.Client or None
        The address of a Dask scheduler, or a client of it: its workers share the pass over sums for policies by stage and state
        and for those of plans, if the returns lie on a lattice and no matrix products are used; the law has the same bits.

    Returns
    -------
    Law or tuple of two Laws
        The exact law of the return, or the lower law if none is exact; with `bracket` the lower and the upper law, which are
        equal if the law is exact. A law that is not exact has a `bound`, and its `exact_mean` is the exact mean of the return.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    >>> evaluate(mdp, [0, 0])
    Law(0: 0.25, 1: 0.25, 2: 0.5; 3 atoms, mean 1.25)
    """
    limits = Limits(
        points=whole(points, "points", 2), max_points=whole(max_points, "max_points"), max_set=whole(max_set, "max_set"),
        max_atoms=whole(max_atoms, "max_atoms"),
    )  # fmt: skip
    bracket = flag(bracket, "bracket")
    if isinstance(mdp, GridModel):
        remedy = "use simulate, or evaluate policy.inner in model.lower"
        raise bad_type("mdp", mdp, "be an MDP: no law over continuous states is exact", "a GridModel", remedy=remedy)
    if isinstance(mdp, StepModel):
        law = law_unstored(mdp, bind_unstored(mdp, policy))
        return (law, law) if bracket else law
    problem, played = bind(mdp, policy, labels=labels, deterministic=deterministic)
    check_rewards(played, problem, rewards)
    lower, upper = law_bracket(problem, played, limits, as_cluster(cluster))
    return (lower, upper or lower) if bracket else lower


def law_bracket(
    mdp: MDP | StepModel, policy: Policy, limits: Limits = Limits(), cluster: Cluster | None = None  # noqa: B008
) -> tuple[Law, Law | None]:  # fmt: skip
    """Return the exact law and None, or a proven lower and a proven upper law; the policy is already bound."""
    if isinstance(mdp, StepModel):
        return law_unstored(mdp, policy), None
    if isinstance(policy, MixturePolicy):
        parts = [law_bracket(*bind(mdp, part), limits, cluster) for part in policy.policies]
        lower = Law.mixture([low for low, _ in parts], policy.weights)
        if all(high is None for _, high in parts):
            return lower, None
        return lower, Law.mixture([low if high is None else high for low, high in parts], policy.weights)
    if isinstance(policy, EarnedPolicy):
        own = _own_support(mdp, policy, np.inf)
        if own is not None:
            return own, None
    rounds = isinstance(policy, TargetPolicy) and not policy.grid.exact
    exact = None if rounds else returns_grid(mdp, limits.max_points, limits.max_set)
    large = isinstance(policy, MarkovPolicy) and exact is not None and mdp.S * int(exact.size.max()) > limits.max_masses
    if exact is not None and not large:
        return _law_on(mdp, policy, exact, cluster), None
    if not isinstance(policy, EarnedPolicy):
        own = _own_support(mdp, policy, limits.max_atoms)
        if own is not None:
            return own, None
    if isinstance(policy, TargetPolicy) and isinstance(policy.grid, Rounded):
        columns = sums_grid(mdp, policy)
        if columns is not None:
            values, mass, mean = push_with_mean(mdp, policy, columns)
            low, high = (-columns.error, 0.0) if policy.grid.up else (0.0, columns.error)
            return _bound(mdp, values + low, mass, "lower", mean), _bound(mdp, values + high, mass, "upper", mean)
    if isinstance(policy, MarkovPolicy):
        values, mass, mean = push_with_mean(mdp, policy, rounded_grid(mdp, limits.points))
        above = push_forward(mdp, policy, rounded_grid(mdp, limits.points, up=True))
        return _bound(mdp, values, mass, "lower", mean), _bound(mdp, *above, "upper", mean)
    if isinstance(policy, TargetPolicy) and rounds:
        other = "another discount" if policy.grid.discount != mdp.discount else "steps too small for this problem"
        why = f"this one was planned on a rounded grid with {other}; raise max_atoms={limits.max_atoms}"
    else:
        why = f"this problem has none within max_points={limits.max_points} and max_set={limits.max_set}; raise these limits"
        why += f" or max_atoms={limits.max_atoms}" if isinstance(policy, TargetPolicy) else ""
    raise GridError(
        f"a {policy.kind} policy requires an exact grid of returns, and {why}, plan on this problem or use simulate"
    )


def _bound(mdp: MDP, values: FloatArray, mass: FloatArray, side: str, mean: float) -> Law:
    """Return a law that bounds the law of the return, with values cut to the possible returns."""
    return Law(cut_to_possible(mdp, values), mass, Bound(side, mean))


def _law_on(mdp: MDP, policy: Policy, columns: Grid, cluster: Cluster | None) -> Law:
    """Return the law of a policy on an exact grid."""
    # its need is not determined by the sum
    other = isinstance(policy, TargetPolicy) and policy.grid.discount != mdp.discount
    if isinstance(policy, (MarkovPolicy, TargetPolicy)) and not other:
        if cluster is not None and isinstance(columns, Lattice) and narrows(mdp, columns):
            return Law(*cluster.forward(mdp, policy, columns))
        return Law(*push_forward(mdp, policy, columns))
    return _law_of_pairs(mdp, policy, columns)


def _own_support(mdp: MDP, policy: Policy, max_atoms: float) -> Law | None:
    """Return the law over the returns of this policy alone; None if there are too many or rounding could merge rewards."""
    rewards = distinct_rewards(mdp)
    size = size_of(rewards) * mdp.H
    closest = float(np.diff(np.union1d(rewards, 0.0)).min(initial=size))
    if closest < 4.0 * ROUNDING * size or np.count_nonzero(mdp.mu) > max_atoms:
        return None
    unit = min(1e-11 * size, closest / 4.0)  # sums closer than this are equal
    for h, pairs in enumerate(reached_pairs(policy, mdp, unit, drawn=True)):
        if h + 1 < mdp.H and pairs.onward > max_atoms:
            return None
    return Law(pairs.total, pairs.probability)


def _law_of_pairs(mdp: MDP, policy: Policy, columns: Grid) -> Law:
    """Return the law of the return of any policy, from the masses of sums at its (state, memory) pairs."""
    sums, mass = sums_on(mdp, columns), mdp.mu[mdp.mu > 0.0][:, None]
    for h, pairs in zip(range(mdp.H), pairs_of(mdp, policy), strict=False):
        moves, n = sums.moves(h), pairs.state.size
        start, child = np.searchsorted(pairs.source, np.arange(n + 1)), pairs.child.astype(np.int32)
        rows = Rows(*map(read_only, (start, child, pairs.chance)))
        no_choice = read_only(np.zeros((n, 1), np.int16)), np.zeros(sums.count(h), np.int64)
        out = empty_masses(pairs.onward, sums.count(h + 1))
        push_stage(rows, moves._replace(shift=moves.shift[pairs.outcome]), *no_choice, mass, out)
        mass = out
    return Law(sums.values(mdp.H), mass.sum(axis=0))


def simulate_model(
    mdp: MDP | StepModel | str, policy: Any, episodes: int, rng: np.random.Generator, *, labels: bool = False,
    rewards: str = PLANNED, outcome: str | None = None, deterministic: bool = True,
) -> FloatArray:  # fmt: skip
    """Return the returns of simulated episodes of a model; `bqrl.simulate` explains the arguments."""
    if isinstance(mdp, StepModel):
        played = bind_unstored(mdp, policy)
    else:
        mdp, played = bind(mdp, policy, labels=labels, sampled=rng, deterministic=deterministic)
        check_rewards(played, mdp, rewards)
    episodes = whole(episodes, "episodes", 1)
    needed = 8 * episodes * (mdp.H + 2)
    if needed > MAX_DRAWS:
        raise SizeError(
            f"the draws of the episodes must take at most {MAX_DRAWS:.1e} bytes, got {needed:.1e} for {one_line(episodes)} "
            "episodes; simulate fewer, in several calls with different seeds", needed=needed, limit=MAX_DRAWS, name="episodes",
        )  # fmt: skip
    if outcome is not None:
        check_known(mdp.outcome_names, outcome)
    u = rng.random((episodes, mdp.H + 2))  # the policy's coin, the first state, then one draw per transition
    if isinstance(mdp, StepModel):
        return play_unstored(mdp, played, u)
    cases = None if outcome is None else rng.random((episodes, mdp.H))  # drawn last: returns do not depend on `outcome`
    return _play(mdp, played, u, outcome, cases)


def _play(
    mdp: MDP, policy: Policy, u: FloatArray, outcome_name: str | None = None, cases: FloatArray | None = None
) -> FloatArray:
    """Return one return per row of uniforms, or the sum of a further outcome, whose cases are drawn by `cases`."""
    if isinstance(policy, MixturePolicy):
        return _play_mixture(mdp, policy, u, outcome_name, cases)
    episodes = len(u)
    memory = policy.start_many(u[:, 0])
    total, outcome = np.zeros(episodes), np.empty(episodes, np.int64)
    draw_many(np.array([0, mdp.S]), mdp.mu, np.zeros(episodes, np.int64), u[:, 1], outcome)
    s = outcome.copy()
    for h in range(mdp.H):
        stage = mdp.stage(h)
        a, left = policy.act_many(h, s, memory), u[:, 2 + h]
        if a.ndim == 2:
            a, left = draw_actions(pair_shares(mdp, h, s, a), left)
        check_played(mdp, h, s, a)
        draw_many(stage.row_start, stage.probability, s * mdp.A + a, left, outcome)
        reward, after = stage.reward[outcome], stage.successor[outcome].astype(np.int64)
        memory = policy.next_many(memory, h, s, a, reward, after)
        total += mdp.discount**h * (
            reward if cases is None else _draw_cases(mdp, h, outcome_name, outcome, cases[:, h])
        )
        s = after
    return total


def _draw_cases(mdp: MDP, h: int, name: str | None, outcome: IntArray, u: FloatArray) -> FloatArray:
    """Return the value of a further outcome in a drawn case of each outcome of stage `h`."""
    assert mdp.further is not None
    assert name is not None
    further, values, drawn = mdp.further, mdp.further.values[name], np.empty(outcome.size, np.int64)
    i = outcome + (0 if mdp.stationary else mdp.row_start[h * mdp.S * mdp.A])
    draw_many(further.start, further.share(), i, u, drawn)
    return np.asarray(values[h if len(values) > 1 else 0, drawn])


def _play_mixture(
    mdp: MDP, policy: MixturePolicy, u: FloatArray, outcome_name: str | None = None, cases: FloatArray | None = None
) -> FloatArray:
    """Return the returns of a mixture: each policy plays the episodes that draw it."""
    total, drawn = np.empty(len(u)), [policy.drawn(x) for x in u[:, 0].tolist()]
    chosen = np.array([i for i, _ in drawn], np.int64)
    coin = np.array([rest for _, rest in drawn])
    for i in np.unique(chosen).tolist():
        here = chosen == i
        draws = np.column_stack([coin[here], u[here, 1:]])
        total[here] = _play(*bind(mdp, policy.policies[i]), draws, outcome_name, None if cases is None else cases[here])
    return total
