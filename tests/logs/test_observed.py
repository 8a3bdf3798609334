"""What a log shows: settled states, the share of rows seen, and the frequencies of the logged actions."""

import numpy as np
import pytest
from logged_problems import coin, two_steps

from bqrl import Chance, CVaR, Entropic, Law, Mean, MeanCVaR, Utility, fit
from bqrl.laws.interval import lower_end, share_interval
from bqrl.logs.observed import promised_levels


def registry():
    """Every third patient dies after the first year; the row of death has no action."""
    rows = []
    for patient in range(30):
        rows.append((patient, "Well", "treat" if patient % 2 else "wait", 1.0))
        rows.append((patient, "Dead", "", 0.0) if patient % 3 == 0 else (patient, "Well", "wait", 1.0))
    return dict(zip(("episode", "state", "action", "reward"), zip(*rows, strict=True), strict=True))


@pytest.mark.parametrize("stationary", [True, False])
def test_rows_of_a_settled_state_do_not_count_as_unseen(stationary):
    """A registry was said to show 4 of 6 rows, although nothing can be tried after death."""
    estimate = fit(registry(), absorbing=["Dead"], stationary=stationary, reward_range=(0, 1))
    dead = estimate.mdp.state_names.index("Dead")
    assert np.argwhere(estimate.settled.all(axis=0)).ravel().tolist() == [dead, *estimate.added]
    assert estimate.coverage()["rows"] == 2 * (1 if stationary else 2)


def test_a_state_in_which_no_action_was_tried_is_not_settled():
    log = {
        "episode": range(40),
        "state": ["s"] * 40,
        "action": ["a"] * 40,
        "reward": [1.0] * 40,
        "next_state": ["t"] * 40,
    }
    estimate = fit(log, horizon=2, reward_range=(0, 1), ends="truncated")
    assert not estimate.settled[:, estimate.mdp.state_names.index("t")].any()


def test_frequencies_of_the_logged_actions():
    estimate = fit(two_steps(), stationary=True, reward_range=(0, 1), support="states")
    s, t = (estimate.mdp.state_names.index(name) for name in "st")
    old, new = (estimate.mdp.action_names.index(name) for name in ("old", "new"))
    assert estimate.logging_policy[0, s, [old, new]].tolist() == [0.5, 0.5]
    assert estimate.logging_policy[0, t, [old, new]].tolist() == [1.0, 0.0]
    assert repr(fit(coin(10, 5), reward_range=(0, 1))) == "Estimate(10 episodes, 1 row seen, confidence=0.95)"


def test_only_quantiles_and_buffered_quantiles_have_levels():
    assert promised_levels(0.3, 0.1) == (0.3, 0.1)
    assert promised_levels(CVaR(0.2)) == (0.2, 0.2)
    with pytest.raises(ValueError, match="must be a Quantile or Buffered here"):
        promised_levels(Mean())


def test_the_old_policy_has_promises_for_objectives_that_are_no_quantiles():
    estimate = fit(coin(100, 80), reward_range=(0, 1))
    hits = share_interval(80, 100, 0.95)
    assert estimate.logged(Chance(1.0)) == {"value": pytest.approx(0.8), "lower": hits[0], "upper": hits[1]}
    goals = (Mean(), Entropic(0.5), Entropic(-0.5), MeanCVaR(0.5, 0.5), Utility(np.sqrt, increasing=True))
    for goal in goals:
        found = estimate.logged(goal)
        assert found["lower"] == lower_end(goal, estimate.returns, 0.95, 0.0) == estimate.old_promise(goal)
        assert 0.0 < found["lower"] < found["value"] == pytest.approx(goal(Law([0.0, 1.0], [0.2, 0.8])))
    assert estimate.old_promise(Utility(lambda g: -g)) == -np.inf  # it may fall with the return
    assert fit(coin(100, 80), reward_range=(0, 1), adaptive=True).old_promise(Mean()) == -np.inf


def test_a_chance_of_the_old_policy_counts_episodes_that_were_cut_off_as_misses_and_as_hits():
    won, lost = (
        coin(100, 80) | {"end": ends}
        for ends in (["truncated"] * 5 + ["terminal"] * 95, ["terminal"] * 95 + ["cut"] * 5)
    )
    estimate = fit(lost, reward_range=(0, 1), horizon=2)
    found, hits = estimate.logged(Chance(1.0)), int(np.sum(estimate.returns == 1.0))
    assert np.isnan(found["value"])
    assert found["lower"] == share_interval(hits, 100, 0.95)[0]
    assert found["upper"] == share_interval(hits + 5, 100, 0.95)[1]
    worst = np.r_[estimate.returns, np.zeros(5)]
    assert estimate.old_promise(Mean()) == lower_end(Mean(), worst, 0.95, 0.0)
    estimate = fit(won, reward_range=(0, 1), horizon=2)
    assert estimate.cut.tolist() == [[1.0, 2.0]] * 5
    assert estimate.logged(Chance(1.0))["lower"] == share_interval(80, 100, 0.95)[0]
    assert estimate.logged(Chance(2.0))["upper"] == share_interval(5, 100, 0.95)[1]
