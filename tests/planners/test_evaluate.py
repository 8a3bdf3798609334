from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import exact_outcomes, fraction, random_mdp, small_mdps, to_law

import bqrl
from bqrl import MDP, LabelPolicy, Law, MarkovPolicy, MixturePolicy, Policy, TargetPolicy, evaluate, simulate, solve
from bqrl.errors import ArgumentTypeError, GridError, SizeError
from bqrl.mdp.find_grid import lattice, return_set, returns_grid, rounded_grid
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.evaluate import Limits, _law_on, law_bracket
from bqrl.planners.sweep import sweep
from bqrl.policies import forward
from bqrl.policies.forward import play_shares
from bqrl.policies.pairs import reached_pairs


def enumerated_law(mdp, policy):
    """Law of the return by walking every path, in exact fractions."""
    mass = {}

    def walk(h, s, memory, total, p):
        if h == mdp.H:
            mass[total] = mass.get(total, 0) + p
            return
        a = policy.act(h, s, memory)
        rewards = [float(r) for r in mdp.outcomes(h, s, a)[2][mdp.outcomes(h, s, a)[1] > 0]]
        for (t, q, worth), r in zip(exact_outcomes(mdp, h, s, a), rewards, strict=True):
            walk(h + 1, t, policy.next(memory, h, s, a, r, t), total + worth, p * q)

    for s in np.flatnonzero(mdp.mu):
        walk(0, int(s), policy.start(), Fraction(0), fraction(mdp.mu[s]))
    return to_law(tuple(sorted(mass.items())))


def random_markov(mdp, seed):
    rng = np.random.default_rng(seed)
    actions = np.zeros((mdp.H, mdp.S), int)
    for h in range(mdp.H):
        for s in range(mdp.S):
            found = np.flatnonzero(mdp.stage(h).available[s])
            actions[h, s] = rng.choice(found) if found.size else 0
    return MarkovPolicy(actions)


@given(small_mdps(), st.integers(0, 10**6))
def test_markov_law_equals_the_enumeration_of_paths(mdp, seed):
    policy = random_markov(mdp, seed)
    assert evaluate(mdp, policy).equals(enumerated_law(mdp, policy))


@given(small_mdps(), st.floats(0.01, 0.99))
def test_target_label_and_level_laws_equal_the_enumeration_of_paths(mdp, tau):
    curve = guarantee_curve(mdp, keep=True)
    for policy in (curve.policy(tau), curve.policy(tau).to_labels(mdp), curve.level_policy(tau)):
        assert evaluate(mdp, policy).equals(enumerated_law(mdp, policy))


@given(small_mdps(), st.floats(0.01, 0.99))
def test_converting_a_policy_loses_nothing(mdp, tau):
    policy = guarantee_curve(mdp).policy(tau)
    labels = policy.to_labels(mdp)
    assert isinstance(labels, LabelPolicy)
    assert evaluate(mdp, labels).equals(evaluate(mdp, policy))
    acts = {}
    for h, s, memory in met(policy, mdp):
        acts.setdefault((h, s), set()).add(policy.act(h, s, memory))
    if all(len(actions) == 1 for actions in acts.values()):
        assert evaluate(mdp, policy.to_markov(mdp)).equals(evaluate(mdp, policy))
    else:
        with pytest.raises(ValueError, match="depends on its memory"):
            policy.to_markov(mdp)


def met(policy, mdp):
    """Every (stage, state, memory) that can be met."""
    found = {(0, int(s), policy.start()) for s in np.flatnonzero(mdp.mu)}
    every = set(found)
    for h in range(mdp.H - 1):
        after = set()
        for _, s, memory in found:
            a = policy.act(h, s, memory)
            for t, p, r in zip(*(column.tolist() for column in mdp.outcomes(h, s, a)), strict=True):
                if p > 0:
                    after.add((h + 1, t, policy.next(memory, h, s, a, r, t)))
        found = after
        every |= found
    return every


@given(small_mdps(), st.floats(0.01, 0.99))
def test_the_level_form_reaches_the_same_quantile(mdp, tau):
    curve = guarantee_curve(mdp, keep=True)
    assume(curve.certain(tau))
    assert evaluate(mdp, curve.level_policy(tau)).quantile(tau) == pytest.approx(curve(tau), abs=1e-9)


