"""Probabilistic sensitivity analysis against closed forms."""

import numpy as np
import pytest
from logged_problems import simulated
from scipy.stats import beta, kstest

import bqrl
from bqrl import fit, fit_counts
from bqrl.logs.posterior import drawn_kernels


def one_coin(heads=30, tails=10):
    """One row: reward 1 with the probability of heads."""
    return fit_counts(
        {"state": ["s"] * 2, "action": ["a"] * 2, "next_state": ["s"] * 2, "count": [heads, tails], "reward": [1, 0]},
        horizon=1,
    )


def test_the_mean_of_one_coin_has_a_beta_posterior():
    draws = one_coin().psa("always:a", 2000, tau=0.3, prior=1.0)
    assert kstest(draws.mean, beta(30.5, 10.5).cdf).pvalue > 0.01
    assert kstest(draws.mean, beta(30, 11).cdf).pvalue < 0.2  # the test can tell priors apart
    assert np.array_equal(draws.quantile, (1 - draws.mean < 0.3).astype(float))
    assert draws.cvar == pytest.approx(np.maximum(0.0, 1 - (1 - draws.mean) / 0.3))


def test_the_share_is_that_of_the_beta_law():
    """The promise of reward 1 at tau = 0.4 holds in the draws with a tail probability below 0.4."""
    estimate = one_coin(35, 10)
    plan = estimate.solve(tau=0.5)
    assert plan.value == 1.0
    found = estimate.psa(plan, 4000)
    exact = beta(10.5, 35.5).cdf(0.5)
    assert found.share == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000) + 1e-9)
    assert found.sentence.startswith(
        "In 4,000 posterior draws with a prior of weight 1 per row, the new plan's promise holds in"
    )
    assert "not the guarantee" in found.sentence


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    estimate = one_coin()
    first, again, other = (estimate.psa("always:a", 50, tau=0.3, seed=seed) for seed in (3, 3, 4))
    assert first.mean.tobytes() == again.mean.tobytes()
    assert first.mean.tobytes() != other.mean.tobytes()
    prefix = estimate.psa("always:a", 20, tau=0.3, seed=3)
    assert np.array_equal(prefix.mean, first.mean[:20])


def test_the_compiled_pass_gives_the_laws_of_evaluate():
    _, log = simulated("machine", 300)
    estimate = fit(log, reward_range=(-20, 10), stationary=True)
    plan = estimate.plug_in(0.2)
    found = estimate.psa(plan.policy, 5, tau=0.2)
    for i, (p, mu) in enumerate(drawn_kernels(estimate, estimate.events, 5, 1.0, np.random.default_rng(0))):
        assert mu is None
        law = bqrl.evaluate(estimate.mdp.with_probability(p), plan.policy)
        assert (found.quantile[i], found.mean[i]) == (law.quantile(0.2), pytest.approx(law.mean(), rel=1e-12))


def test_rows_with_shared_noise_share_their_draws():
    mdp, log = simulated("machine", 100)
    estimate = fit(log, model=mdp)
    assert estimate.events
    noise = estimate.mdp.noise
    for p, _ in drawn_kernels(estimate, estimate.events, 3, 1.0, np.random.default_rng(0)):
        law = np.full(len(noise.events[0]), np.nan)
        for q in np.flatnonzero(noise.row_law.reshape(-1) == 0).tolist():
            outcome = noise.outcome_of(q)
            for e in np.unique(noise.classes[0]).tolist():
                if (
                    np.count_nonzero(outcome[np.unique(noise.classes[0])] == outcome[e]) == 1
                ):  # this row shows the event alone
                    shown = p[noise.row_start[q] + outcome[e]]
                    assert np.isnan(law[e]) or law[e] == pytest.approx(shown, abs=1e-12)
                    law[e] = shown
        assert np.isfinite(law).any()


def test_an_estimated_first_state_is_drawn_too():
    log = {"episode": range(40), "state": ["s", "t"] * 20, "action": ["a"] * 40, "reward": [1.0, 0.0] * 20}
    estimate = fit(log, reward_range=(0, 1), reward_by="state-action")
    draws = estimate.psa("always:a", 400, tau=0.5)
    assert kstest(draws.mean, beta(20.5, 20.5).cdf).pvalue > 0.01


def test_known_rows_are_not_drawn():
    table = {"state": ["s"] * 2, "action": ["a"] * 2, "next_state": ["s", "t"], "count": [5, 5]}
    estimate = fit_counts(table, {"s": 1.0}, horizon=2, known=[("t", "a", "t", 0.5, 0.0), ("t", "a", "s", 0.5, 1.0)])
    rows = estimate.mdp.row_start
    for p, _ in drawn_kernels(estimate, estimate.events, 3, 1.0, np.random.default_rng(0)):
        assert p[rows[1] : rows[2]].tolist() == [0.5, 0.5]
        assert p[rows[0]] != 0.5


def test_a_file_without_its_shared_laws_is_refused(tmp_path):
    mdp, log = simulated("machine", 100)
    estimate = fit(log, model=mdp)
    bqrl.save(estimate, tmp_path / "estimate.npz")
    with pytest.raises(ValueError, match="files do not hold the shared laws, got one from a file; fit the log again"):
        bqrl.load(tmp_path / "estimate.npz").psa(estimate.plug_in(0.1).policy, tau=0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"draws": 0}, "draws must be"),
        ({"prior": 0.0}, "prior must be a number above 0"),
        ({"policy": "always:b"}, "expected the name of an action, got 'b'"),
    ],
)
def test_bad_arguments_are_one_line(options, words):
    asked = {"policy": "always:a", "draws": 10, "tau": 0.1} | options
    with pytest.raises((ValueError, TypeError), match=words):
        one_coin().psa(**asked)


def test_the_table_has_one_row_per_measure():
    rows = one_coin().psa("always:a", 100, tau=0.25).rows()
    assert [row["measure"] for row in rows] == ["0.25-quantile", "mean", "CVaR at 0.25"]
    assert all(row["lower"] <= row["median"] <= row["upper"] for row in rows)
