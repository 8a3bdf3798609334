"""Acceptability against a threshold: integrals over the posterior, counts by hand, and further outcomes of counts."""

import numpy as np
import pytest
from scipy.stats import beta

import bqrl
from bqrl.errors import ArgumentError

TRIAL = {
    "state": ["s"] * 4,
    "action": ["old", "old", "new", "new"],
    "next_state": ["s", "Dead"] * 2,
    "count": [12, 8, 16, 4],
}
EFFECT = {("s", a, t): float(t == "s") for a in ("old", "new") for t in ("s", "Dead")}
COST = {("s", "old"): 0.0, ("s", "new"): 1000.0}
BOTH = {"old": "always:old", "new": "always:new"}


def fitted(horizon=1, **changes):
    given = {"rewards": EFFECT, "outcomes": {"cost": COST}} | changes
    return bqrl.fit_counts(TRIAL, horizon=horizon, absorbing=["Dead"], **given)


def test_curves_are_the_integrals_over_the_posterior():
    """One stage: the effects are Beta laws, and "new" is cost-effective where w (p_new - p_old) > 1000."""
    thresholds, draws = [0.0, 3000.0, 6000.0, 50_000.0], 4000
    found = fitted().acceptability(BOTH, cost="cost", thresholds=thresholds, draws=draws)
    old, new = beta(12.5, 8.5), beta(16.5, 4.5)  # a prior of weight 1, half on each outcome
    grid = (np.arange(4000) + 0.5) / 4000
    for i, w in enumerate(thresholds):
        exact = float(np.mean(new.sf(old.ppf(grid) + 1000.0 / w))) if w else 0.0
        assert found.probability[i, 1] == pytest.approx(exact, abs=4.0 * np.sqrt(0.25 / draws))
        gain = w * (new.ppf(grid)[:, None] - old.ppf(grid)) - 1000.0
        information = np.maximum(gain, 0.0).mean() - max(gain.mean(), 0.0)
        assert found.perfect_information[i] == pytest.approx(information, abs=4.0 * gain.std() / np.sqrt(draws) + 1e-9)


def test_probabilities_count_the_draws_by_hand_and_ties_are_shared():
    estimate = fitted(horizon=3)
    found = estimate.acceptability(
        BOTH | {"again": "always:new"}, cost="cost", thresholds=[0, 2000, 9000], draws=60, seed=3
    )
    assert found.probability.sum(axis=1) == pytest.approx(np.ones(3))
    for i, w in enumerate(found.thresholds):
        wins = np.zeros(3)
        for costs, effects in zip(found.costs, found.effects, strict=True):
            benefit = [w * e - c for e, c in zip(effects, costs, strict=True)]
            best = [j for j in range(3) if benefit[j] == max(benefit)]
            wins[best] += 1.0 / len(best)
        assert found.probability[i] == pytest.approx(wins / 60)
    assert found.probability[:, 1] == pytest.approx(found.probability[:, 2])


def test_means_of_a_draw_are_those_of_the_drawn_model():
    """Costs of h stages alive: 1000 per visit of s under "new", with the survival p of the draw."""
    found = fitted(horizon=3).acceptability(BOTH, cost="cost", thresholds=[1.0], draws=5)
    p = found.effects[:, 1]  # p + p^2 + p^3
    alive = [np.roots([1.0, 1.0, 1.0, -total]) for total in p]
    alive = np.array([float(one[np.abs(one.imag) < 1e-9].real.max()) for one in alive])
    assert found.costs[:, 1] == pytest.approx(1000.0 * (1.0 + alive + alive**2))
    assert np.all(found.costs[:, 0] == 0.0)


def test_outcomes_may_stand_in_the_table_of_rewards_and_are_saved(tmp_path):
    path = tmp_path / "worth.csv"
    lines = [f"{s},{a},{t},{r},{COST[s, a]}" for (s, a, t), r in EFFECT.items()]
    path.write_text("\n".join(["state,action,next_state,reward,outcome:cost", *lines]))
    estimate = fitted(rewards=path, outcomes=None)
    bqrl.save(estimate, tmp_path / "estimate.npz")
    loaded = bqrl.load(tmp_path / "estimate.npz")
    mine, other, again = (
        one.acceptability(BOTH, cost="cost", thresholds=[6000.0], draws=20) for one in (fitted(), estimate, loaded)
    )
    assert np.array_equal(mine.costs, other.costs)
    assert np.array_equal(mine.effects, again.effects)


def test_known_rows_need_the_outcome_too():
    known = [("s", "third", "s", 1.0, 0.5)]
    with pytest.raises(
        ArgumentError, match=r"outcomes\['cost'\] must give the outcome of \('s', 'third', 's'\), got none"
    ):
        fitted(known=known)
    costs = COST | {("s", "third"): 7.0}
    estimate = fitted(known=known, outcomes={"cost": costs})
    assert bqrl.expected_outcomes(estimate.mdp, "always:third")["cost"] == 7.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cost": "price"}, "cost must be an outcome of the model, got .price."),
        ({"effect": "qaly"}, "effect must be an outcome of the model, got .qaly."),
        ({"cost": "reward"}, "cost must differ from effect"),
        ({"thresholds": [2.0, 1.0]}, "thresholds must increase"),
        ({"thresholds": []}, "thresholds must increase and not be empty"),
        ({"policies": {"old": "always:old"}}, "policies must be a dict of at least two strategies"),
    ],
)
def test_bad_arguments_are_one_line(changes, message):
    given = {"policies": BOTH, "cost": "cost", "thresholds": [1.0]} | changes
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        fitted().acceptability(given.pop("policies"), **given)
    assert "\n" not in str(caught.value)


def test_the_sentence_rounds_the_share_of_the_draws():
    """It once said 95.6667 %."""
    found = fitted().acceptability(BOTH, cost="cost", thresholds=[6000.0], draws=300)
    assert 0.0 < found.probability[-1, 1] < 0.99
    assert f"cost-effective in {100 * found.probability[-1, 1]:.2g} % of 300" in found.sentence
