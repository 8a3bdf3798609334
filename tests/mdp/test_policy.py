# ruff: noqa: E501  (a bad policy and its message stay on one line)

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import LEVELS, random_mdp, small_mdps

import bqrl
from bqrl import MDP, LabelPolicy, Law, MarkovPolicy, MixturePolicy, StochasticPolicy, envs, evaluate, load
from bqrl.errors import ArgumentError, FileFormatError, PolicyError, SizeError
from bqrl.mdp.policy import storable
from bqrl.mdp.shares import uniform
from bqrl.planners.target import guarantee_curve

MODEL = bqrl.envs.make("AssetSelling")


def six_kinds(mdp, tau=0.3):
    curve = guarantee_curve(mdp, keep=True)
    target = curve.policy(tau)
    markov = bqrl.solve(mdp, tau, planner="expected").policy
    return [
        markov,
        StochasticPolicy(uniform(mdp)),
        target,
        target.to_labels(mdp),
        curve.level_policy(tau),
        MixturePolicy([markov, target], [0.25, 0.75]),
    ]


def test_no_kind_acts_where_there_is_nothing():
    for policy in six_kinds(MODEL):
        memory = policy.start(0.5)
        for h, s, message in (
            (-1, 5, "h must be a whole number from 0 to 9, got -1"),
            (10, 5, "h must be a whole number from 0 to 9, got 10"),
            (0, -1, "s must be a whole number from 0 to 25, got -1"),
            (0, "5", "s must be a whole number from 0 to 25, got '5'"),
            (0.5, 5, "h must be a whole number from 0 to 9, got 0.5"),
            (0, 26, "s must be a whole number from 0 to 25, got 26"),
        ):
            with pytest.raises(ValueError, match=message):
                policy.act(h, s, memory)
        if policy.kind not in ("markov", "stochastic"):
            for nothing in (None, float("nan")):
                with pytest.raises(ValueError, match=r"expected a memory of this policy, got .*; begin with memory"):
                    policy.act(0, 5, nothing)


@given(small_mdps(), st.floats(0.05, 0.95))
def test_every_kind_survives_saving(tmp_path_factory, mdp, tau):
    path = tmp_path_factory.mktemp("policies") / "policy.npz"
    for policy in six_kinds(mdp, tau):
        policy.save(path)
        again = load(path)
        assert type(again) is type(policy)
        assert evaluate(mdp, again).equals(evaluate(mdp, policy), tol=1e-15)


def test_a_rounded_policy_survives_saving(tmp_path):
    mdp = MODEL.replace(discount=0.9, horizon=20)
    plan = bqrl.solve(mdp, 0.2, points=200)
    plan.policy.save(tmp_path / "p.npz")
    again = load(tmp_path / "p.npz")
    assert np.array_equal(bqrl.simulate(mdp, again, 500, seed=3), bqrl.simulate(mdp, plan.policy, 500, seed=3))
    assert evaluate(mdp, again, max_atoms=0).equals(evaluate(mdp, plan.policy, max_atoms=0))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04broken"])
def test_damaged_files_get_one_line(tmp_path, content):
    path = tmp_path / "p.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"p\.npz"):
        load(path)


def test_files_that_hold_something_else(tmp_path):
    np.savez(tmp_path / "other.npz", bqrl_policy=np.array("neural"))
    with pytest.raises(FileFormatError, match="expected a policy of the kind markov, stochastic, target"):
        load(tmp_path / "other.npz")
    np.savez(tmp_path / "half.npz", bqrl_policy=np.array("target"))
    with pytest.raises(FileFormatError, match=r"half\.npz: expected a target policy, got damaged arrays"):
        load(tmp_path / "half.npz")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        MarkovPolicy([[0]]).save(tmp_path / "p.csv")


def test_tables_name_what_the_problem_names():
    markov, stochastic, target, labels, level, mix = six_kinds(MODEL)
    for policy in (markov, stochastic, target, labels, level, mix):
        rows = policy.rows(MODEL)
        assert {row["action"] for row in rows} <= {"Stop", "Continue"}
        assert {row["stage"] for row in rows} == set(range(1, 11))  # people count from 1
    first = [row for row in target.rows(MODEL) if row["stage"] == 1]
    assert {row["state"] for row in first} == {"5"}
    assert first[0]["need_above"] == -np.inf
    assert first[-1]["need_up_to"] == np.inf
    assert {row["part"] for row in mix.rows(MODEL)} == {1, 2}


