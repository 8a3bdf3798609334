"""Planning without a table: the same answers as with one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.errors import PolicyError
from bqrl.planners.facts import StoredInSingle

NOISE = {0: 0.25, 1: 0.5, 2: 0.25}


@st.composite
def steps(draw):
    """A step function on 2-D states from small random tables, so that ties occur."""
    moves = np.array(draw(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 1)), min_size=9, max_size=9)))
    pays = np.array(draw(st.lists(st.integers(-1, 2), min_size=9, max_size=9)))
    width = draw(st.integers(1, 3))

    def step(states, actions, events):
        cell = (3 * actions + events).astype(int)
        after = np.clip(states + moves[cell], 0, width)
        return after, pays[cell] + (states[:, 0] == width)

    return step, draw(st.integers(1, 4)), (draw(st.integers(0, width)), 0)


@given(steps(), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_plans_without_a_table_are_those_with_one(problem, tau):
    step, horizon, start = problem
    given_ = ([0, 1, 2], NOISE, horizon, start)
    table = bqrl.from_step(step, *given_, vectorized=True)
    model = bqrl.from_step(step, *given_, vectorized=True, stored=False)
    plan, other = bqrl.solve(table, tau), bqrl.solve(model, tau)
    assert other.value == pytest.approx(plan.value, abs=1e-12)
    assert other.upper == pytest.approx(plan.upper, abs=1e-12)
    assert other.law.quantile(tau) == other.value
    assert other.law.mean() == pytest.approx(plan.law.mean(), abs=1e-9)  # ties are broken by the mean alike
    curve, same = bqrl.guarantee_curve(model), bqrl.guarantee_curve(table)
    for level in (0.05, 0.3, 0.75, 1.0):
        assert curve(level) == pytest.approx(same(level), abs=1e-12)
    chance = bqrl.solve(model, bqrl.Chance(2.0)).value
    assert chance == pytest.approx(bqrl.solve(table, bqrl.Chance(2.0)).value, abs=1e-12)
    played = bqrl.simulate(model, other.policy, 400, seed=3)
    assert np.all(np.isin(np.round(played, 9), np.round(other.law.values, 9)))


def queue(states, actions, events):
    """A queue of up to 30: serve 0 to 2, pay for service, lose for waiting."""
    after = np.clip(states - actions + events, 0, 30)
    return after, -1.0 * (after > 3) - 0.5 * actions


def models(horizon=12):
    """The queue with a table and without."""
    given_ = ([0, 1, 2], NOISE, horizon, 5)
    return [bqrl.from_step(queue, *given_, vectorized=True, stored=stored) for stored in (True, False)]


def test_laws_of_arrays_of_actions(monkeypatch):
    table, model = models()
    monkeypatch.setattr("bqrl.mdp.unstored.CHUNK", 40)  # several blocks
    value_of = {s: i for i, s in enumerate(table.state_values)}
    order = [value_of[s] for s in model.states(np.arange(model.S)).tolist()]
    rule = np.arange(table.S) % 3
    law = bqrl.evaluate(model, rule[order])
    assert law.wasserstein(bqrl.evaluate(table, rule)) < 1e-9
    assert bqrl.evaluate(model, np.tile(rule[order], (12, 1)), bracket=True)[1].wasserstein(law) < 1e-12
    mean = bqrl.simulate(model, rule[order], 4000, seed=0).mean()
    assert abs(mean - law.mean()) < 0.2


def test_same_seed_same_bits_and_blocks_do_not_matter(monkeypatch):
    _, model = models()
    plan = bqrl.solve(model, 0.1)
    played = bqrl.simulate(model, plan.policy, 500, seed=7)
    monkeypatch.setattr("bqrl.mdp.unstored.CHUNK", 33)
    again = bqrl.solve(model, 0.1)
    assert np.array_equal(plan.details["curve"].shortfall, again.details["curve"].shortfall)
    assert np.array_equal(bqrl.simulate(model, again.policy, 500, seed=7), played)


def test_32_bits_bracket_the_value_of_64():
    table, model = models()
    single = bqrl.solve(model, 0.1, precision="float32")
    assert single.value <= bqrl.solve(table, 0.1).value <= single.upper
    assert any(isinstance(note, StoredInSingle) for note in single.notes)


def test_policies_of_other_models_are_refused():
    _, model = models()
    _, longer = models(horizon=13)
    with pytest.raises(PolicyError, match="must have H=12"):
        bqrl.evaluate(model, bqrl.solve(longer, 0.1).policy)
    for policy in (lambda h, s: 0, "always:0", np.zeros(3, int)):
        with pytest.raises(TypeError, match="array of actions"):
            bqrl.simulate(model, policy, 10)
    with pytest.raises(PolicyError, match="actions below 3, got 5"):
        bqrl.evaluate(model, np.full(model.S, 5))
    with pytest.raises(ValueError, match="points must be omitted for a StepModel"):
        bqrl.guarantee_curve(model, points=10)
    for goal in (bqrl.Quantile(0.1), bqrl.Chance(1.0)):
        with pytest.raises(
            ValueError, match="pairs must be omitted for a StepModel, got True; build it with stored=True"
        ):
            bqrl.solve(model, goal, pairs=True)


def test_tables_on_demand_serve_models_without_a_table(tmp_path):
    _, model = models()
    curve = bqrl.guarantee_curve(model, folder=tmp_path)
    policy = curve.policy(0.1)
    for h in range(model.H):
        table = policy.actions[h]
        near = policy.near.actions[h]
        assert np.array_equal(table[:, policy.near.first[h] :][:, : near.shape[1]], near)


def test_a_policy_of_a_model_without_a_table_names_the_states_that_it_lacks():
    """Such states, and the stored model, once ended in an IndexError of NumPy."""

    def step(s, a, e):
        return np.minimum(s + a + e, 9), 1.0 * a + e

    problem = step, [0, 1], {0: 0.5, 1: 0.5}, 4, 2
    policy = bqrl.solve(bqrl.from_step(*problem, vectorized=True, stored=False), tau=0.3).policy
    stored = bqrl.from_step(*problem, vectorized=True)
    assert policy.act(0, 0, 1.0) in (0, 1)
    lacks = "states at stage 1 must be below 1, because .* met no others, got more states; plan on the model with stored=True"
    calls = (
        lambda: policy.act(0, 1, 1.0),
        lambda: policy.act_many(0, np.arange(3), np.zeros(3)),
        lambda: bqrl.evaluate(stored, policy),
    )
    for call in calls:
        with pytest.raises(PolicyError, match=lacks):
            call()
