"""The page of a trade-off: a slider along the curve, which sentences and charts follow."""

import numpy as np
import pytest
from outcome_models import shop

import bqrl
from bqrl.results.plan_charts import trade_chart
from bqrl.results.trades import SHOWN, trade_result
from bqrl.results.words import Words


def test_another_outcome_is_named_and_has_no_unit_of_the_returns():
    trade = bqrl.tradeoff(shop(), tau=0.3, outcome="lost", minimise=True)
    result = trade_result(trade, Words(title="Shop", unit="EUR"))
    said = result.lines[-1].text
    assert "the mean lost is" in said
    assert "more than the best of any policy" in said
    assert said.count("EUR") == 1  # of the guarantee
    titles = list(result.tables["tradeoff"].titles.values())
    assert titles == ["guarantee (EUR)", "mean lost", "mean lost at least", "falls short with at most"]
    assert "mean lost" in str(result.charts["tradeoff"])
    assert "policy_step1" in result.tables  # the table of decisions that the map mentions


@pytest.mark.parametrize("objective", [bqrl.Quantile(0.1), bqrl.CVaR(0.1)])
def test_every_guarantee_of_the_slider_has_a_sentence_a_law_and_a_map(objective, tmp_path):
    trade = bqrl.tradeoff("Inventory", objective)
    result = trade_result(trade, Words(title="Shop", unit="EUR"))
    (slider,) = result.choices
    assert len(slider.values) <= SHOWN
    assert slider.values[-1] == trade.guarantee[-1]
    assert [line.when["tau"] for line in result.lines] == list(slider.values)
    assert "the mean is" in result.lines[-1].text
    assert "less than that of the risk-neutral policy" in result.lines[-1].text
    assert set(result.charts) == {"tradeoff", "return_law", "policy_map"}
    for chart in result.charts.values():
        assert "tau" in {one["name"] for one in chart["params"]}
    shown = result.tables["tradeoff"].columns
    assert ("shortfall" in shown) == (objective == bqrl.Quantile(0.1))
    assert result.tables["tradeoff"].rows == [{key: row[key] for key in shown} for row in trade.rows()]
    page = bqrl.report(trade, tmp_path / "trade.html")
    assert "The price of certainty" in page.read_text(encoding="utf-8")


def test_the_trade_offs_of_several_levels_share_one_axis():
    shown = bqrl.envs.make("Inventory")
    trades = [bqrl.tradeoff(shown, tau=tau) for tau in (0.1, 0.9)]
    marks = [[trade.objective.tau, "best", trade.guarantee[-1], trade.mean[-1]] for trade in trades]
    assert trades[0].guarantee[-1] < trades[1].guarantee[0]  # once drawn at the two ends of an empty chart
    chart = trade_chart(trades, marked=marks).to_dict()
    domain = next(one["encoding"]["x"]["scale"]["domain"] for one in chart["layer"] if "scale" in one["encoding"]["x"])
    widest = max(float(np.ptp(trade.guarantee)) for trade in trades)
    assert -1.1 * widest <= domain[0] < 0.0 <= domain[1] <= 0.1 * widest
    assert "minus the best of its level" in str(chart)


def test_the_trade_off_of_cvar_speaks_of_cvar():
    subtitle = trade_chart([bqrl.tradeoff("AssetSelling", bqrl.CVaR(0.1))]).to_dict()["title"]["subtitle"]
    assert "the best CVaR" in " ".join(subtitle)
    assert "guarantee" not in " ".join(subtitle)
