"""Toy-text environments as models."""

import gymnasium as gym
import numpy as np
import pytest
from mdp_strategies import assert_same

from bqrl import from_gymnasium
from bqrl.errors import ModelError, SizeError
from bqrl.mdp.from_gymnasium import has_table


@pytest.mark.parametrize(
    ("name", "options", "states", "extra"),
    [
        ("FrozenLake-v1", {}, 16, 0),
        ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, 64, 0),
        ("CliffWalking-v1", {}, 48, 1),
        ("CliffWalking-v1", {"is_slippery": True}, 48, 1),
        ("Taxi-v4", {}, 500, 1),
        ("Taxi-v4", {"is_rainy": True}, 500, 1),
    ],
)
def test_toy_text_tables_become_models(name, options, states, extra):
    env = gym.make(name, **options)
    mdp = from_gymnasium(env, horizon=30)
    assert (mdp.H, mdp.S, mdp.A, mdp.stationary) == (30, states + extra, env.action_space.n, True)
    assert np.allclose(mdp.mu[:states], env.unwrapped.initial_state_distrib, rtol=0, atol=1e-15)
    assert mdp.available.all()
    if extra:
        assert mdp.state_names[-1] == "done"
        assert all(mdp.outcomes(0, states, a)[0].tolist() == [states] for a in range(mdp.A))
        assert not mdp.reward[0, -mdp.A :].any()
    for s, rows in env.unwrapped.P.items():  # the law of (reward, next state, ended) is that of the table
        for a, outcomes in rows.items():
            expected, got = {}, {}
            for p, s_next, r, ended in outcomes:
                where = states if ended and extra else s_next
                expected[where, float(r)] = expected.get((where, float(r)), 0.0) + p
            for s_next, p, r in zip(*mdp.outcomes(0, s, a), strict=True):
                got[int(s_next), float(r)] = got.get((int(s_next), float(r)), 0.0) + p
            assert got == pytest.approx({key: p for key, p in expected.items() if p > 0})


def test_an_episode_that_ended_never_pays_again():
    """CliffWalking's goal would pay -1 for every step after the end, and Taxi's last state 20 for dropping off twice."""
    cliff = from_gymnasium("CliffWalking-v1", horizon=20)
    path = [0] + [1] * 11 + [2] + [1] * 7
    state, total = cliff.start, 0.0
    for h, action in enumerate(path):
        (state,), _, (reward,) = cliff.outcomes(h, int(state), action)
        total += reward
    assert total == -13.0
    assert cliff.state_label(int(state)) == "done"
    taxi = from_gymnasium("Taxi-v4", horizon=2)
    paid = np.flatnonzero(taxi.reward[0] == 20)
    assert paid.size > 0
    assert (taxi.successor[paid] == 500).all()


def test_start_and_discount_may_be_given():
    mdp = from_gymnasium("FrozenLake-v1", horizon=5, start=3, discount=0.9)
    assert (mdp.start, mdp.discount) == (3, 0.9)
    spread = from_gymnasium("CliffWalking-v1", horizon=5, start=np.full(48, 1 / 48))
    assert spread.mu.shape == (49,)


def test_any_object_with_a_table_will_do():
    class Coin:
        P = {0: {0: [(0.5, 0, 1.0, False), (0.5, 1, 0.0, True)]}, 1: {0: []}}  # noqa: RUF012

    mdp = from_gymnasium(Coin(), horizon=3, start=0)
    assert mdp.S == 3  # state 1 has no row of its own, so its end is the extra state
    assert mdp.outcomes(0, 0, 0)[0].tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"^start must be given for Coin, which .*, got None$"):
        from_gymnasium(Coin(), horizon=3)


def test_a_table_itself_will_do_with_names_or_numbers():
    plain = {0: {0: [(0.5, 0, 1.0, False), (0.5, 1, 0.0, True)]}, 1: {0: [(1.0, 0, 5.0, False)]}}
    mdp = from_gymnasium(plain, horizon=3, start=0)
    assert mdp.state_names == ("0", "1", "done")
    read_back = {"0": {"0": [[0.5, 0, 1.0, False], [0.5, 1, 0.0, True]]}, "1": {"0": [[1.0, 0, 5.0, False]]}}  # of JSON
    for other in (read_back, list(plain.values()), {s: list(rows.values()) for s, rows in plain.items()}):
        assert_same(mdp, from_gymnasium(other, horizon=3, start=0))
    named = {"on": {"go": [(0.5, "on", 1.0, False), (0.5, (0, 1), 0.0, True)]}, (0, 1): {"go": [(1.0, "on", 5.0)]}}
    mdp = from_gymnasium(named, horizon=3, start="on")
    assert (mdp.state_names, mdp.action_names) == (("on", "(0, 1)", "done"), ("go",))
    assert mdp.outcomes(0, 0, 0)[0].tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"^start must be given for a table, which does not expose its first state"):
        from_gymnasium(plain, horizon=3)
    ends = from_gymnasium({"on": {"go": [(1.0, "done", 2.0, True)]}}, horizon=3, start="on")
    assert (ends.state_names, ends.outcomes(0, 0, 0)[0].tolist()) == (("on", "done", "(done)"), [2])


