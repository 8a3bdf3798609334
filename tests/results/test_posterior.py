"""Posterior draws on the page of a fit and as a chart."""

import json

import bqrl
from bqrl.results.posterior import posterior_chart, posterior_table

COUNTS = {"state": ["s"] * 2, "action": ["a"] * 2, "next_state": ["s"] * 2, "count": [30, 10], "reward": [1, 0]}


def test_the_chart_shows_the_shares_of_the_draws_and_the_promise():
    estimate = bqrl.fit_counts(COUNTS, horizon=3)
    plan = estimate.solve(tau=0.2)
    draws = estimate.psa(plan, 100)
    spec = posterior_chart(draws).to_dict()
    assert spec["title"]["text"] == "The 0.2-quantile under posterior draws"
    assert "not the promise" in spec["title"]["subtitle"]
    text = json.dumps(spec)
    assert "share of the draws" in text
    assert "share of runs" not in text
    assert draws.chart().to_dict()["title"] == spec["title"]
    assert "Dashed" not in posterior_chart(estimate.psa("always:a", 50, tau=0.2)).to_dict()["title"]["subtitle"]


def test_the_table_says_that_it_is_no_promise():
    draws = bqrl.fit_counts(COUNTS, horizon=3).psa("always:a", 50, tau=0.2)
    table = posterior_table(draws)
    assert [row["measure"] for row in table.rows] == ["0.2-quantile", "mean", "CVaR at 0.2"]
    assert table.caption.startswith(
        "50 posterior draws, a statement about the posterior, which depends on the prior; it is not"
    )
    assert "<table>" in draws._repr_html_()


def test_draws_of_a_plan_for_another_objective_are_named_after_it_and_need_no_level():
    plan = (estimate := bqrl.fit_counts(COUNTS, horizon=3)).solve(bqrl.Mean())
    draws = estimate.psa(plan, 50)
    assert draws.tau == 0.1
    assert [row["measure"] for row in draws.rows()] == ["mean", "0.1-quantile", "CVaR at 0.1"]
    text = json.dumps(posterior_chart(draws).to_dict())
    assert "The mean under posterior draws" in text
    assert "quantile" not in text
    chance = estimate.psa(estimate.solve(bqrl.Chance(2)), 50)
    assert chance.rows()[0]["measure"] == bqrl.Chance(2).label
