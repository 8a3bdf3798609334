"""Plans of estimates in other models, by name."""

import numpy as np
import pytest
from logged_problems import simulated, study

import bqrl
from bqrl.errors import FileFormatError, PolicyError
from bqrl.policies.files import policy_from_arrays
from bqrl.policies.translate import by_name, translated


@pytest.mark.parametrize("name", ["machine", "asset selling", "river swim", "random"])
def test_the_plan_of_an_estimate_has_the_law_of_the_true_model_written_in_its_states(name):
    """The oracle writes the true model with the states of the estimate, so that no names need to be matched."""
    mdp, log = simulated(name, 600)
    bounds = float(mdp.reward.min()), float(mdp.reward.max())
    estimate = bqrl.fit(log, stationary=mdp.stationary, reward_range=bounds)
    for plan in (estimate.solve(0.2), estimate.plug_in(0.3), bqrl.solve(estimate.mdp, bqrl.Mean())):
        found = bqrl.evaluate(mdp, plan)
        expected = bqrl.evaluate(study.embedded(mdp, estimate), plan.policy, rewards="this model")
        assert found.values.tolist() == pytest.approx(expected.values.tolist())
        assert found.probabilities.tolist() == pytest.approx(expected.probabilities.tolist(), abs=1e-12)


def test_a_policy_of_an_estimate_travels_alone_and_from_a_file(tmp_path):
    """A bare policy had the states of the log by number, so that another model refused it or played it in other states."""
    mdp, log = simulated("machine", 600)
    estimate = bqrl.fit(log, stationary=True, reward_range=(float(mdp.reward.min()), float(mdp.reward.max())))
    assert estimate.mdp.S == mdp.S + 2
    for plan in (estimate.solve(0.2), estimate.plug_in(0.3)):
        expected = bqrl.evaluate(mdp, plan)
        plan.policy.save(tmp_path / "policy.npz")
        for form in (plan.policy, bqrl.load(tmp_path / "policy.npz"), tmp_path / "policy.npz"):
            found = bqrl.evaluate(mdp, form)
            assert found.values.tolist() == expected.values.tolist()
            assert found.probabilities.tolist() == expected.probabilities.tolist()
        own = bqrl.evaluate(estimate.mdp, bqrl.load(tmp_path / "policy.npz"))
        assert own.values.tolist() == plan.law.values.tolist()


def test_a_policy_of_an_estimate_follows_the_numbers_of_a_model_without_names(tmp_path):
    """It was played by index: here in state 0 as in state 1 of the model, because the log does not show state 0."""
    moves = [
        (0, 0, 0, 1.0, 5.0),
        (0, 1, 0, 1.0, 1.0),
        (3, 0, 3, 1.0, 1.0),
        (3, 1, 3, 1.0, 5.0),
        (1, 0, 1, 1.0, 0.0),
        (2, 0, 2, 1.0, 0.0),
    ]
    start = np.array([0.0, 0.0, 0.0, 1.0])
    model = bqrl.MDP([*moves, (1, 1, 1, 1.0, 0.0), (2, 1, 2, 1.0, 0.0)], horizon=1, start=start)
    log = {
        "episode": range(400),
        "state": [3] * 300 + [0] * 100,
        "action": [0, 1] * 200,
        "reward": [1.0, 5.0] * 150 + [5.0, 1.0] * 50,
    }
    estimate = bqrl.fit(log, reward_range=(0, 5))
    plan = estimate.solve(0.3)
    plan.policy.save(tmp_path / "policy.npz")
    for form in (plan, plan.policy, tmp_path / "policy.npz"):
        assert estimate.mdp.S == model.S
        assert bqrl.evaluate(model, form).values.tolist() == [5.0]


def test_a_policy_that_carries_names_is_not_played_in_a_model_with_other_names():
    """If the sizes happened to agree, it was played by index."""
    log = {"episode": range(60), "state": ["x", "y"] * 30, "action": ["go"] * 60, "reward": [1.0] * 60}
    policy = bqrl.fit(log, reward_range=(0, 1)).solve(0.5).policy
    rows = {"state": list("abcd"), "next_state": list("abcd"), "action": ["go", "go", "go", "go"], "reward": [1.0] * 4}
    more = {"state": ["a"], "next_state": ["a"], "action": ["no"], "reward": [1.0]}
    both = {key: [*rows[key], *more[key]] for key in rows}
    with pytest.raises(PolicyError, match="the policy must name the states of the problem, got none for 'a'"):
        bqrl.evaluate(bqrl.MDP(both | {"probability": [1.0] * 5}, horizon=1), policy)