def test_older_environments_name_their_first_states_isd():
    class Older:
        P = {0: {0: [(1.0, 1, 1.0, False)]}, 1: {0: [(1.0, 1, 0.0, True)]}}  # noqa: RUF012
        isd = np.array([0.25, 0.75])

    assert from_gymnasium(Older(), horizon=3).mu.tolist() == [0.25, 0.75]


@pytest.mark.parametrize(
    ("table", "got"),
    [
        (
            {0: {0: [(1.0, 0, True, 0.0)]}},
            r"\(1\.0, 0, True, 0\.0\)",
        ),  # reward and end in the other order, once read as 1
        ({0: {0: [(1.0, 0)]}}, r"\(1\.0, 0\)"),
        ({0: {0: []}}, r"\{0: \{0: \[\]\}\}"),
        ({0: 0.3}, r"\{0: 0\.3\}"),
    ],
)
def test_a_bad_table_shows_its_entry(table, got):
    with pytest.raises(ModelError, match=rf"^a table must hold \(probability, next state, .* action, got {got}$"):
        from_gymnasium(table, horizon=3, start=0)


def test_ids_with_huge_gaps_are_refused_at_once():
    for table in ({0: {0: [(1.0, 10**30, 0.0, True)]}}, {0: {10**30: [(1.0, 0, 0.0, True)]}}):
        with pytest.raises(SizeError, match="number them without gaps"):
            from_gymnasium(table, horizon=3, start=0)


def test_a_reward_may_be_a_truth_value_beside_an_end_that_is_one():
    table = {0: {0: [(0.5, 0, np.False_, False), (0.5, 1, np.True_, True)]}, 1: {0: [(1.0, 1, False, True)]}}
    assert from_gymnasium(table, horizon=2, start=0).outcomes(0, 0, 0)[2].tolist() == [0.0, 1.0]
    with pytest.raises(ModelError, match=r"got \(1\.0, 0, True\)"):  # an end without a reward
        from_gymnasium({0: {0: [(1.0, 0, True)]}}, horizon=2, start=0)


def test_only_a_table_of_outcomes_is_a_table():
    class Holder:
        def __init__(self, P):
            self.P = P

    outcome = (1.0, 0, 0.0, True)
    for table in ({0: {0: [outcome]}}, [[[outcome]]], {0: {}, 1: {0: [outcome]}}):
        assert has_table(Holder(table))
    nested = np.ones((2, 2, 2, 4)) / 4
    for other in (
        None,
        0.3,
        np.eye(3),
        nested,
        nested.tolist(),
        np.eye(3).tolist(),
        {},
        {0: 0.3},
        {0: {0: [(1.0, 0)]}},
    ):
        assert not has_table(Holder(other))
    assert not has_table(object())


class Doubled(gym.Wrapper):
    def step(self, action):
        state, reward, *rest = super().step(action)
        return state, 2 * reward, *rest


class DoubledLimit(Doubled, gym.wrappers.TimeLimit):
    pass


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: gym.wrappers.TransformReward(env, lambda reward: 2.0 * reward),
        lambda env: gym.wrappers.StickyAction(env, 0.5),
        lambda env: gym.wrappers.TransformAction(env, lambda action: 3 - action, env.action_space),
        lambda env: gym.wrappers.TransformObservation(env, lambda state: 15 - state, env.observation_space),
        lambda env: Doubled(env),
        lambda env: DoubledLimit(env, 30),
    ],
    ids=["reward", "sticky", "action", "observation", "own", "own limit"],
)
def test_wrappers_that_change_the_problem_are_refused(wrap):
    """The table below the wrapper was once read, which is another problem than the environment plays."""
    env = gym.wrappers.TimeLimit(wrap(gym.make("FrozenLake-v1")), 30)
    with pytest.raises(ValueError, match="no wrapper that may change states, actions or rewards, got the wrapper"):
        from_gymnasium(env, horizon=5)
    assert from_gymnasium(env.unwrapped, horizon=5).S == 16


def test_a_word_does_not_end_an_episode():
    """The text "False" once ended episodes."""
    for ended in (False, 0, np.False_, 0.0):
        assert from_gymnasium({"a": {"x": [(1.0, "a", 1.0, ended)]}}, 3, "a").S == 1
    with pytest.raises(ModelError, match=r"must hold \(probability, next state, reward, ended\) .*, got .*'False'"):
        from_gymnasium({"a": {"x": [(1.0, "a", 1.0, "False")]}}, 3, "a")


@pytest.mark.parametrize(("name", "limit"), [("FrozenLake8x8-v1", 200), ("FrozenLake-v1", 100), ("Taxi-v4", 200)])
def test_the_horizon_is_the_time_limit_of_the_environment(name, limit):
    assert from_gymnasium(name).H == limit
    assert from_gymnasium(gym.make(name)).H == limit
    assert from_gymnasium(gym.make(name, max_episode_steps=7)).H == 7
    assert from_gymnasium(name, horizon=3).H == 3


def test_an_environment_without_a_time_limit_requires_a_horizon():
    class Coin:
        P = {0: {0: [(0.5, 0, 1.0, False), (0.5, 0, 0.0, False)]}}  # noqa: RUF012

    with pytest.raises(ValueError, match="horizon must be given for Coin, which has no time limit, got None"):
        from_gymnasium(Coin(), start=0)
    with pytest.raises(ValueError, match="horizon must be given for a table, which has no time limit, got None"):
        from_gymnasium({0: {0: [(1.0, 0, 1.0, False)]}}, start=0)
