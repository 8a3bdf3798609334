import numpy as np
import pytest
from scipy.stats import binom
from small_theory import SMALL, datasets, small_theory, theory_of

from bqrl import theory
from bqrl.learners.run import Run
from bqrl.papers.ucb_bqrl.theory.coverage import COVERAGE, coverage, worst_ratio
from bqrl.papers.ucb_bqrl.theory.suite import run_theory
from bqrl.theory.total_variation import rows_inside


@pytest.fixture
def found():
    return small_theory("coverage")


@pytest.mark.parametrize(("key", "pooled"), [("hard", False), ("selling", False), ("selling", True)])
def test_the_largest_ratio_is_that_of_the_confidence_sets(key, pooled):
    mdp = theory_of(SMALL).problems[key].model
    params = {"c_conf": "theory", "stationary": pooled}
    ratio = worst_ratio(mdp, 0.5, 30, 0.05, 5, params)
    run = Run(mdp, "ucb-bqrl", 0.5, 30, 5, delta=0.05, **params)
    truth, shape = mdp.staged(), (mdp.H, mdp.S, mdp.A)
    tight = loose = True
    while run.t < run.total:
        counts = run.learner.counts
        probability = np.tile(counts.probability, mdp.H // counts.M)
        visits = np.broadcast_to(counts.visits, shape)
        size = np.broadcast_to(np.maximum(counts.support_size, 1), shape)
        width = theory.radius(visits, mdp.S, mdp.A, 30, mdp.H, 0.05, size)
        for scale in (1.0 - 1e-9, 1.0 + 1e-9):
            reach = np.where(visits > 0, ratio * scale * width, 2.0)
            holds = rows_inside(truth, truth.with_probability(probability), reach).all()
            tight, loose = (tight and holds, loose) if scale < 1.0 else (tight, loose and holds)
        run.step()
    assert loose
    assert not tight


def test_coverage_interval_is_the_exact_binomial_one():
    found = coverage(np.array([True] * 8 + [False] * 2), 0.1)
    assert found.share == 0.8
    assert binom.cdf(8, 10, found.high) == pytest.approx(0.025)
    assert binom.sf(7, 10, found.low) == pytest.approx(0.025)
    assert coverage(np.zeros(2000, bool), 0.1).refuted
    assert (coverage(np.ones(5, bool), 0.1).high, coverage(np.zeros(5, bool), 0.1).low) == (1.0, 0.0)


def test_coverage_counts_the_runs_of_its_table(found):
    tables = found["tables"]
    for case in tables["coverage"]:
        runs = [row for row in tables["coverage_runs"] if row["problem"] == case["problem"]]
        ratios = [row["largest_ratio"] for row in runs]
        assert [row["run"] for row in runs] == list(range(case["runs"]))
        assert case["held"] == sum(row["inside"] for row in runs) == sum(ratio <= 1.0 + 1e-12 for ratio in ratios)
        assert case["low"] <= case["share"] <= case["high"]
        assert not case["refuted"]  # the theorem; fails by chance with probability 0.025 at most, and the seed is fixed
        assert 0.0 < case["enough"] <= max(ratios)


def test_known_ratios_give_known_shares(monkeypatch):
    ratios = iter(np.r_[np.arange(1, 101) / 97.0, np.full(80, 0.5), np.full(20, 2.0)])
    monkeypatch.setattr("bqrl.papers.ucb_bqrl.theory.coverage.worst_ratio", lambda *_: next(ratios))
    spec = theory_of(SMALL | {"coverage": SMALL["coverage"] | {"runs": 100}})
    one, other = run_theory(spec, ["coverage"])["coverage"]["tables"]["coverage"]
    assert (one["held"], one["share"], one["refuted"]) == (97, 0.97, False)
    assert one["enough"] == 95 / 97  # the factor that gives the promised 95 %
    assert (other["held"], other["refuted"]) == (80, True)


def test_the_headline_of_coverage_follows_the_numbers(found):
    assert "held in all 12 runs per problem (95 % confidence interval " in COVERAGE.headline(found)
    assert "refutes" not in COVERAGE.headline(found)
    found["tables"]["coverage"][1].update(held=7, share=7 / 12, low=0.277, high=0.848, refuted=True)
    assert COVERAGE.headline(found).startswith(
        "The confidence sets held in at least 7 of 12 runs per problem (95 % confidence interval of the share 0.277 to 0.848),"
        " which refutes the promise on selling; radii "
    )
    assert COVERAGE.headline(found).endswith(" times as wide would give the promised 95 %")


def test_coverage_is_drawn_as_the_distribution_of_the_ratios(found):
    steps = datasets(COVERAGE.charts(found, "title")["coverage"])[0]
    selling = [(float(row["x"]), float(row["y"])) for row in steps if row["k"] == "1"]
    runs = [row for row in found["tables"]["coverage_runs"] if row["problem"] == "selling"]
    ratios = sorted(row["largest_ratio"] for row in runs)
    assert [x for x, _ in selling[1:-1]] == pytest.approx(ratios, rel=1e-5)
    assert [y for _, y in selling[1:-1]] == pytest.approx([k / 12 for k in range(1, 13)], rel=1e-5)
    assert (selling[0], selling[-1][1]) == ((0.0, 0.0), 1.0)
    assert [float(row["y"]) for row in steps if row["k"] == "2"] == [0.95, 0.95]  # the promise


def test_the_band_of_coverage_is_the_interval_of_the_table_at_factor_1(found):
    steps = datasets(COVERAGE.charts(found, "title")["coverage"])[0]
    for k, case in enumerate(found["tables"]["coverage"]):
        last = [row for row in steps if row["k"] == str(k) and float(row["x"]) <= 1.0][-1]
        assert [float(last[name]) for name in ("y", "low", "high")] == pytest.approx(
            [case[name] for name in ("share", "low", "high")], rel=1e-5
        )
