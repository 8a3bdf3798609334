"""Policies in every form, against enumeration in exact fractions."""

import itertools
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import Law, MarkovPolicy, MixturePolicy, StochasticPolicy, evaluate, simulate
from bqrl.errors import ArgumentError, ArgumentTypeError, PolicyError
from bqrl.policies.convert import average_actions, bind
from bqrl.policies.shares import uniform

MODEL = bqrl.envs.make("AssetSelling")
STOP = np.zeros((MODEL.H, MODEL.S), int)


def by_hand(mdp, shares):
    """Law of the return under action probabilities, in fractions, one outcome after the other."""
    now = {(s, 0): Fraction(p) for s, p in enumerate(mdp.mu.tolist()) if p > 0}
    for h in range(mdp.H):
        after = {}
        for (s, g), mass in now.items():
            for a in np.flatnonzero(shares[h, s]).tolist():
                for t, p, r in zip(*(part.tolist() for part in mdp.outcomes(h, s, a)), strict=True):
                    key = t, g + Fraction(r)
                    after[key] = after.get(key, Fraction(0)) + mass * Fraction(p) * Fraction(shares[h, s, a])
        now = after
    law = {}
    for (_, g), mass in now.items():
        law[g] = law.get(g, Fraction(0)) + mass
    values = sorted(g for g, p in law.items() if p > 0)
    return Law([float(g) for g in values], [float(law[g]) for g in values])


def random_shares(mdp, seed):
    """Action probabilities that differ by stage, with zeros, and none on actions that do not exist."""
    rng = np.random.default_rng(seed)
    available = np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A))
    weights = np.where(available, rng.integers(0, 4, available.shape), 0).astype(float)
    empty = weights.sum(axis=2) == 0
    weights[empty] = available[empty]
    return weights / np.maximum(weights.sum(axis=2, keepdims=True), 1)


@given(small_mdps(), st.integers(0, 10**6))
def test_action_probabilities_equal_the_sum_over_every_choice(mdp, seed):
    shares = random_shares(mdp, seed)
    assert evaluate(mdp, shares).equals(by_hand(mdp, shares))


@given(small_mdps())
def test_uniform_play_equals_the_sum_over_every_choice(mdp):
    assert evaluate(mdp, uniform(mdp)).equals(by_hand(mdp, uniform(mdp)))


@given(small_mdps(actions=1))
def test_with_one_action_there_is_nothing_to_average(mdp):
    assert average_actions(mdp, uniform(mdp)).successor.tolist() == mdp.successor.tolist()


def test_asset_selling_at_random():
    # The first offer, 5, is taken with chance 1/2; a later one with (1/2 - 1/2**10) in all, each of 25 equally often.
    law = evaluate(MODEL, uniform(MODEL))
    taken = np.full(25, (0.5 - 0.5**10) / 25)
    taken[5] += 0.5
    taken[0] += 0.5**10  # never taken
    np.testing.assert_allclose(law.values, np.arange(25) / 24)
    np.testing.assert_allclose(law.probabilities, taken)


def test_uniform_play_stays_stationary():
    assert average_actions(MODEL, uniform(MODEL)).stationary


class Model:
    """Predicts like Stable-Baselines3 and counts its calls."""

    def __init__(self, labels=False):
        self.seen, self.labels = [], labels

    def predict(self, observation, deterministic=False):
        assert deterministic
        self.seen.append(observation)
        return np.array(1 - (float(observation) >= 20)), None


def test_every_form_of_one_policy_has_the_same_law():
    table = np.tile((np.arange(MODEL.S) < 20).astype(int), (MODEL.H, 1))  # take offers of 20 or more
    table[:, 25] = 0
    shares = np.eye(2)[table]
    expected = evaluate(MODEL, MarkovPolicy(table))
    forms = [
        table,
        table[0],
        shares,
        table.tolist(),
        lambda h, s: table[h, s],
        lambda h, s: ("Stop", "Continue")[table[h, s]],
    ]
    for form in forms:
        assert evaluate(MODEL, form).equals(expected, tol=1e-15)
        assert np.array_equal(simulate(MODEL, form, 20, seed=3), simulate(MODEL, MarkovPolicy(table), 20, seed=3))


