"""The reachable pairs of state and memory, against all histories one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import MarkovPolicy
from bqrl.errors import PolicyError, SizeError
from bqrl.policies import pairs as unrolled
from bqrl.policies.forward import play_shares
from bqrl.policies.pairs import check_played


def histories(mdp, policy):
    """Per stage, the probability of each (state, memory, sum), over all histories one by one."""
    stages = [[(int(s), policy.start(), 0.0, float(mdp.mu[s])) for s in np.flatnonzero(mdp.mu)]]
    for h in range(mdp.H):
        after = []
        for s, memory, total, p in stages[-1]:
            a = policy.act(h, s, memory)
            for t, q, r in zip(*(column.tolist() for column in mdp.outcomes(h, s, a)), strict=True):
                if q > 0.0:
                    memory_after = policy.next(memory, h, s, a, r, t)
                    after.append((t, memory_after, total + mdp.discount**h * r, p * q))
        stages.append(after)
    return stages


def added(rows):
    """Probability by key."""
    found = {}
    for *key, p in rows:
        found[tuple(key)] = found.get(tuple(key), 0.0) + p
    return found


@given(small_mdps(), st.sampled_from([0.1, 0.5, 0.9]))
def test_pairs_have_the_probabilities_and_moves_of_all_histories(mdp, tau):
    target = bqrl.solve(mdp, tau).policy
    for policy in (target, target.to_labels(mdp), bqrl.solve(mdp, tau, planner="expected").policy):
        expected, before = histories(mdp, policy), None
        for h, pairs in enumerate(unrolled.reached_pairs(policy, mdp)):
            memory = [None] * pairs.state.size if pairs.memory is None else list(pairs.memory)
            keys = list(zip(pairs.state.tolist(), memory, strict=True))
            found = dict(zip(keys, pairs.probability.tolist(), strict=True))
            assert len(found) == len(keys)
            assert found == pytest.approx(added((s, m, p) for s, m, _, p in expected[h]))
            if before is not None:
                assert before.onward == len(keys)
                arrived = pairs.state[before.child]
                assert np.array_equal(arrived, mdp.stage(h - 1).successor[before.outcome])
            before = pairs
        assert h == mdp.H
        assert before.onward == before.action.size == before.child.size == 0


@given(small_mdps(), st.sampled_from([0.3, 0.9, 1.0]))
def test_with_a_unit_pairs_differ_by_their_sums(mdp, discount):
    mdp = mdp.replace(discount=discount)
    policy = MarkovPolicy(np.array([mdp.stage(h).available.argmax(axis=1) for h in range(mdp.H)]))
    *_, last = unrolled.reached_pairs(policy, mdp, 1e-9)
    found = added(zip(last.state.tolist(), np.rint(last.total * 1e6), last.probability.tolist(), strict=True))
    expected = added((s, round(total * 1e6), p) for s, _, total, p in histories(mdp, policy)[-1])
    assert found == pytest.approx(expected)


def test_memories_that_cannot_be_hashed_are_refused_in_one_line():
    class Diary(bqrl.Policy):
        H, S = 2, 1

        def start(self):
            return []

        def act(self, h, s, memory):
            return 0

        def next(self, memory, h, s, action, reward, s_next):
            return [*memory, reward]

    mdp = bqrl.MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 2.0)], horizon=2)
    with pytest.raises(PolicyError, match=r"^the memory of a policy must be hashable, got .*'list'; return a tuple$"):
        bqrl.evaluate(mdp, Diary())


def test_pairs_with_numbers_as_memory_are_listed_as_those_with_other_memories():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        s, memory = rng.integers(0, 3, 1 + seed % 30), rng.choice([0.0, -0.0, 1.5, np.inf], 1 + seed % 30)
        for quick, general in zip(
            unrolled._deduplicate(s, memory), unrolled._deduplicate(s, memory.tolist()), strict=True
        ):
            np.testing.assert_array_equal(quick, general)


class History(bqrl.Policy):
    """The memory is the whole history."""

    def start(self, u=None):
        return ()

    def act(self, h, s, memory):
        return 0

    def next(self, memory, h, s, action, reward, s_next):
        return (*memory, s_next)


def test_a_policy_with_too_long_a_memory_is_refused_with_the_count_and_the_remedy(monkeypatch):
    mdp = bqrl.MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], horizon=12)
    assert bqrl.evaluate(mdp, History()).equals(bqrl.evaluate(mdp, [0, 0]))
    monkeypatch.setattr(unrolled, "MAX_LABELS", 1000)
    with pytest.raises(SizeError, match=r"at most 1000 labels .*, got 1022 by stage 9; use simulate") as fault:
        bqrl.evaluate(mdp, History())
    assert (fault.value.needed, fault.value.limit) == (1022, 1000)
    assert bqrl.simulate(mdp, History(), 10, 0).shape == (10,)
    monkeypatch.setattr(unrolled, "MAX_CUSTOM_MOVES", 500)
    with pytest.raises(SizeError, match=r"at most 500 moves per stage, got 512 at stage 9; use simulate"):
        bqrl.evaluate(mdp, History())


def test_a_policy_without_memory_is_never_too_large(monkeypatch):
    monkeypatch.setattr(unrolled, "MAX_LABELS", 3)
    mdp = bqrl.MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], horizon=12)

    class First(bqrl.Policy):
        def act(self, h, s, memory):
            return 0

    assert bqrl.evaluate(mdp, First()).equals(bqrl.evaluate(mdp, [0, 0]))


@pytest.mark.parametrize("drawn", ["start", "act", "next"])
def test_a_policy_that_draws_its_answers_has_no_exact_law(drawn):
    mdp, rng = bqrl.MDP(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [1.0, 2.0]], horizon=6), np.random.default_rng(1)

    class Draws(bqrl.Policy):
        kind = "my own"

        def start(self, u=None):
            return int(rng.integers(10**9)) if drawn == "start" else 0

        def act(self, h, s, memory):
            return int(rng.integers(2)) if drawn == "act" else memory % 2

        def next(self, memory, h, s, action, reward, s_next):
            return int(rng.integers(10**9)) if drawn == "next" else memory

    rule = {"start": "start with one memory", "act": "repeat its action", "next": "repeat its next memory"}[drawn]
    message = (
        rf"^the policy must {rule} when asked twice in state \d at stage \d, got \d+ and \d+; .*simulate a function or"
    )
    for call in (bqrl.evaluate, lambda mdp, policy: policy.to_labels(mdp), lambda mdp, policy: policy.table(mdp)):
        with pytest.raises(PolicyError, match=message):
            call(mdp, Draws())
    mean = 5.0 if drawn == "next" else 5.5
    assert abs(bqrl.simulate(mdp, Draws(), 4000, 0).mean() - mean) < 0.2


class Plays(bqrl.Policy):
    """Plays what it is given, at every stage."""

    def __init__(self, action):
        self.action = action

    def act(self, h, s, memory):
        return self.action


@pytest.mark.parametrize("action", [0.9, 1.0, 10**30, np.float64(1.0), True, np.True_, "x", None, np.eye(2, dtype=int)])
@pytest.mark.parametrize("use", [bqrl.evaluate, bqrl.simulate])
def test_an_action_that_is_no_whole_number_is_refused(use, action):
    with pytest.raises(PolicyError, match=r"^the action in state 0 at stage 1 must be a whole number, got ") as caught:
        use(bqrl.envs.make("SafeOrRisky"), Plays(action))
    assert (caught.value.stage, caught.value.state) == (0, 0)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("action", [1, np.int16(1), np.uint8(1), np.array(1)])
def test_whole_numbers_of_every_type_are_actions(action):
    mdp = bqrl.envs.make("SafeOrRisky")
    assert bqrl.evaluate(mdp, Plays(action)).equals(bqrl.evaluate(mdp, Plays(1)))


def test_many_actions_that_are_no_whole_numbers_are_refused():
    class Many(Plays):
        def act_many(self, h, s, memory):
            return np.full(s.size, 0.9)

    with pytest.raises(PolicyError, match=r"must be a whole number, got 0\.9"):
        bqrl.evaluate(bqrl.envs.make("SafeOrRisky"), Many(0))


def test_an_action_that_does_not_exist_is_named_with_its_place():
    mdp = bqrl.MDP([(0, 0, 1, 1.0, 0.0), (1, 0, 1, 1.0, 0.0), (1, 1, 0, 1.0, 1.0)], horizon=2)
    with pytest.raises(PolicyError) as caught:
        check_played(mdp, 1, np.array([1, 0]), np.array([1, 1]))
    assert (caught.value.stage, caught.value.state, caught.value.action) == (1, 0, 1)


@pytest.mark.parametrize("drawn", ["start", "act", "function", "predict"])
def test_a_fair_coin_is_found_where_there_is_one_decision(drawn):
    """Two draws of a coin agree every other time, so few questions are asked often."""
    mdp, rng = bqrl.MDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1), np.random.default_rng(1)

    class Draws(bqrl.Policy):
        def start(self, u=None):
            return int(rng.integers(2)) if drawn == "start" else 0

        def act(self, h, s, memory):
            return int(rng.integers(2)) if drawn == "act" else memory

    class Predicts:
        def predict(self, observation, deterministic):
            return int(rng.integers(2)), None

    policy = {"function": lambda h, s: int(rng.integers(2)), "predict": Predicts()}.get(drawn, Draws())
    for _ in range(20):
        with pytest.raises(PolicyError, match="when asked twice"):
            bqrl.evaluate(mdp, policy)


class Wavers(bqrl.Policy):
    """Remembers its last two rewards; answers with an action at even stages, else with probabilities."""

    def __init__(self, A):
        self.A = A

    def start(self, u=None):
        return ()

    def act(self, h, s, memory):
        rng = np.random.default_rng([h, s, *(int(1e6 * abs(r)) for r in memory)])
        if h % 2 == 0 and s % 2 == 0:
            return int(rng.integers(self.A))
        return rng.dirichlet(np.ones(self.A)) * np.where(np.arange(self.A) == h % self.A, 0.0, 1.0) ** (self.A > 2)

    def next(self, memory, h, s, action, reward, s_next):
        return (*memory, reward)[-2:]


def law_over_histories(mdp, policy):
    """The probability of every return, over all histories and draws one by one."""
    law = {}

    def follow(h, s, memory, p, total):
        if h == mdp.H:
            law[round(total, 9)] = law.get(round(total, 9), 0.0) + p
            return
        answer = policy.act(h, s, memory)
        shares = np.eye(mdp.A)[answer] if np.ndim(answer) == 0 else np.asarray(answer) / np.sum(answer)
        for a in np.flatnonzero(shares).tolist():
            for t, q, r in zip(*(column.tolist() for column in mdp.outcomes(h, s, a)), strict=True):
                if q > 0.0:
                    follow(h + 1, t, policy.next(memory, h, s, a, r, t), p * q * shares[a], total + mdp.discount**h * r)

    for s in np.flatnonzero(mdp.mu).tolist():
        follow(0, s, policy.start(), float(mdp.mu[s]), 0.0)
    return law


@pytest.mark.parametrize(("discount", "noise"), [(1.0, 0.0), (0.9, 0.0), (0.9, 1.0)])
def test_a_policy_with_memory_that_answers_with_probabilities_has_an_exact_law(discount, noise):
    """It was refused: action probabilities were taken from functions without memory only."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        reward = rng.integers(-2, 3, (2, 2)) + noise * rng.normal(size=(2, 2))
        mdp = bqrl.MDP(rng.dirichlet(np.ones(2), (2, 2)), reward, horizon=4, discount=discount)
        law, expected = bqrl.evaluate(mdp, Wavers(2)), law_over_histories(mdp, Wavers(2))
        assert law.bound is None
        assert law.mean() == pytest.approx(sum(value * p for value, p in expected.items()))
        for value in expected:
            below = sum(p for other, p in expected.items() if other < value - 1e-6)
            assert law.probabilities[law.values < value - 1e-6].sum() == pytest.approx(below)
        shares = play_shares(mdp, Wavers(2))
        assert shares.sum(axis=(1, 2)) == pytest.approx(1.0)
        returns = bqrl.simulate(mdp, Wavers(2), 4000, seed)
        assert abs(returns.mean() - law.mean()) < 4.0 * law.std() / 4000**0.5


