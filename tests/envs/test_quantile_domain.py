"""The domains of the quantile-MDP literature: rules against the public data, optima against programs of their own."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from mdp_strategies import assert_same

import bqrl
from bqrl.envs.quantile_domain import FROM_FILES, quantile_domain

FOLDER = Path(__file__).parents[3] / "shared" / "domains"


@pytest.mark.parametrize("name", ["machine", "riverswim"])
def test_the_rules_give_the_public_data(name):
    if not FOLDER.is_dir():
        pytest.skip("the domain files are not beside this checkout")
    found = quantile_domain(name)
    first = {"machine": "1", "riverswim": "9"}[name]
    data = bqrl.load(FOLDER / f"{name}.csv", horizon=100, start=first, discount=0.9)
    assert (found.S, found.A, found.H, found.discount) == (data.S, data.A, data.H, data.discount)
    for field in ("mu", "row_start", "successor", "available"):
        assert np.array_equal(getattr(found, field), getattr(data, field)), field
    assert found.probability == pytest.approx(data.probability, abs=1e-14)
    assert found.reward == pytest.approx(data.reward, abs=1e-12)


def test_inventory1_has_numbers_of_the_public_data():
    mdp = quantile_domain("inventory1")
    assert (mdp.S, mdp.A) == (21, 11)
    names = {text: s for s, text in enumerate(mdp.state_names)}

    def outcome(stock, order, left):
        after, p, r = mdp.outcomes(0, names[f"{stock} in stock"], mdp.action_names.index(f"order {order}"))
        i = after.tolist().index(names[f"{left} in stock"])
        return p[i], r[i]

    assert outcome(0, 1, 0) == pytest.approx((0.9999546000666129, 2.01), abs=1e-9)
    assert outcome(0, 2, 2) == pytest.approx((4.53999333871223e-05, -5.57), abs=1e-9)
    assert outcome(1, 9, 0) == pytest.approx((0.5420702489679767, 27.0), abs=1e-9)
    assert outcome(20, 6, 0) == pytest.approx((0.0034542624136914, 99.8), abs=1e-9)
    assert outcome(20, 10, 20) == pytest.approx((4.539993338712231e-05, -1.0), abs=1e-9)


def test_the_best_quantile_of_ruin_is_that_of_a_recursion_over_the_time_of_success():
    @cache
    def reach(bets, capital):
        """Largest probability of ten coins within some bets."""
        if capital == 10 or bets == 0:
            return float(capital == 10)
        return max(
            0.7 * reach(bets - 1, min(10, capital + stake)) + 0.3 * reach(bets - 1, capital - stake)
            for stake in range(capital + 1)
        )

    mdp = quantile_domain("ruin")
    for tau in (0.05, 0.25, 0.6):
        # A return is 0, or that of ten coins from stage t on: 0.9^t + ... + 0.9^99.
        times = [t for t in range(100) if 1.0 - reach(t, 4) < tau - 1e-12]
        best = sum(0.9**k for k in range(times[0], 100)) if times else 0.0
        plan = bqrl.solve(mdp, tau)
        assert plan.value == pytest.approx(best, abs=1e-9)
        assert plan.upper == pytest.approx(best, abs=1e-9)


def bracket_of(mdp, tau, points):
    """Proven bracket of the best quantile by value iteration on the need in money of the present stage."""
    reward = mdp.reward.reshape(-1)  # the stages are alike
    needs = np.linspace(10.0 * min(0.0, reward.min()) - 1.0, 10.0 * max(0.0, reward.max()) + 1.0, points)
    exact = ((needs - reward[:, None]) / mdp.discount - needs[0]) / (needs[1] - needs[0])
    listed, ends = np.flatnonzero(np.diff(mdp.row_start)), []
    for rounding in (np.ceil, np.floor):
        place = np.where(np.abs(exact - np.rint(exact)) < 1e-6, np.rint(exact), rounding(exact)).astype(int)
        after = np.repeat((needs > 0.0).astype(float)[None], mdp.S, 0)
        for _ in range(mdp.H):
            short = after[mdp.successor[:, None], np.clip(place, 0, points - 1)]
            short = np.where(place >= points, 1.0, np.where(place < 0, 0.0, short))
            cost = np.full((mdp.S * mdp.A, points), 2.0)  # actions that do not exist are never best
            cost[listed] = np.add.reduceat(mdp.probability[:, None] * short, mdp.row_start[:-1][listed])
            cost = cost.reshape(mdp.S, mdp.A, points)
            after = cost.min(axis=1)
        ends.append(mdp.mu @ after)
    return needs[ends[0] < tau].max(), needs[ends[1] >= tau].min()


@pytest.mark.parametrize(
    ("name", "points", "width"),
    [
        ("machine", 2000, 5.0), ("riverswim", 2000, 5.0), pytest.param("inventory1", 500, 30.0, marks=pytest.mark.slow),
        pytest.param("cliff", 2000, 6.0, marks=pytest.mark.slow),
        pytest.param("population", 2500, 200.0, marks=pytest.mark.nightly),
        pytest.param("inventory2", 600, 200.0, marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_brackets_meet_those_of_value_iteration(name, points, width):
    if name in FROM_FILES and not FOLDER.is_dir():
        pytest.skip("the domain files are not beside this checkout")
    mdp = quantile_domain(name, folder=str(FOLDER) if name in FROM_FILES else None)
    plan = bqrl.solve(mdp, 0.25)
    low, high = bracket_of(mdp, 0.25, points)
    assert low <= high <= low + width  # narrow enough to tell
    assert plan.value <= high
    assert low <= plan.upper


@pytest.mark.nightly
@pytest.mark.parametrize("name", FROM_FILES)
def test_domains_from_files_are_bracketed(name):
    if not FOLDER.is_dir():
        pytest.skip("the domain files are not beside this checkout")
    plan = bqrl.solve(quantile_domain(name, folder=str(FOLDER)), 0.25)
    assert plan.value <= plan.upper
    neutral = bqrl.solve(plan.mdp, 0.25, planner="expected")
    assert neutral.value <= plan.upper + 1e-9


def test_a_domain_from_a_file_asks_for_the_folder():
    with pytest.raises(
        ValueError, match=r"folder must be given for the domain cliff, got None; name the folder with cliff\.csv"
    ):
        quantile_domain("cliff")


def test_start_and_discount_are_parameters():
    assert_same(quantile_domain(start="4 coins"), quantile_domain("ruin"))
    assert quantile_domain("ruin", start="7 coins", discount=1.0, horizon=3).discount == 1.0