@given(small_mdps(), st.integers(0, 10**6))
def test_the_law_does_not_depend_on_the_grid(mdp, seed):
    policy = random_markov(mdp, seed)
    on_lattice, on_set = lattice(mdp), return_set(mdp)
    assert on_lattice is not None
    assert on_set is not None
    assert _law_on(mdp, policy, on_lattice, None).equals(_law_on(mdp, policy, on_set, None))


@given(small_mdps(), st.integers(0, 10**6), st.floats(0.3, 0.999))
def test_a_bracket_holds_the_exact_law_and_narrows_with_the_grid(mdp, seed, discount):
    mdp = mdp.replace(discount=discount)
    policy = random_markov(mdp, seed)
    exact = evaluate(mdp, policy)
    assert isinstance(exact, Law)
    widths = []
    for points in (10, 1000):
        limits = {"points": points, "max_points": 0, "max_set": 0, "max_atoms": 0}
        lower, upper = evaluate(mdp, policy, bracket=True, **limits)
        assert evaluate(mdp, policy, **limits).equals(lower, tol=0.0)
        assert upper.shift(1e-9).dominates(exact)
        assert exact.shift(1e-9).dominates(lower)
        widths.append(upper.mean() - lower.mean())
    span = max(1e-12, rounded_grid(mdp, 10).step * 10)
    assert widths[1] <= 2 * mdp.H * span / 1000 + 1e-9


@given(small_mdps(), st.integers(0, 10**6), st.floats(0.3, 1.0), st.floats(0.05, 0.95))
def test_a_policy_s_own_support_gives_the_same_law(mdp, seed, discount, tau):
    mdp = mdp.replace(discount=discount)
    for policy in (random_markov(mdp, seed), bqrl.solve(mdp, tau, points=30).policy):
        own = evaluate(mdp, policy, max_points=0, max_set=0)
        assert isinstance(own, Law)
        assert own.equals(enumerated_law(mdp, policy))


def test_discounted_law_of_a_chain_in_closed_form():
    mdp = MDP([[[1.0]]], [[1.0]], horizon=4, discount=0.5)
    law = evaluate(mdp, MarkovPolicy(np.zeros((4, 1), int)))
    assert law.values.tolist() == [1.875]


def test_simulation_agrees_with_the_exact_law():
    # Kolmogorov-Smirnov with n = 20000 draws: P(sup |F_n - F| > 0.0136) <= 2 exp(-2 n 0.0136^2) < 0.0013 for each policy.
    mdp = bqrl.envs.make("AssetSelling")
    curve = guarantee_curve(mdp, keep=True)
    low, high = curve.policy(0.1), curve.policy(0.5)
    half = MixturePolicy([low, high], [0.3, 0.7])
    for policy in (random_markov(mdp, 3), low, low.to_labels(mdp), curve.level_policy(0.1), half):
        law = evaluate(mdp, policy)
        draws = np.sort(simulate(mdp, policy, episodes=20_000, seed=11))
        empirical = np.searchsorted(draws, law.values + 1e-9, side="right") / draws.size
        assert np.abs(empirical - law.cdf(law.values)).max() < 0.0136


def test_simulation_of_a_bracketed_policy_lies_within_its_bracket():
    # 10000 draws, Dvoretzky-Kiefer-Wolfowitz: P(miss by more than 0.02) <= 2 exp(-8) < 0.0007.
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.93)
    policy = bqrl.solve(mdp, 0.2, points=300).policy
    lower, upper = evaluate(mdp, policy, max_atoms=0, bracket=True)
    assert upper.mean() > lower.mean()
    exact = evaluate(mdp, policy)  # its own support is small
    assert upper.dominates(exact)
    assert exact.dominates(lower)
    draws = simulate(mdp, policy, seed=5)
    for x in np.linspace(draws.min(), draws.max(), 20):
        assert upper.cdf(x) - 0.02 <= float((draws <= x).mean()) <= lower.cdf(x) + 0.02