def test_predict_is_called_twice_per_state():
    model = Model()
    law = evaluate(MODEL, model)
    assert sorted(model.seen) == sorted(2 * list(range(26)))
    assert law.equals(evaluate(MODEL, lambda h, s: 0 if s >= 20 else 1))


def test_a_function_that_draws_its_actions_is_refused_by_evaluate_and_simulated():
    mdp, rng = bqrl.MDP(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [1.0, 2.0]], horizon=6), np.random.default_rng(1)

    class Network:
        calls = itertools.count()

        def predict(self, observation, deterministic=True):
            return next(self.calls) % 2, None

    message = (
        r"must repeat its action when asked twice in state \d at stage \d, got \d and \d; return action probabilities"
    )
    with pytest.raises(PolicyError, match=message):
        evaluate(mdp, lambda h, s: rng.integers(2))
    with pytest.raises(PolicyError, match=r"when asked twice in state \d, got \d and \d; return action probabilities"):
        evaluate(mdp, Network())
    returns, exact = simulate(mdp, lambda h, s: rng.integers(2), 4000, 0), evaluate(mdp, uniform(mdp))
    assert abs(returns.mean() - exact.mean()) < 5 * exact.std() / 4000**0.5
    assert abs(returns.std() - exact.std()) < 0.1 * exact.std()


@given(small_mdps(), st.integers(0, 10**6))
def test_a_function_may_return_probabilities(mdp, seed):
    shares = random_shares(mdp, seed)
    if mdp.A > 1:
        table = [lambda h, s: shares[h, s], lambda h, s: shares[h, s].tolist(), lambda h, s: tuple(shares[h, s])]
        for function in table:
            assert evaluate(mdp, function).equals(by_hand(mdp, shares))


def test_drawn_probabilities_follow_the_seed_and_their_law():
    shares = random_shares(MODEL, 4)
    mixed = lambda h, s: 1 if h == 2 else shares[h, s]  # noqa: E731  a function may return both
    one, other = (simulate(MODEL, mixed, 3000, seed=5) for _ in range(2))
    assert np.array_equal(one, other)
    exact = evaluate(MODEL, mixed)
    assert abs(one.mean() - exact.mean()) < 5 * exact.std() / 3000**0.5
    rows = bqrl.strategies(MODEL, {"mine": mixed}, tau=0.1).rows()
    assert (rows[0]["mean"], rows[0]["quantile_0.1"]) == pytest.approx((exact.exact_mean, exact.quantile(0.1)))


class Drawn(Model):
    """Draws its actions unless asked not to; its probabilities are those of Stable-Baselines3."""

    def __init__(self, shares, form):
        super().__init__()
        self.shares, self.rng = shares, np.random.default_rng(1)
        if form == "method":
            self.policy_probabilities = lambda observation: shares[observation]
        elif form == "network":
            probs = lambda s: SimpleNamespace(distribution=SimpleNamespace(probs=shares[s][None]))  # noqa: E731
            self.policy = SimpleNamespace(get_distribution=probs, obs_to_tensor=lambda s: (s, False))

    def predict(self, observation, deterministic=False):
        best = int(self.shares[observation].argmax())
        return (best if deterministic else int(self.rng.choice(2, p=self.shares[observation]))), None


@pytest.mark.parametrize("form", ["method", "network", "none"])
def test_predict_draws_on_request(form):
    shares = random_shares(MODEL, 4)[0]
    model, exact = Drawn(shares, form), evaluate(MODEL, shares)
    assert evaluate(MODEL, model).equals(evaluate(MODEL, shares.argmax(axis=1)))
    if form == "none":
        with pytest.raises(PolicyError, match="must repeat its action when asked twice"):
            evaluate(MODEL, model, deterministic=False)
    else:
        assert evaluate(MODEL, model, deterministic=False).equals(exact)
    drawn = simulate(MODEL, model, 3000, seed=5, deterministic=False)
    assert abs(drawn.mean() - exact.mean()) < 5 * exact.std() / 3000**0.5


