"""What a policy still guarantees if the model is off, against kernels of the ball and a slow recursion."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import small_mdps
from policy_kinds import six_kinds

import bqrl
from bqrl import MDP, evaluate, solve, stress
from bqrl.planners import worst_case
from bqrl.planners.stress import quick_stress
from bqrl.planners.uncertain import half_radius, robust_value

LEVELS = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9])
OFFS = st.sampled_from([0.02, 0.1, 0.3])


def corners(row, off):
    """Rows of the ball in which mass moves to one outcome from the others, in every order."""
    for order in permutations(range(row.size)):
        moved, left = row.copy(), min(off, 1.0 - row[order[0]])
        moved[order[0]] += left
        for donor in order[:0:-1]:
            taken = min(moved[donor], left)
            moved[donor] -= taken
            left -= taken
        yield moved


def random_kernel(mdp, off, rng):
    """A kernel of the ball, per stage, with a random corner in every row."""
    centre = mdp.staged()
    p = centre.probability.copy()
    for q in np.flatnonzero(np.diff(centre.row_start) > 1):
        if not centre.known.reshape(-1)[q]:
            here = slice(centre.row_start[q], centre.row_start[q + 1])
            every = list(corners(p[here], off))
            p[here] = every[rng.integers(len(every))]
    return centre.with_probability(np.clip(p, 0.0, 1.0))


def slow_shortfall(mdp, policy, off, x):
    """The largest probability of a return below x if the kernel may depend on the whole history."""

    def worst(h, s, memory, earned):
        if h == mdp.H:
            return float(earned < x - 1e-9)
        a = policy.act(h, s, memory)
        after, p, r = mdp.outcomes(h, s, a)
        worth = mdp.discount**h
        values = np.array([
            worst(h + 1, int(t), policy.next(memory, h, s, a, float(u), int(t)), earned + worth * u)
            for t, u in zip(after, r, strict=True)
        ])  # fmt: skip
        room = 0.0 if mdp.known[0 if mdp.known.shape[0] == 1 else h, s, a] else off
        return max(float(row @ values) for row in corners(p, room))

    return sum(mdp.mu[s] * worst(0, int(s), policy.start(0.5), 0.0) for s in np.flatnonzero(mdp.mu))


@given(small_mdps(), LEVELS, OFFS, st.integers(0, 10**6))
@settings(max_examples=40)
def test_no_kernel_of_the_ball_gives_less_than_every_kind_of_policy_is_said_to_hold(mdp, tau, off, seed):
    rng = np.random.default_rng(seed)
    policies = [*six_kinds(mdp, tau), solve(mdp, tau, pairs=True).policy]
    if not mdp.probability.all():  # a graph of labels has no label after an outcome of probability 0
        policies = [one for one in policies if one.kind != "label"]
    held = [stress(mdp, policy, tau=tau, off=[0.0, off]) for policy in policies]
    for one, policy in zip(held, policies, strict=True):
        assert one.value[0] == evaluate(mdp, policy).quantile(tau)
        assert one.value[1] <= one.value[0]
    for _ in range(3):
        kernel = random_kernel(mdp, off, rng)
        for one, policy in zip(held, policies, strict=True):
            assert evaluate(kernel, policy, rewards="this model").quantile(tau) >= one.value[1] - 1e-9


@given(small_mdps(horizon=3), LEVELS, OFFS)
@settings(max_examples=50)
def test_the_guarantee_is_that_of_a_recursion_over_histories(mdp, tau, off):
    plan = solve(mdp, tau, pairs=True)
    assume(plan.policy.kind == "earned")
    for policy in (plan.policy, solve(mdp, tau).policy, solve(mdp, tau, planner="expected").policy):
        value = stress(mdp, policy, tau=tau, off=[off]).value[0]
        returns = np.unique(np.round(bqrl.guarantee_curve(mdp).points, 9))
        reached = [x for x in returns.tolist() if slow_shortfall(mdp, policy, off, x) < tau - 1e-9]
        close = [x for x in returns.tolist() if abs(slow_shortfall(mdp, policy, off, x) - tau) <= 1e-9]
        best = max([*reached, returns[0]])
        assert value == pytest.approx(best, abs=1e-6) or close


@given(small_mdps(horizon=1), LEVELS, OFFS)
def test_with_one_stage_the_guarantee_is_the_worst_kernel(mdp, tau, off):
    """The kernel cannot depend on what was earned, so the bound is attained."""
    policy = solve(mdp, tau).policy
    assume(np.count_nonzero(mdp.mu) == 1)
    s = int(mdp.mu.argmax())
    a = policy.act(0, s, policy.start())
    _, p, r = mdp.outcomes(0, s, a)
    room = 0.0 if mdp.known[0, s, a] else off
    worst = min(bqrl.Law(r, row / row.sum()).quantile(tau) for row in corners(p, room))
    ties = any(abs(row[r < x].sum() - tau) < 1e-9 for row in corners(p, room) for x in r)
    assert stress(mdp, policy, tau=tau, off=[off]).value[0] == pytest.approx(worst) or ties


@given(small_mdps(horizon=3), LEVELS, OFFS, st.integers(0, 10**6))
@settings(max_examples=30)
def test_rounded_returns_and_buffers_hold_as_well(mdp, tau, off, seed):
    rng, beta = np.random.default_rng(seed), tau / 2
    rounded, plan = solve(mdp, tau, points=7).policy, solve(mdp, tau, beta).policy
    neutral = solve(mdp, bqrl.Mean()).policy
    value = stress(mdp, rounded, tau=tau, off=[off]).value[0]
    buffered = [stress(mdp, one, bqrl.Buffered(tau, beta), off=[off]).value[0] for one in (plan, neutral)]
    for _ in range(5):
        kernel = random_kernel(mdp, off, rng)
        assert evaluate(kernel, rounded, rewards="this model").quantile(tau) >= value - 1e-9
        for one, least in zip((plan, neutral), buffered, strict=True):
            law = evaluate(kernel, one, rewards="this model")
            assert law.buffered_quantile(tau, beta) >= least - 1e-9


@given(small_mdps(horizon=3), LEVELS, OFFS, st.integers(0, 10**6))
@settings(max_examples=30)
def test_the_cvar_of_every_kind_of_policy_holds_under_every_kernel_of_the_ball(mdp, tau, off, seed):
    rng, goal = np.random.default_rng(seed), bqrl.CVaR(tau)
    parts = [solve(mdp, goal).policy, solve(mdp, tau, pairs=True).policy, solve(mdp, bqrl.Mean()).policy]
    policies = [*parts, bqrl.MixturePolicy(parts, [0.25, 0.25, 0.5])]
    held = [stress(mdp, one, goal, off=[0.0, off]).value for one in policies]
    for (nominal, least), one in zip(held, policies, strict=True):
        assert nominal == pytest.approx(evaluate(mdp, one).cvar(tau))
        assert least <= nominal + 1e-9
    assert held[2][1] == pytest.approx(robust_value(mdp, parts[2], tau, tau, half_radius(mdp, 2 * off)), abs=1e-9)
    for _ in range(3):
        kernel = random_kernel(mdp, off, rng)
        for (_, least), one in zip(held, policies, strict=True):
            assert evaluate(kernel, one, rewards="this model").cvar(tau) >= least - 1e-9


@given(small_mdps(horizon=1), LEVELS, OFFS)
def test_with_one_stage_the_cvar_is_that_of_the_worst_kernel(mdp, tau, off):
    """The largest mean of (z - G)^+ moves mass to the smallest return for every z, so one kernel is the worst for all."""
    policy = solve(mdp, bqrl.CVaR(tau)).policy
    assume(np.count_nonzero(mdp.mu) == 1)
    s = int(mdp.mu.argmax())
    a = policy.act(0, s, policy.start())
    _, p, r = mdp.outcomes(0, s, a)
    room = 0.0 if mdp.known[0, s, a] else off
    worst = min(bqrl.Law(r, row / row.sum()).cvar(tau) for row in corners(p, room))
    assert stress(mdp, policy, bqrl.CVaR(tau), off=[off]).value[0] == pytest.approx(worst, abs=1e-9)


def test_plans_of_every_kind_are_stressed_quickly_or_not_at_all():
    plain, worth_less = bqrl.envs.make("SafeOrRisky"), bqrl.envs.make("SafeOrRisky").replace(discount=0.9)
    choices = {"target": {}, "mixture": {"margin": 0.0, "randomized": True}, "markov": {"rule": "state"}}
    for mdp in (plain, worth_less):
        for kind, options in choices.items():
            plan = solve(mdp, 0.1, **options)
            assert plan.policy.kind in (kind, "earned" if kind == "target" else kind)
            assert quick_stress(mdp, plan, [0.0, 0.02], 1.0).value[0] == plan.value
            assert quick_stress(mdp, plan, [0.02], 1e-9) is None
        assert quick_stress(mdp, solve(mdp, bqrl.CVaR(0.1)), [0.02], 1.0).value[0] <= solve(mdp, bqrl.CVaR(0.1)).value
    assert quick_stress(plain, solve(plain, bqrl.Buffered(0.1, 0.03)), [0.02], 1.0).value[0] == 12.0
    assert quick_stress(plain, solve(plain, bqrl.Mean()), [0.02], 1.0) is None
    assert quick_stress(plain, solve(plain, 0.1, planner="capped-frontier"), [0.02], 1.0) is None
    assert quick_stress(worth_less, solve(worth_less, bqrl.Buffered(0.1, 0.03)), [0.02], 1.0) is None


def test_the_robust_plan_holds_what_it_promises_and_known_rows_stay():
    plan = solve("Inventory", 0.1, radius=0.04, attitude="robust")
    held = stress("Inventory", plan.policy, tau=0.1, off=[0.02])
    assert held.value[0] >= plan.value
    mdp = MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=1)
    known = MDP.from_table(mdp._table(), mdp.H, mdp.mu, known=np.ones(mdp.known.shape, bool))
    assert [stress(one, [0], tau=0.6, off=[0.2]).value[0] for one in (mdp, known)] == [0.0, 1.0]
    assert not half_radius(known, 0.4).any()


def test_shared_noise_has_the_ball_of_its_law():
    """The image of the ball around the law of events is the ball of the same radius around each row."""
    plain, shared = (bqrl.envs.make("SafeOrRisky", shared=shared) for shared in (False, True))
    policy = solve(plain, 0.1).policy
    one, other = (stress(mdp, policy, tau=0.1) for mdp in (plain, shared))
    assert one.rows() == other.rows()


def test_the_first_share_at_which_the_plan_is_no_longer_ahead():
    plan = solve("AssetSelling", 0.1)
    held = stress("AssetSelling", plan, off=[0.05, 0.0, 0.01])
    assert held.off.tolist() == [0.0, 0.01, 0.05]
    assert held.overtaken == 0.05
    assert held.rows()[0] == {"off": 0.0, "value": plan.value, "risk_neutral": 17 / 24}
    assert stress("AssetSelling", plan, off=[0.01]).overtaken is None
    assert repr(held).startswith("Stress(0.1-quantile; 0 %: 0.791667")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stress("SafeOrRisky", [0], tau=0.1, off=[1.5]), "off must hold shares in [0, 1]"),
        (lambda: stress("SafeOrRisky", [0], bqrl.Mean()), "objective must be a quantile, buffered or not"),
        (lambda: stress("SafeOrRisky", [[0.5, 0.5]], tau=0.1), "wrap them in bqrl.StochasticPolicy"),
    ],
)
def test_what_cannot_be_stressed_is_refused_in_one_line(call, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert message in str(caught.value)


def test_few_reached_sums_on_a_wide_grid_give_the_bounds_of_the_grid(monkeypatch):
    rows = [("up", "wait", "up", 0.9, -0.1), ("up", "wait", "down", 0.1, -70.3), ("down", "mend", "up", 0.8, -20.7)]
    rows += [("down", "mend", "down", 0.2, -33.4), ("up", "mend", "up", 1.0, -11.9)]
    mdp = MDP(
        [dict(zip(("state", "action", "next_state", "probability", "reward"), row, strict=True)) for row in rows],
        horizon=8,
    )
    for policy in ("always:wait", solve(mdp, tau=0.2), {"up": "mend"}):
        few = stress(mdp, policy, tau=0.2, off=[0.0, 0.02, 0.1]).value
        with monkeypatch.context() as context:
            context.setattr(worst_case, "FEW_MOVES", 0)
            assert np.array_equal(few, stress(mdp, policy, tau=0.2, off=[0.0, 0.02, 0.1]).value)
    wide = MDP(
        [dict(zip(("state", "action", "next_state", "probability", "reward"), row, strict=True)) for row in rows],
        horizon=30,
    )
    assert quick_stress(wide, solve(wide, tau=0.2, planner="expected"), [0.05], 1.0) is not None