@pytest.mark.parametrize("attitude", ["robust", "optimistic"])
def test_the_bracket_of_a_policy_is_one_rounding_error_wide_on_grids_rounded_down_and_up(attitude):
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.93)
    policy = solve(mdp, 0.2, points=60, radius=0.05, attitude=attitude).policy
    assert policy.grid.up == (attitude == "optimistic")
    lower, upper = evaluate(mdp, policy, max_atoms=0, bracket=True)
    exact = evaluate(mdp, policy)  # its own support is small
    assert upper.shift(1e-12).dominates(exact)
    assert exact.dominates(lower.shift(-1e-12))
    assert lower.mean() < exact.mean() < upper.mean()
    error, most = policy.grid.error, 0.93  # returns lie between 0 and the best offer, sold at the second stage
    rounded, shift = (upper, -error) if policy.grid.up else (lower, error)
    moved = Law(np.clip(rounded.values + shift, 0.0, most), rounded.probabilities)
    assert moved.equals(lower if policy.grid.up else upper, tol=1e-12)


def test_the_same_seed_gives_the_same_bits_and_generators_are_accepted():
    mdp = bqrl.envs.make("AssetSelling")
    policy = guarantee_curve(mdp).policy(0.5)
    first = simulate(mdp, policy, 50, seed=7)
    assert np.array_equal(first, simulate(mdp, policy, 50, seed=7))
    assert np.array_equal(first, simulate(mdp, policy, 50, seed=np.random.default_rng(7)))
    assert not np.array_equal(first, simulate(mdp, policy, 50, seed=8))


def test_a_policy_runs_in_a_gymnasium_loop():
    mdp = bqrl.envs.make("AssetSelling")
    policy = guarantee_curve(mdp).policy(0.1)
    env = mdp.as_env()
    totals = []
    for seed in range(300):
        s, _ = env.reset(seed=seed)
        memory, total, over, h = policy.start(), 0.0, False, 0
        while not over:
            a = policy.act(h, int(s), memory)
            after, r, terminated, truncated, _ = env.step(a)
            memory = policy.next(memory, h, int(s), a, float(r), int(after))
            s, h, total, over = after, h + 1, total + float(r), terminated or truncated
        totals.append(total)
    short = evaluate(mdp, policy).shortfall(19 / 24)
    # Hoeffding: P(|share - short| > 0.11) <= 2 exp(-2 * 300 * 0.0121) < 0.0015.
    assert abs(np.mean(np.array(totals) < 19 / 24 - 1e-9) - short) < 0.11


def test_threads_do_not_change_a_law():
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(60), size=(60, 2))
    mdp = MDP(P, rng.integers(0, 200, (60, 2)), horizon=12)
    assert returns_grid(mdp).cells * mdp.S > 100_000
    policy = random_markov(mdp, 0)
    import numba

    both = []
    for threads in (1, 2):
        numba.set_num_threads(threads)
        both.append(evaluate(mdp, policy))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    assert np.array_equal(both[0].probabilities, both[1].probabilities)


def test_policies_of_another_problem_are_refused():
    rng = np.random.default_rng(4)
    mdp = random_mdp(rng, plain=True)
    with pytest.raises(ValueError, match="the policy must have H=4 and S=3 as the problem, got H="):
        evaluate(mdp, MarkovPolicy(np.zeros((mdp.H + 1, mdp.S), int)))
    with pytest.raises(ValueError, match="must play an action from 0 to"):
        evaluate(mdp, MarkovPolicy(np.full((mdp.H, mdp.S), 9)))
    only = MDP([(0, 0, 0, 1.0, 0.0), (1, 1, 1, 1.0, 0.0)], horizon=2)
    for use in (evaluate, simulate):
        with pytest.raises(ValueError, match=r"must play an available action, got .* in state 0 at stage 1"):
            use(only, MarkovPolicy(np.ones((2, 2), int)))
    assert isinstance(guarantee_curve(only).policy(0.5), TargetPolicy)


@pytest.mark.parametrize("attitude", [None, "robust", "optimistic"])
@pytest.mark.parametrize("base", [0.1, 5.1, 127.3, 1000.1])
def test_a_policy_on_a_rounded_grid_counts_rewards_as_its_plan_did(attitude, base):
    ball = {} if attitude is None else {"radius": 0.05, "attitude": attitude}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mdp = bqrl.MDP(
            rng.dirichlet(np.ones(2), (2, 2)), base + rng.integers(0, 90, (2, 2, 2)) / 7, horizon=3, discount=0.9
        )
        plan = solve(mdp, 0.3, points=2000, **ball)
        columns = plan.policy.grid
        for h in range(mdp.H):
            counted = columns.base[h] + columns.stage_units(mdp, h) * columns.step
            played = -columns.reduced(0.0, h, mdp.stage(h).reward)
            met = np.repeat(mdp.reachable[h], np.diff(mdp.stage(h).row_start[:: mdp.A]))
            np.testing.assert_allclose(played[met], counted[met], rtol=0, atol=1e-9 * columns.step)
        own = evaluate(mdp, plan.policy).quantile(0.3)  # followed return by return, as it is executed
        assert plan.nominal == own
        assert attitude == "optimistic" or own >= plan.value - 1e-12