def test_wrong_probabilities_name_the_stage_and_the_state():
    for answer, message in (
        ([0.5, 0.6], r"must sum to 1, got 1.1 in state 2 at stage 4"),
        ([-0.5, 1.5], r"must not be negative, got -0.5 for action Stop in state 2 at stage 4"),
        ([0.2, 0.3, 0.5], r"the action in state 2 at stage 4 must be an index, a name or 2 probabilities"),
        (0.5, r"must be an index, a name or 2 probabilities, got 0.5"),
    ):
        wrong = lambda h, s: answer if (h, s) == (3, 2) else 1  # noqa: B023, E731
        for call in (evaluate, lambda mdp, policy: simulate(mdp, policy, 3000, seed=1)):
            with pytest.raises(PolicyError, match=message):
                call(MODEL, wrong)


def test_labels_are_passed_on_request():
    seen = set()

    def act(stage, state):
        seen.add(state)
        return 0

    evaluate(MODEL, act, labels=True)
    assert seen == {MODEL.state_label(s) for s in range(MODEL.S)}


def walk(**options):
    """A walk on states that `options` describe, up with an action 1 and an event 1, else down."""
    return bqrl.from_step(actions=[0, 1], noise={0: 0.5, 1: 0.5}, horizon=3, **options)


def integer_step(s, a, e):
    return min(s + 3 * a * e, 9), float(s)


def tuple_step(s, a, e):
    return (min(s[0] + a * e, 2), a), float(s[0])


def row_step(s, a, e):
    return np.stack([np.minimum(s[:, 0] + a * e, 2), a], axis=1), s[:, 0].astype(float)


INTEGERS = walk(step=integer_step, start=0)
TUPLES = walk(step=tuple_step, start=(0, 0))
ROWS = walk(step=row_step, start=(0, 0), vectorized=True)
FRAME = bqrl.MDP(
    {"state": [1, 1, 2], "action": [0, 1, 0], "next_state": [2, 1, 2], "probability": [1, 1, 1], "reward": [1, 2, 3]},
    horizon=2, start="1",
)  # fmt: skip


@pytest.mark.parametrize(
    ("mdp", "rule"),
    [(INTEGERS, lambda s: int(s < 4)), (TUPLES, lambda s: s[0] % 2), (ROWS, lambda s: s[0] % 2), (FRAME, lambda s: int(s < 2))],
    ids=["integers", "tuples", "rows of an array", "frame"],
)  # fmt: skip
def test_functions_receive_the_values_of_states_not_their_names(mdp, rule):
    class Predicts:
        def predict(self, state, deterministic):
            return rule(state), None

    actions = np.array([rule(value) for value in mdp.state_values])
    assert 0 < actions.sum() < mdp.S  # neither action everywhere
    assert evaluate(mdp, lambda h, s: rule(s), labels=True).equals(evaluate(mdp, actions), tol=0.0)
    assert evaluate(mdp, Predicts(), labels=True).equals(evaluate(mdp, actions), tol=0.0)


def test_names_serve_where_a_file_does_not_store_values(tmp_path):
    TUPLES.save(tmp_path / "model.json")
    loaded = bqrl.load(tmp_path / "model.json")
    assert loaded.state_values is None
    by_name = evaluate(loaded, lambda h, s: int(s[1]) % 2, labels=True)
    assert by_name.equals(evaluate(TUPLES, lambda h, s: s[0] % 2, labels=True), tol=0.0)


def test_states_without_names_and_values_are_their_numbers():
    mdp = bqrl.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    seen = set()
    evaluate(mdp, lambda h, s: seen.add(s) or 0, labels=True)
    assert seen == {0, 1}


