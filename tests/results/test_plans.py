"""Plans as a result: what is shown is what was planned, and the slider, the sentence and the charts agree."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import not_announced

import bqrl
from bqrl.display import format_number
from bqrl.planners.expected import risk_neutral
from bqrl.planners.facts import NeutralWins
from bqrl.policies.forward import play_shares
from bqrl.results.plans import level_table, plan_document, plan_files, plan_result
from bqrl.results.result import Sentence, contents, saved_bytes
from bqrl.results.solved import Solved
from bqrl.results.words import Words

MODEL = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
WORDS = Words(title="Sale", unit="EUR", stage="week")


def solved(taus=(0.2, 0.5), others=(0.8,), **options):
    curve = bqrl.guarantee_curve(MODEL)
    plans, more = ([bqrl.solve(MODEL, tau, **options) for tau in some] for some in (taus, others))
    policy, law, _ = risk_neutral(MODEL, 0)
    shares = {plan.tau: play_shares(MODEL, plan.policy) for plan in [*plans, *more]}
    return Solved(
        words=WORDS, mdp=MODEL, plans=tuple(plans), others=tuple(more), neutral=(policy, law, None),
        settings={"tau": list(taus), "gap": None}, curve=curve, shares=shares,
    )  # fmt: skip


def test_a_result_writes_only_files_that_were_announced():
    result = plan_result(solved())
    assert result.left_out == []
    assert not_announced(contents(result), plan_files([bqrl.Quantile(0.2), bqrl.Quantile(0.5)])) == {"result.json"}
    assert result.settings == {"size": "7 states, 2 actions, 4 weeks, start 2", "tau": [0.2, 0.5]}
    assert list(result.charts) == ["guarantee_curve", "return_law", "policy_map"]


def test_every_level_of_the_slider_has_its_sentence_its_law_and_its_mark(embedded):
    given = solved()
    result = plan_result(given)
    tau = result.choices[0]
    assert (tau.values, tau.values[tau.start]) == ([0.2, 0.5, 0.8], 0.2)
    for plan in given.all:
        said, *_ = [line.text for line in result.lines if line.when.get("tau") == plan.tau]
        assert f"you get at least {plan.value:.4g} EUR" in said
        (mark,) = [row for row in embedded(result.charts["guarantee_curve"], "tau") if float(row["tau"]) == plan.tau]
        assert float(mark["y"]) == pytest.approx(plan.value, rel=1e-5)
        bars = [row for row in embedded(result.charts["return_law"], "share") if float(row["tau"]) == plan.tau]
        for policy in ("best", "risk-neutral"):
            assert sum(float(row["share"]) for row in bars if row["policy"] == policy) == pytest.approx(1.0, abs=1e-4)
        short = sum(
            float(row["share"]) for row in bars if (row["policy"], row["kind"]) == ("best", "below the promise")
        )
        assert short == pytest.approx(plan.law.cdf(plan.value - 1e-9), abs=1e-4)


def test_the_sentence_beside_the_risk_neutral_policy_says_whose_promise_it_is():
    (plan,) = (given := solved((0.2,), ())).plans
    neutral, own = plan_result(given).lines
    assert neutral.when == {"policy": "risk-neutral"}
    assert "the risk-neutral policy" in neutral.text
    assert own.when == {"tau": 0.2}  # with either policy
    assert f"you get at least {plan.value:.4g} EUR" in own.text


def test_over_a_ball_the_promise_is_said_once():
    result = plan_result(solved((0.2,), (), radius=0.1, attitude="robust"))
    own = result.lines[1].text
    assert own.startswith("With any probabilities within the radius, in 4 of 5 runs you get at least ")
    assert own.count("within the radius") == 1
    assert "in the ball" not in own
    given = solved((0.2,), ())
    said = "On this grid no policy is proven better than the risk-neutral one."
    noted = replace(given, plans=tuple(replace(plan, facts=(NeutralWins(),)) for plan in given.plans))
    assert plan_result(noted).lines == [*plan_result(given).lines, Sentence(said, when={"tau": 0.2}, aside=True)]


@pytest.mark.parametrize(
    ("options", "present", "absent"),
    [
        ({}, {"below", "above", "upper", "gap", "neutral"}, {"nominal", "neutral_upper"}),
        ({"beta": 0.1}, {"upper", "gap"}, {"below", "above", "nominal"}),
        ({"planner": "greedy"}, {"below", "above"}, {"upper", "gap", "nominal"}),
        ({"radius": 0.1, "attitude": "robust"}, {"nominal"}, {"below", "above"}),
    ],
    ids=["target", "buffered", "greedy", "robust"],
)
def test_the_table_of_levels_has_the_columns_that_mean_something(options, present, absent):
    document = plan_document(solved((0.2,), (), **options))
    table = level_table(document, WORDS)
    assert present <= set(table.columns)
    assert not absent & set(table.columns)
    assert table.rows[0]["value"] == document["levels"][0]["value"]


def test_all_amounts_of_the_levels_and_of_the_decisions_have_their_unit():
    """Once only the value had one, and the title of a column was "to  (EUR)"."""
    result = plan_result(solved((0.2,), ()))
    titles = result.tables["levels"].titles
    plain = {"value": "quantile", "upper": "upper bound", "gap": "gap", "mean": "mean", "neutral": "risk-neutral"}
    for key, title in plain.items():
        assert titles[key] == f"{title} (EUR)"
    decisions = result.tables["policy_tau0p2"]
    assert decisions.titles["earned_to"] == "earned so far: to (EUR)"
    assert decisions.titles["need_to"] == "still needed: to (EUR)"
    assert decisions.caption.startswith("0.2-quantile: ")
    assert "the column week counts from 1. If a state has several rows, follow the row whose range" in decisions.caption


def test_a_policy_from_a_file_has_the_table_of_the_policy_that_was_saved(tmp_path):
    policy = bqrl.solve(MODEL, 0.2).policy
    (tmp_path / "p.npz").write_bytes(saved_bytes(policy))
    assert bqrl.load(tmp_path / "p.npz").table(MODEL) == policy.table(MODEL)


def test_a_bracketed_curve_is_not_called_the_best_quantile():
    curve = bqrl.guarantee_curve(MODEL, points=20)
    table = plan_result(replace(solved(), curve=curve)).tables["guarantee_curve"]
    assert table.titles["value"] == "proven lower value of the best quantile (EUR)"
    assert table.caption.startswith("The proven lower value of the best quantile of any policy")
    assert "proven lower value of the best quantile" in curve._repr_html_()


def test_over_a_ball_a_bracketed_law_gives_bounds():
    """Once "in the model as given the plan gives", and a column "in the model", where only a lower bound is known."""
    rng = np.random.default_rng(0)
    rounded = bqrl.MDP(rng.dirichlet(np.ones(6), (6, 2)), rng.random((6, 2, 6)), horizon=12, discount=0.95)
    for mdp, least in ((MODEL, ""), (rounded, " at least")):
        plan = bqrl.solve(mdp, 0.2, radius=0.1, attitude="robust", points=200 if least else None)
        assert (plan.law_upper is None) == (not least)
        given = plan_document(Solved(words=WORDS, mdp=mdp, plans=(plan,)))
        titles = level_table(given, WORDS).titles
        assert (titles["nominal"], titles["mean"]) == (f"in the model{least} (EUR)", "mean (EUR)")
        assert (
            f"in the model as given the plan gives{least} {format_number(plan.nominal, 4, -1)} EUR"
            in given["levels"][0]["meaning"]
        )
        assert "<td>mean</td>" in plan._repr_html_()