class Alternating(Policy):
    """A policy of a user: its memory is the last action, and `start` takes no argument."""

    kind, H, S = "alternating", 3, 2

    def start(self):
        return 0

    def act(self, h, s, memory):
        return memory

    def next(self, memory, h, s, action, reward, s_next):
        return 1 - action

    def arrays(self):
        return {}


def test_a_policy_whose_start_takes_no_argument_is_evaluated_tabulated_and_played():
    mdp = MDP([(s, a, t, 0.5, float(a)) for s in (0, 1) for a in (0, 1) for t in (0, 1)], horizon=3)
    for policy in (Alternating(), Alternating().to_labels(mdp)):
        assert evaluate(mdp, policy).values.tolist() == [1.0]
    assert {(row["stage"], row["action"]) for row in Alternating().table(mdp)} == {(1, "0"), (2, "1"), (3, "0")}
    assert np.all(simulate(mdp, Alternating(), episodes=10, seed=0) == 1.0)


@pytest.mark.parametrize("name", ["bracket", "labels"])
def test_switches_must_be_true_or_false(name):
    mdp = MDP([(0, 0, 0, 1.0, 1.0)], horizon=3)
    with pytest.raises(ArgumentTypeError, match=f"{name} must be True or False, got 'x'"):
        evaluate(mdp, [0], **{name: "x"})


def test_a_simulation_beyond_all_memory_is_refused_before_it_begins():
    mdp = MDP([(0, 0, 0, 1.0, 1.0)], horizon=3)
    with pytest.raises(SizeError, match=r"got 4\.0e\+14 for 10000000000000 episodes; simulate fewer") as caught:
        simulate(mdp, [0], episodes=10**13)
    assert (caught.value.name, caught.value.needed) == ("episodes", 8 * 10**13 * 5)


def far_state(horizon=8):
    """Three states that lead into each other, and a fourth with other rewards that leads into them and is not reached."""
    rng = np.random.default_rng(0)
    P, R = np.zeros((4, 2, 4)), rng.random((4, 2, 4)) * np.pi
    P[:, :, :3], R[3] = rng.dirichlet(np.ones(3), (4, 2)), -50.0 * rng.random((2, 4))
    return bqrl.MDP(P, R, horizon=horizon, start=0)


def assert_bracketed(mdp, policy):
    """The bracket of the policy's law holds the exact law and is narrow."""
    low, high = law_bracket(mdp, policy, Limits(max_atoms=1))
    exact, none = law_bracket(mdp, policy, Limits(max_atoms=10**6))
    assert none is None
    for tau in (0.1, 0.3, 0.5, 0.9):
        assert low.quantile(tau) - 1e-9 <= exact.quantile(tau) <= high.quantile(tau) + 1e-9
    assert high.mean() - low.mean() < 0.5


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_a_policy_on_a_rounded_grid_is_bracketed_from_another_start(discount):
    mdp = far_state().replace(discount=discount)
    policy, other = solve(mdp, 0.3, points=3000).policy, mdp.replace(start=3)
    assert_bracketed(other, policy)


@pytest.mark.parametrize("seed", range(20))
def test_occupancies_from_another_start_count_its_rewards(seed):
    rng = np.random.default_rng(seed)
    P, R = np.zeros((3, 2, 3)), rng.integers(0, 3, (3, 2, 3)).astype(float)
    P[:, :, :2], R[2] = rng.dirichlet(np.ones(2), (3, 2)), -9.0
    mdp = bqrl.MDP(P, R, horizon=4, start=0)
    policy, other = solve(mdp, 0.4).policy, mdp.replace(start=2)
    shares = play_shares(other, policy)
    played = np.zeros_like(shares)
    pairs = zip(range(other.H), reached_pairs(policy, other), strict=False)
    for h, found in pairs:
        np.add.at(played[h], (found.state, found.action), found.probability)
    np.testing.assert_allclose(shares, played, atol=1e-12)