def test_target_rows_say_what_the_policy_does():
    policy = guarantee_curve(MODEL).policy(0.1)
    for row in policy.rows(MODEL):
        need = row["need_up_to"] if np.isfinite(row["need_up_to"]) else 99.0
        s = MODEL.state_names.index(row["state"])
        assert MODEL.action_label(policy.act(row["stage"] - 1, s, need)) == row["action"]


def test_the_memory_of_a_target_policy_is_what_is_still_needed():
    policy = guarantee_curve(MODEL).policy(0.1)
    assert policy.start() == pytest.approx(19 / 24)
    assert policy.next(policy.start(), 0, 5, 0, 5 / 24, 25) == pytest.approx(14 / 24)


def test_a_mixture_draws_once_by_the_given_uniform():
    always, never = MarkovPolicy(np.ones((10, 26), int)), MarkovPolicy(np.zeros((10, 26), int))
    mix = MixturePolicy([always, never], [0.25, 0.75])
    assert [mix.start(u)[0] for u in (0.0, 0.2499, 0.25, 0.999999)] == [0, 0, 1, 1]
    first = [MixturePolicy([always, never], [0.5, 0.5], seed=4).start()[0] for _ in range(3)]
    assert len(set(first)) == 1  # the same seed, the same coin
    fresh = [MixturePolicy([always, never], [0.5, 0.5], seed=None) for _ in range(2)]
    assert len({tuple(mix.start()[0] for _ in range(64)) for mix in fresh}) == 2
    with pytest.raises(ArgumentError, match="seed must be a whole number of at least 0, got -1"):
        MixturePolicy([always, never], [0.5, 0.5], seed=-1)
    with pytest.raises(ValueError, match="convert its parts"):
        mix.to_labels(MODEL)


def test_a_mixture_without_a_uniform_tosses_its_own_coin():
    mix = MixturePolicy([MarkovPolicy([[0]]), MarkovPolicy([[1]])], [0.25, 0.75], seed=3)
    drawn = np.array([mix.start()[0] for _ in range(4000)])
    assert drawn.mean() == pytest.approx(0.75, abs=5 * np.sqrt(0.75 * 0.25 / 4000))
    u = np.random.default_rng(3).random(4000)
    assert drawn.tolist() == [mix.start(x)[0] for x in u]


@pytest.mark.parametrize(("weights", "part"), [([1 - 5e-10, 0.0], 0), ([0.0, 1 - 5e-10], 1)])
def test_a_mixture_never_draws_a_policy_of_weight_0(weights, part):
    mix = MixturePolicy([MarkovPolicy([[0]]), MarkovPolicy([[1]])], weights)
    assert [mix.start(u)[0] for u in (0.0, 0.5, 1 - 1e-12, 1 - 2**-53)] == [part] * 4


def test_a_plan_is_not_a_policy():
    with pytest.raises(TypeError, match=r"got Plan; pass plan\.policy"):
        evaluate(MODEL, bqrl.solve(MODEL, 0.1))


def test_labels_follow_random_rewards():
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0), (0, 1, 0, 1.0, 0.5)], horizon=2)
    labels = guarantee_curve(mdp).policy(0.5).to_labels(mdp)
    assert isinstance(labels, LabelPolicy)
    assert evaluate(mdp, labels).equals(evaluate(mdp, guarantee_curve(mdp).policy(0.5)))