def test_damaged_names_of_a_policy_file_are_one_line():
    arrays = bqrl.MarkovPolicy([[0, 0]]).file_arrays() | {"action_names": np.array(["go"])}
    for names in (np.array(["a", "a"]), np.array(["a"]), np.array([1, 2])):
        with pytest.raises(FileFormatError, match="'state_names' must hold distinct texts, one per state"):
            policy_from_arrays(arrays | {"state_names": names})
    assert policy_from_arrays(arrays | {"state_names": np.array(["a", "b"])}).names.action_names == ("go",)


def table(states, actions, pay=1.0):
    """Well may become Dead; `treat` pays `pay`, `wait` pays 0 and is safe."""
    rows = [
        ("Well", "treat", "Well", 0.5, pay),
        ("Well", "treat", "Dead", 0.5, pay),
        ("Well", "wait", "Well", 1.0, 0.0),
    ]
    rows += [("Dead", "wait", "Dead", 1.0, 0.0), ("Dead", "treat", "Dead", 1.0, 0.0)]
    order = sorted(rows, key=lambda row: (states.index(row[0]), actions.index(row[1])))
    names = ("state", "action", "next_state", "probability", "reward")
    frame = {name: [row[j] for row in order] for j, name in enumerate(names)}
    return bqrl.MDP(frame, horizon=3, start="Well")


def test_every_kind_of_policy_travels_to_another_order_of_names():
    one, other = table(["Well", "Dead"], ["treat", "wait"]), table(["Dead", "Well"], ["wait", "treat"])
    assert one.action_names != other.action_names
    assert by_name(one, other)
    assert not by_name(one, one)
    plan = bqrl.solve(one, tau=0.4)
    stochastic = bqrl.StochasticPolicy(np.broadcast_to([0.25, 0.75], (3, 2, 2)))
    markov = bqrl.MarkovPolicy([[0, 0], [1, 0], [0, 0]])
    for policy in (plan.policy, markov, stochastic, bqrl.MixturePolicy([plan.policy, markov], [0.3, 0.7])):
        found, expected = bqrl.evaluate(other, translated(policy, one, other)), bqrl.evaluate(one, policy)
        assert found.values.tolist() == expected.values.tolist()
        assert found.probabilities.tolist() == pytest.approx(expected.probabilities.tolist())


def test_other_rewards_under_the_same_names_are_refused():
    one, other = table(["Well", "Dead"], ["treat", "wait"]), table(["Dead", "Well"], ["wait", "treat"], pay=2.0)
    plan = bqrl.solve(one, tau=0.4)
    with pytest.raises(PolicyError, match="must meet the rewards that it was planned for, 1 from Well to"):
        bqrl.evaluate(other, plan)
    assert bqrl.evaluate(other, plan, rewards="this model").mean() > 0.0


def test_a_state_without_a_name_in_the_plan_is_refused_unless_nothing_depends_on_it():
    one = table(["Well", "Dead"], ["treat", "wait"])
    plan = bqrl.solve(one, tau=0.4)
    names = ("state", "action", "next_state", "probability", "reward")
    rows = [
        ("Well", "treat", "Sick", 1.0, 1.0),
        ("Well", "wait", "Well", 1.0, 0.0),
        ("Sick", "treat", "Sick", 1.0, 1.0),
    ]
    single = bqrl.MDP(dict(zip(names, zip(*rows, strict=True), strict=True)), horizon=3)
    assert bqrl.evaluate(single, plan).mean() >= 1.0  # Sick has one action
    rows += [("Sick", "wait", "Well", 1.0, 0.0)]
    several = bqrl.MDP(dict(zip(names, zip(*rows, strict=True), strict=True)), horizon=3)
    with pytest.raises(PolicyError, match="the policy must name the states of the problem, got none for 'Sick'"):
        bqrl.evaluate(several, plan)
    with pytest.raises(PolicyError, match="the policy must have H=4 as the problem, got H=3"):
        bqrl.evaluate(several.replace(horizon=4), plan)


def test_an_action_that_the_model_does_not_have_is_named():
    one = table(["Well", "Dead"], ["treat", "wait"])
    names = ("state", "action", "next_state", "probability", "reward")
    rows = [("Well", "cure", "Well", 1.0, 1.0), ("Well", "wait", "Well", 1.0, 0.0), ("Gone", "wait", "Gone", 1.0, 0.0)]
    model = bqrl.MDP(dict(zip(names, zip(*rows, strict=True), strict=True)), horizon=3)
    with pytest.raises(PolicyError, match="must play actions of the problem, got 'treat' in state 'Well' at stage 1"):
        bqrl.evaluate(model, bqrl.solve(one, bqrl.Mean()))
