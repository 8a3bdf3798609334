import math

import numpy as np
import pytest
from helpers import colours_of
from small_theory import datasets, small_theory

from bqrl.display import format_number
from bqrl.papers.ucb_bqrl.theory.experiment import RHO
from bqrl.papers.ucb_bqrl.theory.hard_family import (
    BOUNDS,
    HARD,
    average,
    bandit_upper_bound,
    growth_exponent,
    loglog_slope,
    power_of_rho,
)
from bqrl.results.learning_curves import learner_colours
from bqrl.study.scores import Contender
from bqrl.theory import hard_lower_bound


@pytest.fixture
def found():
    return small_theory("hard")


@pytest.fixture
def tables(found):
    return found["tables"]


def of(rows, learner):
    return [{key: value for key, value in row.items() if key != "learner"} for row in rows if row["learner"] == learner]


def test_learners_use_the_same_random_numbers(tables):
    for rows in tables.values():
        assert of(rows, "SARSA") == of(rows, "again") != of(rows, "UCB")


def test_regret_on_the_hard_family_lies_between_what_is_possible(tables):
    for row in tables["hard"]:
        assert row["episodes"] == {0.0625: 512, 0.05: 800}[row["rho"]]
        assert row["lower_bound"] - 4.0 * row["error"] <= row["regret"] <= row["most"]
        assert row["lower_rate"] == pytest.approx(21 / 4 / 8192 * 2 * row["episodes"])
        assert row["most"] == row["episodes"]
    for learner in ("SARSA", "UCB"):
        growth = of(tables["hard_growth"], learner)
        assert np.all(np.diff([row["regret"] for row in growth]) >= 0.0)
        assert growth[-1]["episodes"] == 1024
        assert all(row["lower_bound"] <= row["ucb1_upper_bound"] for row in growth)


def test_exponents_are_those_of_the_table(tables):
    for row in tables["hard_slopes"]:
        points = [one for one in tables["hard"] if one["learner"] == row["learner"]]
        assert (row["exponent_of_inverse_rho"], row["exponent_of_inverse_rho_error"]) == power_of_rho(points)


def test_the_mean_over_best_actions_has_the_error_of_strata():
    mean, error = average(np.array([[0.0, 2.0], [10.0, 14.0]]))
    assert mean == 6.5
    assert error == pytest.approx(math.sqrt(2.0 / 2 + 8.0 / 2) / 2)
    assert average(np.array([[1.0], [2.0]])) == (1.5, 0.0)


def test_printed_rate_is_refuted_by_ucb1():
    # Theorem 2 as printed: c1 (H / rho) sqrt(A T) for every large T. Any c1 > 0 is overtaken by a logarithm.
    A, H, rho = 3, 5, 0.05
    for c1 in (1.0, 1e-3, 1e-6):
        assert any(c1 * H / rho * (A * T) ** 0.5 > bandit_upper_bound(rho, A, H, T) for T in (10**10, 10**20, 10**24))
    for T in (10**3, 10**9, 10**24):
        assert hard_lower_bound(0.5, rho, A, H, T).direct <= bandit_upper_bound(rho, A, H, T)


def test_slope_of_a_power_law_and_its_error():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    assert loglog_slope(x, 3.0 * x**-2) == (pytest.approx(-2.0), pytest.approx(0.0, abs=1e-12))
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        y = 3.0 * x**1.5 * np.exp(0.01 * rng.standard_normal(4))
        slope, error = loglog_slope(x, y, error=0.01 * y)
        hits += abs(slope - 1.5) <= 2.0 * error
    assert 0.9 <= hits / 400 <= 0.99  # two standard errors: 95.4 %, off by 0.04 with probability below 1e-4


def test_exponents_of_known_data():
    rhos = np.array([0.06, 0.04, 0.03, 0.02])
    points = [{"rho": rho, "regret": 3.0 / rho**2, "error": 0.1 / rho**2} for rho in rhos]
    slope, error = power_of_rho(points)
    assert slope == pytest.approx(2.0)
    u = np.log(rhos)
    assert error == pytest.approx(0.1 / 3.0 / math.sqrt(((u - u.mean()) ** 2).sum()))
    stuck = [{**point, "error": 0.0} for point in points]
    assert power_of_rho(stuck)[0] == pytest.approx(2.0)
    assert power_of_rho(stuck[:2]) == (None, None)
    assert power_of_rho([{**point, "regret": 0.0} for point in points]) == (None, None)