BAD = [
    ("actions below 0", lambda: MarkovPolicy([[-1]]), "actions must be whole numbers from 0 in shape (H, S)"),
    ("actions that are fractions", lambda: MarkovPolicy([[0.5]]), "actions must be whole numbers"),
    ("actions in one row", lambda: MarkovPolicy([0, 1]), "in shape (H, S), got (2,)"),
    ("no actions", lambda: MarkovPolicy(np.zeros((0, 3), int)), "actions must be whole numbers"),
    ("weights for other policies", lambda: MixturePolicy([MarkovPolicy([[0]])], [0.5, 0.5]), "one number per policy (1)"),
    ("weights that sum to 0.9", lambda: MixturePolicy([MarkovPolicy([[0]])] * 2, [0.5, 0.4]), "probabilities that sum to 1"),
    ("negative weights", lambda: MixturePolicy([MarkovPolicy([[0]])] * 2, [1.5, -0.5]), "probabilities that sum to 1"),
    ("NaN weights", lambda: MixturePolicy([MarkovPolicy([[0]])] * 2, [np.nan, 1.0]), "probabilities that sum to 1"),
    ("no policies", lambda: MixturePolicy([], []), "one number per policy (0)"),
    ("policies of two sizes", lambda: MixturePolicy([MarkovPolicy([[0]]), MarkovPolicy([[0, 0]])], [0.5, 0.5]), "the policies of a mixture must have the same (H, S), got (1, 1) and (1, 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_policies_get_one_line(call, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_forty_thousand_actions_do_not_overflow(tmp_path):
    mdp = bqrl.MDP([(0, a, 0, 1.0, float(a % 39_999 == 39_998)) for a in range(40_000)], horizon=2)
    for plan in (bqrl.solve(mdp, 0.5), bqrl.solve(mdp, 0.5, planner="expected")):
        assert plan.value == 2.0
        policy = plan.policy
        assert policy.act(0, 0, policy.start()) == 39_998
        policy.save(tmp_path / "p.npz")
        assert load(tmp_path / "p.npz").act(0, 0, policy.start()) == 39_998


def test_tables_of_a_policy_are_read_only():
    for policy in six_kinds(MODEL):
        arrays = [policy.actions] if policy.kind == "markov" else list(getattr(policy, "actions", []))
        arrays += [getattr(policy, name) for name in ("root", "action", "child", "weights") if hasattr(policy, name)]
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_errors_carry_stage_and_state():
    with pytest.raises(PolicyError) as caught:
        MarkovPolicy([[0, 0]]).act(3, 0)
    assert caught.value.stage == 3
    with pytest.raises(PolicyError) as caught:
        MarkovPolicy([[0, 0]]).act(0, 5)
    assert caught.value.state == 5


class Alternating(bqrl.Policy):
    """A custom policy with the methods of an episode only: the memory is the next action."""

    def start(self, u=None):
        return 0

    def act(self, h, s, memory):
        return memory

    def next(self, memory, h, s, action, reward, s_next):
        return 1 - action


COINS = bqrl.MDP([(0, a, 0, 0.5, r) for a in (0, 1) for r in (0.0, 2.0 + a)], horizon=3)


def test_a_custom_policy_needs_no_more_than_the_methods_of_an_episode():
    policy, law = Alternating(), evaluate(COINS, Alternating())
    assert law.equals(evaluate(COINS, lambda h, s: h % 2))
    mixture = MixturePolicy([policy, MarkovPolicy(np.zeros((3, 1), int))], [0.5, 0.5])
    assert (mixture.H, mixture.S) == (3, 1)
    assert evaluate(COINS, mixture).mean() == (law.mean() + 3.0) / 2
    assert evaluate(COINS, MixturePolicy([policy, policy], [0.5, 0.5])).equals(law)
    assert policy.kind == "custom"
    policy.H = 4
    with pytest.raises(PolicyError, match="must have H=3 and S=1"):
        evaluate(COINS, policy)


def test_files_hold_a_custom_policy_as_a_graph_of_labels_or_refuse_it(tmp_path):
    policy, path = Alternating(), tmp_path / "policy.npz"
    for one in (policy, MixturePolicy([policy, policy], [0.5, 0.5])):
        with pytest.raises(
            PolicyError, match=r"to be stored, got Alternating, a custom policy; use policy\.to_labels"
        ) as caught:
            one.save(path)
        assert "\n" not in str(caught.value)
        assert not path.exists()
        storable(one, COINS).save(path)
        assert evaluate(COINS, load(path)).equals(evaluate(COINS, policy))
        path.unlink()
    plain = six_kinds(MODEL)[0]
    assert storable(plain, MODEL) is plain


def test_a_custom_policy_with_too_many_memories_is_not_unrolled_for_a_file(monkeypatch):
    class Historian(Alternating):
        def start(self, u=None):
            return ()

        def act(self, h, s, memory):
            return 0

        def next(self, memory, h, s, action, reward, s_next):
            return (*memory, reward)

    assert storable(Historian(), COINS).action.size == 1 + 2 + 4
    monkeypatch.setattr("bqrl.mdp.policy.MAX_STORED_MOVES", 7)
    with pytest.raises(SizeError, match="at most 7 moves per stage, got 8") as caught:
        storable(Historian(), COINS)
    assert (caught.value.needed, caught.value.limit) == (8, 7)


# -- the level as memory -------------------------------------------------------------------------------------------------


def law_of(mdp, policy):
    """The law of the return, by walking every (state, memory, return so far); and the mass of every memory met."""
    mass = {(int(s), policy.start(), 0.0): float(mdp.mu[s]) for s in np.flatnonzero(mdp.mu)}
    stages = []
    for h in range(mdp.H):
        stages.append(mass)
        after = defaultdict(float)
        for (s, memory, total), weight in mass.items():
            a = policy.act(h, s, memory)
            for t, p, r in zip(*(row.tolist() for row in mdp.outcomes(h, s, a)), strict=True):
                if p > 0.0:
                    after[t, policy.next(memory, h, s, a, r, t), round(total + mdp.discount**h * r, 9)] += weight * p
        mass = after
    return Law([total for _, _, total in mass], list(mass.values())), [*stages, mass]


@given(small_mdps(), st.sampled_from(LEVELS))
def test_the_level_of_a_target_policy_is_a_martingale_from_tau(mdp, tau):
    tau = float(tau)
    curve = guarantee_curve(mdp, keep=True)
    margin, W, grid = curve.margin(tau).below, curve.sweep.values, curve.sweep.grid
    _, stages = law_of(mdp, curve.policy(tau))
    for h, mass in enumerate(stages):
        levels = [(p, W[h][s, grid.column(h, need)] + margin) for (s, need, _), p in mass.items()]
        assert sum(p * q for p, q in levels) == pytest.approx(tau, abs=1e-10)
        assert sum(p * min(q, 1.0) for p, q in levels) <= tau + 1e-10  # clipped: a supermartingale


@given(small_mdps(plain=True), st.sampled_from(LEVELS))
def test_policy_retargeted_from_its_level_attains_the_same_quantile(mdp, tau):
    tau = float(tau)
    curve = guarantee_curve(mdp, keep=True)
    law, _ = law_of(mdp, curve.level_policy(tau))
    assert law.quantile(tau) == pytest.approx(float(curve(tau)), abs=1e-8)
    short = law.shortfall(float(curve(tau)) - 1e-6)
    assert tau - curve.margin(tau).below - 1e-10 <= short < tau


def test_a_level_ends_at_one_and_with_it_a_small_chance():
    # A need whose level exceeds 1 is given up, though it may still have a chance: the shortfall grows, the quantile stays.
    found = 0
    for seed in range(300):
        mdp = random_mdp(np.random.default_rng(seed))
        curve = guarantee_curve(mdp, keep=True)
        for tau in (0.7, 5 / 6):
            policy, best = curve.level_policy(tau), tau - curve.margin(tau).below
            law, stages = law_of(mdp, policy)
            short = law.shortfall(float(curve(tau)) - 1e-6)
            if short > best + 1e-9:
                found += 1
                assert law.quantile(tau) == pytest.approx(float(curve(tau)), abs=1e-8)
                assert any(q == 1.0 for mass in stages for _, q, _ in mass)  # never without a level that was cut
    assert found > 0


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_level_in_memory_keeps_its_mean_up_to_clipping(tau):
    mdp = envs.make("AssetSelling")
    curve = guarantee_curve(mdp, keep=True)
    policy = curve.level_policy(tau)
    _, stages = law_of(mdp, policy)
    means = [sum(p * q for (_, q, _), p in mass.items()) for mass in stages]
    assert means[0] == tau
    assert np.all(np.diff(means) <= 1e-12)  # a supermartingale
    assert means[1] >= tau - curve.margin(tau).below - 1e-12
    assert means[-1] == pytest.approx(
        curve.margin(tau).below
    )  # once lost it takes a new aim, and then all aims are met


def test_on_ties_the_level_alone_chooses_otherwise():
    # Needs 1 and 2 have the same level after the first coin: action 1 gives 2 for sure, so asking for 1 or 2 is equally
    # safe. The need 1 may be served by action 0, of the better mean (1 or 9); the level takes the need 2 and action 1.
    listed = [(0, 0, 0, t, p, 0.0) for t, p in ((1, 0.5), (2, 0.5))] + [(0, s, 0, s, 1.0, 0.0) for s in (1, 2)]
    listed += [(1, 1, 0, 1, 0.5, 1.0), (1, 1, 0, 1, 0.5, 9.0), (1, 1, 1, 1, 1.0, 2.0)]
    listed += [(1, 2, 0, 2, 1.0, 0.0), (1, 0, 0, 0, 1.0, 0.0)]
    mdp = MDP(listed, horizon=2)
    curve, tau = guarantee_curve(mdp, keep=True), 0.6
    assert curve(tau) == 2.0
    by_need = curve.policy_for(1.0)
    level, (one, two) = curve.margin(tau).below, (curve.sweep.grid.column(1, need) for need in (1.0, 2.0))
    assert curve.sweep.values[1][1, one] == curve.sweep.values[1][1, two] == 0.0
    assert by_need.act(1, 1, 1.0) == 0
    assert curve.level_policy(tau).act(1, 1, level) == 1


HALF = StochasticPolicy([[[0.5, 0.5]]] * 10)


def test_a_stochastic_policy_draws_from_its_own_seeded_stream():
    shares = [[[0.2, 0.0, 0.8]]]
    first, again, other = (StochasticPolicy(shares, seed=seed) for seed in (3, 3, 4))
    drawn = [[policy.act(0, 0) for _ in range(2000)] for policy in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {0, 2}
    assert np.mean(np.array(drawn[0]) == 2) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 2000))


@pytest.mark.parametrize(
    ("shares", "kind", "message"),
    [
        ([[0.5, 0.5]], PolicyError, r"probabilities must have shape \(H, S, A\), got \(1, 2\)"),
        ([[[0.5, 0.4]]], PolicyError, "must sum to 1, got 0.9 in state 0 at stage 1"),
        ([[[1.5, -0.5]]], PolicyError, "must not be negative, got -0.5 for action 1 in state 0 at stage 1"),
        ([[[0.0, float("nan")]]], PolicyError, "must sum to 1, got nan"),
        ([[["a", "b"]]], TypeError, "must be an array of numbers, got list"),
        ([[[1.0], [0.5, 0.5]]], TypeError, "must be an array of numbers, got list"),
    ],
)
def test_action_probabilities_that_are_none_are_refused(shares, kind, message):
    with pytest.raises(kind, match=message):
        StochasticPolicy(shares)


def test_later_changes_of_an_array_do_not_change_the_policy():
    shares = np.full((1, 1, 2), 0.5)
    policy = StochasticPolicy(shares)
    shares[:] = [1.0, 0.0]
    assert policy.probabilities.tolist() == [[[0.5, 0.5]]]
    with pytest.raises(ValueError, match="read-only"):
        policy.probabilities[:] = 0.0


def test_a_state_without_probabilities_has_no_draw():
    with pytest.raises(PolicyError, match="expected a state with action probabilities, got state 1 at stage 1"):
        StochasticPolicy([[[0.5, 0.5], [0.0, 0.0]]]).act(0, 1)


@pytest.mark.parametrize("convert", ["to_markov", "to_labels"])
def test_a_stochastic_policy_has_no_form_with_one_action_per_history(convert):
    mdp = bqrl.envs.make("SafeOrRisky")
    with pytest.raises(PolicyError, match=r"expected a policy that draws no actions, .*argmax\(axis=2\)\)"):
        getattr(HALF, convert)(mdp)


def test_a_mixture_within_a_mixture_draws_by_the_same_uniform_number():
    inner = MixturePolicy([MarkovPolicy([[1]]), MarkovPolicy([[2]])], [0.25, 0.75])
    outer = MixturePolicy([MarkovPolicy([[0]]), inner], [0.5, 0.5])
    played = [outer.act(0, 0, outer.start(u)) for u in (0.0, 0.49, 0.5, 0.62, 0.63, 0.999)]
    assert played == [0, 0, 1, 1, 2, 2]