def test_a_learner_may_play_a_policy_with_memory_and_probabilities():
    class Wavering(bqrl.Learner):
        name = "wavering"

        def plan(self):
            return Wavers(self.task.A)

        def observe(self, episode):
            pass

    mdp = bqrl.MDP(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [1.0, 2.0]], horizon=4)
    record = bqrl.learn(mdp, Wavering, 0.3, 200, 1, progress=False)
    law = bqrl.evaluate(mdp, Wavers(2))
    assert not record.sampled.any()
    assert record.value() == pytest.approx(law.quantile(0.3))
    assert abs(record.returns.mean() - law.mean()) < 4.0 * law.std() / 200**0.5


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0.5, 0.4], r"sum to 1, got 0\.9 in state .* at stage 1"),
        ([1.5, -0.5], "not be negative, got -0.5 for action .* in state .* at stage 1"),
        ([0.5, 0.25, 0.25], "have 2 entries, got 3"),
        (["x", 1.0], "be numbers, got"),
        ([[0.5, 0.5], [1.0]], "must be a whole number, got"),
        ([float("nan"), 1.0], "sum to 1, got nan"),
    ],
)
@pytest.mark.parametrize("use", [bqrl.evaluate, bqrl.simulate])
def test_answers_that_are_no_probabilities_are_refused(use, answer, message):
    with pytest.raises(PolicyError, match=message):
        use(bqrl.envs.make("SafeOrRisky"), Plays(answer))


@pytest.mark.parametrize("share", [[1.0], [0.25, 0.25, 0.5]])
def test_an_environment_has_one_probability_per_action(share):
    env = bqrl.envs.make("SafeOrRisky").as_env()
    with pytest.raises(PolicyError, match="must have 2 entries"):
        bqrl.simulate(env, Plays(share), 2, horizon=2, seed=0)


def test_a_policy_that_draws_its_actions_has_no_form_without_draws():
    mdp = bqrl.envs.make("SafeOrRisky")
    for call in (Plays([0.5, 0.5]).to_labels, Plays([0.5, 0.5]).to_markov, Plays([0.5, 0.5]).table):
        with pytest.raises(
            PolicyError, match=r"must play one action here, got action probabilities at stage 1; evaluate"
        ):
            call(mdp)