def test_growth_of_known_curves():
    at = np.unique(np.geomspace(10, 10_000, 30).astype(int))
    linear = np.broadcast_to(0.5 * at, (2, 3, at.size))
    assert growth_exponent(at, linear, 100.0) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-9))
    logarithmic = np.broadcast_to(np.log(at), (2, 3, at.size))
    assert 0.0 < growth_exponent(at, logarithmic, 100.0)[0] < 0.2
    varied = linear * np.array([1.0, 2.0, 4.0])[:, None] ** np.log10(at)
    assert growth_exponent(at, varied, 100.0)[1] > 0.05
    assert growth_exponent(at, np.zeros_like(linear), 100.0) == (None, None)
    assert growth_exponent(at, linear, 1e9) == (None, None)


def test_the_error_of_growth_is_the_jackknife():
    at = np.array([100, 1000, 10_000])
    curves = np.stack([np.stack([at**a for a in (0.4, 0.6)])])  # one best action, two runs
    slope, error = growth_exponent(at, curves, 1.0)
    assert slope == pytest.approx(np.polyfit(np.log(at), np.log((at**0.4 + at**0.6) / 2), 1)[0])
    assert error == pytest.approx(math.sqrt(0.5 * 2 * 0.1**2))  # the runs alone have slopes 0.6 and 0.4


def test_the_headline_of_the_hard_family_follows_the_numbers(found, tables):
    for row, exponent in zip(tables["hard_slopes"], (0.254, 1.0, None), strict=True):
        row["exponent_of_episodes"] = exponent
    long = [row for row in tables["hard_growth"] if row["episodes"] >= found["scale"]]
    least = min(row["regret"] / row["lower_bound"] for row in [*tables["hard"], *long])
    headline = HARD.headline(found)
    assert f" is at least {format_number(least, 2)} times the proven lower bound. In long runs" in headline
    assert headline.endswith("regret grows like T^0.25 (SARSA) to T^1.00 (again)")
    tables["hard"][0]["regret"] = 0.0
    tables["hard_slopes"][1]["exponent_of_episodes"] = None
    assert " is at least 0 times the proven lower bound" in HARD.headline(found)
    assert HARD.headline(found).endswith("regret grows like T^0.25 (SARSA)")
    tables["hard_slopes"][0]["exponent_of_episodes"] = None
    assert HARD.headline(found).endswith("no power that can be fitted")


def test_learners_have_their_colours_and_a_second_variant_one_of_its_own(found):
    expected = learner_colours(
        [
            Contender(label="SARSA", learner="sarsa"),
            Contender(label="again", learner="sarsa"),
            Contender(label="UCB", learner="ucb-bqrl"),
        ]
    )
    bounds = dict(BOUNDS.values())
    charts = HARD.charts(found, "title")
    assert colours_of(charts["hard_growth"].to_dict()) == expected | bounds
    del bounds["proven for UCB1"]
    assert colours_of(charts["hard"].to_dict()) == expected | bounds


def test_regret_that_is_zero_has_no_place_on_a_logarithmic_axis(found, tables):
    tables["hard"][0]["regret"] = 0.0
    tables["hard_growth"][0]["regret"] = 0.0
    charts = HARD.charts(found, "title")
    for stem, bounds in (
        ("hard", ["lower_bound", "most"]),
        ("hard_growth", ["lower_bound", "ucb1_upper_bound", "most"]),
    ):
        drawn = datasets(charts[stem])[0]
        regret = [row for row in drawn if int(row["k"]) < 3]
        assert len(regret) == len(tables[stem]) - 1
        assert all(0.0 < float(row["low"]) <= float(row["y"]) <= float(row["high"]) for row in regret)
        for k, name in enumerate(bounds, start=3):
            of_one = [row[name] for row in tables[stem] if row["learner"] == "SARSA"]
            assert [float(row["y"]) for row in drawn if row["k"] == str(k)] == pytest.approx(of_one, rel=1e-5)
    assert [float(row["x"]) for row in datasets(charts["hard"])[0] if row["k"] == "3"] == [16.0, 20.0]
    assert f"A / {RHO}² = 512" in " ".join(charts["hard_growth"].to_dict()["title"]["subtitle"])