def test_predict_receives_labels_on_request():
    outcomes = [(0, 0, 0, 1.0, 1.0), (1, 0, 1, 1.0, 2.0)]
    mdp = bqrl.MDP(outcomes, horizon=1, start=1, state_names=["left", "right"], action_names=["stay"])

    class Named:
        def predict(self, observation, deterministic=False):
            assert observation == "right"
            return "stay", None

    assert evaluate(mdp, Named(), labels=True).values.tolist() == [2.0]
    assert simulate(mdp, Named(), 3, seed=0, labels=True).tolist() == [2.0] * 3
    with pytest.raises(AssertionError):
        evaluate(mdp, Named())


def test_always_plays_one_action():
    assert evaluate(MODEL, "always:Stop").values.tolist() == [5 / 24]
    assert evaluate(MODEL, "always:Stop").equals(evaluate(MODEL, STOP))


def test_simulation_of_action_probabilities_agrees_with_their_law():
    # Dvoretzky-Kiefer-Wolfowitz, 20000 draws: P(sup |F_n - F| > 0.0136) < 0.0013.
    law, draws = evaluate(MODEL, uniform(MODEL)), simulate(MODEL, uniform(MODEL), 20_000, seed=2)
    shares = (draws[:, None] <= law.values + 1e-9).mean(axis=0)
    assert np.abs(shares - law.running).max() < 0.0136


def test_no_seed_draws_fresh_entropy():
    first, second = (simulate(MODEL, uniform(MODEL), 200) for _ in range(2))
    assert not np.array_equal(first, second)


