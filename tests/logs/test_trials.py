"""Steps that may raise a promise, as projections."""

import numpy as np
import pytest
from logged_problems import coin, simulated

import bqrl
from bqrl.logs.fit import fit
from bqrl.logs.trials import EVENTS, Step, contradicted


def two_stages(second, n=400):
    """Two steps in one state; the first pays 1 in half of the episodes, the second in a share of them."""
    rng = np.random.default_rng(0)
    rewards = np.c_[rng.random(n) < 0.5, rng.random(n) < second].astype(float).ravel()
    log = {"episode": np.repeat(range(n), 2), "stage": [0, 1] * n, "state": ["s"] * 2 * n, "action": ["a"] * 2 * n}
    return log | {"reward": rewards, "next_state": ["s"] * 2 * n}


def test_a_declaration_that_helps_is_projected_and_matches_the_fit_with_it():
    log = two_stages(0.5, 200)
    estimate, tau = fit(log, reward_range=(0, 1)), 0.5
    found = {one["step"]: one for one in estimate.helps(tau)}
    declared = fit(log, reward_range=(0, 1), stationary=True).solve(tau).value
    assert declared > estimate.solve(tau).value
    assert found["declare stationary"]["with_it"] == declared
    assert all(one["with_it"] > one["value"] for one in found.values())


def test_declarations_that_the_log_contradicts_are_not_proposed():
    """The second step pays far more often than the first; rewards differ within a state and action."""
    trials = fit(two_stages(0.99), reward_range=(0, 1)).trials
    assert Step("declare stationary") in trials
    steps = [
        one["step"] for tau in (0.1, 0.4, 0.6, 0.9) for one in fit(two_stages(0.99), reward_range=(0, 1)).helps(tau)
    ]
    assert not any("stationary" in step or "reward_by" in step for step in steps)


@pytest.mark.parametrize("name", ["machine", "asset selling"])
def test_states_that_a_stage_does_not_show_contradict_nothing(name):
    """Their rows hold the worst outcome, which was once compared with the pooled frequencies."""
    mdp, log = simulated(name, 500)
    bounds = float(mdp.reward.min()), float(mdp.reward.max())
    staged, pooled = (fit(log, reward_range=bounds, stationary=flag) for flag in (False, True))
    assert not contradicted(staged.mdp, pooled.mdp, (staged.radii, pooled.radii), staged.seen)
    assert not staged.seen.any(axis=2).all()


def test_recorded_events_are_proposed_where_outcomes_hide_them():
    """A stock-out hides the demand, so that few rows reveal its law."""
    mdp, log = simulated("inventory", 300)
    estimate = fit(log, model=mdp)
    (told,) = estimate.helps(0.1)
    assert (told["step"], told["assumes"]) == EVENTS  # an act, which is neither true nor false
    assert told["with_it"] > told["value"] == estimate.solve(0.1).value
    assert EVENTS not in fit(log, model=mdp.with_noise(None)).trials
    visits = estimate.trials[EVENTS]().balls.visits
    alone = estimate.tries[mdp.noise.row_law < 0].sum()  # steps whose event does not matter
    assert visits.max() == len(log["state"]) - alone
    assert np.all(visits >= estimate.balls.visits)


def test_an_end_state_without_a_successor_is_proposed_as_one():
    """Death has one final row without a successor, so the worst is assumed to follow."""
    n = 400
    state = [s for i in range(n) for s in (("well", "dead") if i % 10 == 0 else ("well", "well"))]
    after = [s for i in range(n) for s in (("dead", "") if i % 10 == 0 else ("well", "well"))]
    log = {"episode": np.repeat(range(n), 2), "state": state, "action": ["wait"] * 2 * n, "next_state": after}
    log |= {"reward": [float(s == "well") for s in state]}
    estimate = fit(log | {"end": ["truncated" if t == "" else "" for t in after]}, reward_range=(-1, 1), horizon=3)
    assert any("state 'dead' ends an episode" in step.words for step in estimate.trials)


def test_a_state_that_is_never_left_is_proposed_as_absorbing():
    """Its rows stood in the log, so that an unseen way out of it was allowed for, and nothing was said."""
    n = 200
    log = {
        "episode": np.repeat(range(n), 2),
        "state": ["well", "dead", "well", "well"] * (n // 2),
        "action": ["wait"] * 2 * n,
    }
    log |= {"next_state": ["dead", "dead", "well", "well"] * (n // 2), "reward": [10.0, 0.0, 10.0, 10.0] * (n // 2)}
    estimate, declared = (fit(log, reward_range=(-50, 10), absorbing=given) for given in (None, ["dead"]))
    first, *_ = estimate.helps(0.15)
    assert first["step"] == "declare absorbing 'dead', which no step of the log leaves"
    assert first["with_it"] == declared.solve(0.15).value == 10.0 > first["value"] == estimate.solve(0.15).value
    for changes in (
        {"reward": [10.0, 1.0, 10.0, 10.0] * (n // 2)},
        {"next_state": ["dead", "well", "well", "well"] * (n // 2)},
    ):
        assert not any("absorbing" in step.words for step in fit(log | changes, reward_range=(-50, 10)).trials)


def test_nothing_helps_where_nothing_can_be_added(tmp_path):
    support = [("s", "a", "(end)", 1.0), ("s", "a", "(end)", 0.0)]
    estimate = fit(coin(50, 40) | {"next_state": ["(end)"] * 50}, reward_range=(0, 1), support=support)
    assert [step.words for step in estimate.trials] == ["declare reward_by state-action"]  # which the log contradicts
    assert estimate.helps(0.1) == []
    estimate.save(tmp_path / "e.npz")
    assert bqrl.load(tmp_path / "e.npz").helps(0.1) == []


def noisy(n=300):
    """Two steps whose rewards never repeat, with a lattice of cents; a third of the first steps pay more."""
    rng = np.random.default_rng(0)
    rewards = np.round(rng.normal(100.0, 5.0, 2 * n) + 50.0 * (rng.random(2 * n) < 0.3), 2)
    log = {"episode": np.repeat(range(n), 2), "state": ["s"] * 2 * n, "action": ["a"] * 2 * n}
    return log | {"reward": rewards, "next_state": ["s"] * 2 * n}


def test_rewards_that_hardly_repeat_are_proposed_for_rounding_which_is_no_declaration():
    log = noisy()
    estimate = fit(log, stationary=True, reward_range=(0, 200))
    (first, *_) = estimate.helps(0.2)
    assert not first["assumes"]
    unit = float(first["step"].split("multiples of ")[1].split()[0])
    rounded = fit(log, stationary=True, reward_range=(0, 200), round_rewards=unit)
    assert first["with_it"] == rounded.solve(0.2).value > estimate.solve(0.2).value
    assert not any("round" in one["step"] for one in rounded.helps(0.2))


def test_the_promise_of_the_old_policy_is_about_rewards_that_are_not_rounded():
    log = noisy()
    plain, rounded = (fit(log, reward_range=(0, 200), stationary=True, round_rewards=unit) for unit in (None, 50))
    assert plain.old_promise(0.2) == rounded.old_promise(0.2) > 150.0