def test_a_policy_on_a_rounded_grid_is_bracketed_in_a_problem_with_other_outcomes():
    mdp = far_state()
    policy = solve(mdp, 0.3, points=3000).policy
    P = mdp.dense(0).reshape(4, 2, 4).copy()
    P[0, 0], R = [1.0, 0.0, 0.0, 0.0], np.random.default_rng(1).random((4, 2, 4))
    other = bqrl.MDP(P, R, horizon=8, start=0)
    assert other.successor.size != mdp.successor.size
    assert_bracketed(other, policy)


def with_other_discounts():
    """A problem without discount, which has an exact grid, and the same with one, which has none."""
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(3), (3, 2)), rng.integers(0, 9, (3, 2, 3)).astype(float)
    mdp = bqrl.MDP(P, R, horizon=12)
    return mdp, mdp.replace(discount=0.9)


@pytest.mark.parametrize(("planned", "why"), [
    (0, "this problem has none within max_points=2000000 and max_set=50000; raise these limits or max_atoms=20000, plan on"),
    (1, "this one was planned on a rounded grid with another discount; raise max_atoms=20000, plan on this problem or use"),
])  # fmt: skip
def test_the_message_on_a_policy_without_a_grid_says_which_grid_is_missing(planned, why):
    models = with_other_discounts()
    assert [returns_grid(mdp) is not None for mdp in models] == [True, False]
    policy, other = solve(models[planned], 0.3).policy, models[1 - planned]
    with pytest.raises(GridError, match="a target policy requires an exact grid of returns, and ") as caught:
        evaluate(other, policy)
    assert why in str(caught.value)
    if planned == 0:
        assert evaluate(other, policy, max_atoms=10**6).mean() == pytest.approx(
            simulate(other, policy, 20_000, 0).mean(), abs=0.2
        )


def test_steps_too_small_for_a_problem_are_named():
    mdp = bqrl.MDP([[[1.0, 0.0]], [[0.5, 0.5]]], [[0.0], [100.0]], horizon=3, start=0)  # every return from state 0 is 0
    policy = sweep(mdp, rounded_grid(mdp, 50)).policy(0.0)
    with pytest.raises(
        GridError, match="planned on a rounded grid with steps too small for this problem; raise max_atoms=1,"
    ):
        evaluate(mdp.replace(start=1), policy, max_atoms=1)


def test_a_forward_pass_that_does_not_fit_into_memory_is_refused(monkeypatch):
    mdp = with_other_discounts()[0]
    monkeypatch.setattr(forward, "MAX_MASSES", 1000)
    with pytest.raises(
        SizeError, match=r"must fit into .* GiB, got .* GiB; lower max_points or points, or use sim"
    ) as caught:
        evaluate(mdp, np.zeros((12, 3), int))
    assert caught.value.needed > caught.value.limit == 1000


@pytest.mark.parametrize("planner", ["target", "expected"])
def test_the_mean_of_a_discounted_policy_is_exact_although_its_law_is_a_bound(planner):
    rng = np.random.default_rng(3)
    P, R = rng.dirichlet(np.ones(4), (4, 3)), rng.uniform(-2.0, 5.0, (4, 3, 4))
    mdp = bqrl.MDP(P, R, horizon=9, discount=0.93)
    plan = (
        bqrl.solve(mdp, 0.2, planner=planner, points=40)
        if planner == "target"
        else bqrl.solve(mdp, 0.2, planner=planner)
    )
    low, high = bqrl.evaluate(mdp, plan.policy, bracket=True, max_atoms=1)
    shares = play_shares(mdp, plan.policy)
    exact = sum(0.93**h * (shares[h] * (P * R).sum(axis=2)).sum() for h in range(9))
    assert (low.bound.side, high.bound.side) == ("lower", "upper")
    assert low.mean() < exact - 1e-9 < exact + 1e-9 < high.mean()
    assert low.exact_mean == high.exact_mean == pytest.approx(exact, rel=1e-12)
    mixed = bqrl.evaluate(mdp, MixturePolicy([plan.policy, plan.policy], [0.25, 0.75]), max_atoms=1)
    assert mixed.exact_mean == pytest.approx(exact, rel=1e-12)
    assert plan.mean == pytest.approx(exact, rel=1e-9)