BAD = {
    "nothing": (None, ArgumentTypeError, "got NoneType"),
    "a number": (3, ArgumentTypeError, "policy must be a Policy"),
    "a ragged list": ([[0], [0, 1]], ArgumentTypeError, "policy must be"),
    "text": ("Stop", ArgumentError, "'always:ACTION'"),
    "an unknown action": ("always:stopp", PolicyError, "did you mean 'Stop'?"),
    "a wrong shape": (np.zeros((3, 3), int), ArgumentError, "(10, 26)"),
    "floats": (np.zeros(26), ArgumentTypeError, "whole numbers"),
    "an action beyond the last": (STOP + 2, PolicyError, "must be from 0 to 1, got"),
    "an action below 0": (STOP - 1, PolicyError, "must be from 0 to 1, got"),
    "an action beyond int16": (STOP + 65536, PolicyError, "must be from 0 to 1, got"),
    "a sum below 1": (np.full((10, 26, 2), 0.4), PolicyError, "sum to 1, got 0.8"),
    "a negative probability": (np.broadcast_to([1.5, -0.5], (10, 26, 2)), PolicyError, "must not be negative"),
    "nan": (np.full((10, 26, 2), np.nan), PolicyError, "sum to 1, got nan"),
    "a function of one argument": (
        lambda h: 0,
        ArgumentTypeError,
        "take two arguments, stage and state, got a function of (h)",
    ),
    "a function of no action": (
        lambda h, s: None,
        PolicyError,
        "in state 5 at stage 1 must be an index, a name or 2 probabilities, got None",
    ),
    "a function of a float": (
        lambda h, s: 0.5,
        PolicyError,
        "in state 5 at stage 1 must be an index, a name or 2 probabilities, got 0.5",
    ),
    "a function of a truth value": (
        lambda h, s: True,
        PolicyError,
        "must be an index, a name or 2 probabilities, got True",
    ),
    "a function of an unknown action": (
        lambda h, s: 7,
        PolicyError,
        "in state 5 at stage 1 must be from 0 to 1, got 7",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("use", [evaluate, simulate])
def test_other_things_are_refused_in_one_line(case, use):
    policy, kind, phrase = BAD[case]
    with pytest.raises(kind) as caught:
        use(MODEL, policy)
    assert phrase in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_refusal_names_stage_state_and_action():
    wrong = STOP.copy()
    wrong[4, 7] = 9
    with pytest.raises(PolicyError) as caught:
        evaluate(MODEL, wrong)
    assert (caught.value.stage, caught.value.state, caught.value.action) == (4, 7, 9)
    assert str(caught.value) == "the action in state 7 at stage 5 must be from 0 to 1, got 9"  # people count from 1


@pytest.mark.parametrize(
    "call", [lambda: evaluate(None, STOP), lambda: simulate(None, STOP), lambda: bqrl.guarantee_curve(None)]
)
def test_a_problem_must_be_an_mdp(call):
    with pytest.raises(ArgumentTypeError, match="mdp must be an MDP, got NoneType"):
        call()


def test_probabilities_of_actions_that_do_not_exist_are_refused():
    only = bqrl.MDP([(0, 0, 0, 1.0, 0.0), (1, 1, 1, 1.0, 0.0)], horizon=2)
    with pytest.raises(PolicyError, match="not available"):
        evaluate(only, np.full((2, 2, 2), 0.5))
    assert bind(only, uniform(only))[0].A == 1


@given(small_mdps(), st.integers(0, 10**6))
def test_a_stochastic_policy_has_the_law_of_its_probabilities_alone_and_in_a_mixture(mdp, seed):
    shares, best = random_shares(mdp, seed), bqrl.solve(mdp, 0.3).policy
    policy = StochasticPolicy(shares)
    assert evaluate(mdp, policy).equals(by_hand(mdp, shares))
    mixture = evaluate(mdp, MixturePolicy([policy, best], [0.25, 0.75]))
    assert mixture.equals(Law.mixture([by_hand(mdp, shares), evaluate(mdp, best)], [0.25, 0.75]))


def test_simulation_of_stochastic_policies_does_not_touch_their_streams():
    policy = StochasticPolicy(uniform(MODEL))
    mixture = MixturePolicy([policy, MixturePolicy([MarkovPolicy(STOP), policy], [0.5, 0.5])], [0.25, 0.75])
    for one in (policy, mixture):
        first, second = (simulate(MODEL, one, 20_000, seed=3) for _ in range(2))
        assert np.array_equal(first, second)
        law = evaluate(MODEL, one)
        assert first.mean() == pytest.approx(law.mean(), abs=5 * first.std() / np.sqrt(first.size))
    assert np.array_equal(simulate(MODEL, policy, 50, seed=3), simulate(MODEL, uniform(MODEL), 50, seed=3))


def test_a_mixture_of_deterministic_policies_is_simulated_episode_by_episode_as_played():
    parts = [MarkovPolicy(STOP), bqrl.solve(MODEL, 0.1).policy]
    mixture, u = MixturePolicy(parts, [0.25, 0.75]), np.random.default_rng(3).random((200, MODEL.H + 2))
    alone = [simulate(MODEL, part, 200, seed=3) for part in parts]
    expected = np.where(u[:, 0] < 0.25, *alone)
    assert np.array_equal(simulate(MODEL, mixture, 200, seed=3), expected)


def test_action_probabilities_by_state_hold_at_every_stage():
    shares = uniform(MODEL)
    assert evaluate(MODEL, shares[0]).equals(evaluate(MODEL, shares))
    one_hot = np.eye(2, dtype=int)[STOP[0]]
    assert evaluate(MODEL, one_hot).equals(evaluate(MODEL, STOP))


def test_the_type_of_a_square_table_says_what_it_holds():
    """With H = S = A the shapes of actions by stage and of probabilities by state are equal."""
    mdp = bqrl.MDP(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [10.0, 100.0]], horizon=2)
    table = np.array([[0, 1], [1, 0]])
    assert evaluate(mdp, table).equals(evaluate(mdp, MarkovPolicy(table)))
    assert evaluate(mdp, table.astype(float)).equals(evaluate(mdp, MarkovPolicy([[1, 0], [1, 0]])))
    assert not evaluate(mdp, table).equals(evaluate(mdp, table.astype(float)))
