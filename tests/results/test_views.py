"""The objects of the library show themselves: charts, small HTML, rows and frames."""

import sys
import types
from base64 import b64decode

import numpy as np
import pytest
from helpers import chart_values, colours_of

import bqrl
from bqrl.mdp.find_grid import lattice
from bqrl.planners.on_demand import values_first
from bqrl.policies.shares import uniform
from bqrl.results.views import _action_probabilities, mdp_view, policy_view
from bqrl.study.scores import band_name

MODEL = bqrl.envs.make("AssetSelling")
LOG = {
    "episode": [0, 1],
    "stage": [0, 0],
    "state": [0, 0],
    "action": [0, 1],
    "reward": [1.0, 0.0],
    "next_state": [0, 0],
}
NASTY = "<script>alert(1)</script>"
SHOWN = ["model", "curve", "plan", "law", "record", "policy", "comparison", "experiment", "estimate"]


@pytest.fixture(scope="module")
def objects():
    curve = bqrl.guarantee_curve(MODEL)
    plan = bqrl.solve(MODEL, 0.1)
    record = bqrl.learn(MODEL, "ucbvi", 0.1, 20, 0)
    return {
        "model": MODEL, "curve": curve, "plan": plan, "law": plan.law, "record": record, "policy": plan.policy,
        "comparison": plan.compare(bqrl.solve(MODEL, 0.5)),
        "experiment": bqrl.compare(MODEL, ["ucbvi", "q-learning"], tau=0.1, episodes=20, seeds=2, workers=1),
        "estimate": bqrl.fit(LOG, reward_range=(0.0, 1.0)),
    }  # fmt: skip


def picture(html):
    """The table and the decoded SVG of what a notebook shows."""
    table, _, rest = html.partition('<img alt="chart" style="max-width:100%" src="data:image/svg+xml;base64,')
    return table, b64decode(rest.removesuffix('">')).decode()


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_shows_a_small_table_and_a_small_chart(objects, name):
    html = objects[name]._repr_html_()
    table, svg = picture(html)
    assert table.startswith("<table>")
    assert table.endswith("</table>")
    assert svg.startswith("<svg")
    assert len(html) < 100_000
    assert "<script" not in html + svg
    if name == "experiment":
        assert band_name(2) in table


@pytest.mark.parametrize("name", SHOWN)
def test_without_the_extra_a_notebook_shows_the_table_alone(objects, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    html = objects[name]._repr_html_()
    assert html.startswith("<table>")
    assert html.endswith("</table>")
    assert len(html) < 5_000


def test_a_notebook_shows_the_curves_of_many_learners():
    """Once, six learners had a picture of 132 KB, which was left out without a word."""
    learners = [("psrl", {"prior": 1.0 + i}) for i in range(9)]
    model = bqrl.envs.make("AssetSelling", offers=4, horizon=3, start=1)
    experiment = bqrl.compare(model, learners, tau=0.2, episodes=450, seeds=2, workers=1)
    svg = picture(experiment._repr_html_())[1]
    assert "The curves cover all 450 episodes with 100 points." in svg
    assert "prior=9.0" in svg


def test_a_picture_that_is_left_out_is_said(objects, monkeypatch):
    monkeypatch.setattr("bqrl.results.views.MAX_PICTURE", 1_000)
    assert (
        objects["law"]
        ._repr_html_()
        .endswith("</table><p>The chart is too large to be shown here; chart() returns it.</p>")
    )


def test_the_chart_of_a_record_holds_the_promise_of_every_episode():
    record = bqrl.learn(MODEL, "q-learning", 0.1, 1500, 0)
    spec = record.chart().to_dict()
    at, values = np.array([(row["x"], row["y"]) for row in chart_values(spec, 0)]).T
    drawn = values[np.searchsorted(at, np.arange(1.0, 1501.0), side="right") - 1]
    assert np.allclose(drawn, record.quantile(0.1), rtol=1e-5)
    assert at.size < 400
    assert colours_of(spec)["q-learning"] == colours_of(
        bqrl.compare(MODEL, [("mine", "q-learning", {})], tau=0.1, episodes=5, seeds=2, workers=1).chart().to_dict()
    )["mine"]  # fmt: skip


def test_the_map_of_a_policy_tells_no_probability_of_a_visit(objects):
    tooltip = policy_view(objects["policy"]).to_dict()["encoding"]["tooltip"]
    assert [tip["title"] for tip in tooltip] == ["stage", "state", "action"]


def large():
    """2,000 states, 40 stages, 60 actions, and a law of 20,000 returns."""
    rng = np.random.default_rng(0)
    outcomes = [(s, a, (s + a + 1) % 2000, 1.0, float(a)) for s in range(2000) for a in range(60)]
    model = bqrl.MDP(outcomes, horizon=40)
    law = bqrl.Law(rng.normal(size=20_000), np.full(20_000, 1 / 20_000))
    policy = bqrl.MarkovPolicy(rng.integers(60, size=(40, 2000)))
    return {"model": model, "law": law, "policy": policy}


@pytest.mark.parametrize("name", ["model", "law", "policy"])
def test_a_notebook_never_shows_megabytes(name):
    html = large()[name]._repr_html_()
    assert "<svg" in picture(html)[1]
    assert len(html) < 100_000


def test_the_picture_of_every_kind_of_policy(objects):
    curve = bqrl.guarantee_curve(MODEL, keep=True)
    mixture = bqrl.solve(MODEL, 0.5, beta=0.2, randomized=True).policy
    stochastic = bqrl.StochasticPolicy(uniform(MODEL))
    for policy in (curve.level_policy(0.1), objects["policy"].to_markov(MODEL), stochastic, mixture):
        assert "<svg" in picture(policy._repr_html_())[1]
    labels = bqrl.solve(bqrl.envs.make("AssetSelling", offers=3, horizon=2, start=1), 0.5, planner="frontier").policy
    assert isinstance(labels, bqrl.LabelPolicy)
    assert picture(labels._repr_html_())[1] == ""  # a label belongs to a history, not to a state


def test_the_map_of_a_mixture_says_which_part_it_shows():
    policy = bqrl.solve(MODEL, 0.5, beta=0.2, randomized=True).policy
    parts, weight = len(policy.policies), max(policy.weights)
    said = " ".join(policy_view(policy).to_dict()["title"]["subtitle"])
    assert parts > 1
    assert said.startswith(f"The most likely of {parts} policies, drawn with probability {weight:.3g}. ")
    assert "most likely" not in str(policy_view(policy.policies[0]).to_dict()["title"])


def test_the_map_of_a_policy_that_depends_on_the_earned_says_so_in_its_title():
    """Once only a subtitle said that the map holds while nothing has been earned."""
    policy = bqrl.solve(MODEL, 0.1).policy
    title = policy_view(policy).to_dict()["title"]
    assert title["text"] == ["What the policy does while nothing has been earned"]
    assert "policy.table(mdp) is the rule to follow" in " ".join(title["subtitle"])
    assert policy_view(policy.to_markov(MODEL)).to_dict()["title"]["text"] == ["What the policy does"]


def test_a_plan_in_a_notebook_carries_its_confidence_and_its_assumptions(objects):
    """Once only "Under every kernel in the ball", without how sure it is that the ball holds the kernel."""
    table, _ = picture(objects["estimate"].solve(0.5)._repr_html_())
    assert "With 95 % confidence" in table
    assert ", assuming that " in table
    assert "rewards lie between 0 and 1. This promise uses no data: it is what the declared support" in table


def test_a_map_says_how_many_states_and_actions_it_shows():
    """Once, actions were left out without a word."""
    said = " ".join(mdp_view(large()["model"]).to_dict()["title"]["subtitle"])
    assert said == "12 of 2000 states, 12 of 60 actions."


def test_names_in_a_notebook_are_text():
    outcomes = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.5, 3.0), (0, 1, 0, 0.5, 0.0)]
    model = bqrl.MDP(outcomes, horizon=2, state_names=[NASTY], action_names=["</svg>", NASTY])
    table, svg = picture(model._repr_html_())
    assert "<script" not in table + svg
    assert "&lt;script&gt;" in svg
    record = bqrl.learn(model, "ucbvi", 0.1, 5, 0)
    record.settings["learner"] = NASTY
    table, svg = picture(record._repr_html_())
    assert "<script" not in table + svg
    assert "&lt;script&gt;" in table
    experiment = bqrl.compare(model, [(NASTY, "ucbvi", {}), ("b", "ucbvi", {})], episodes=3, seeds=2, workers=1)
    table, svg = picture(experiment._repr_html_())
    assert "<script" not in table + svg
    assert "&lt;script&gt;" in table
    assert "&lt;script&gt;" in svg


def test_the_table_of_a_plan_says_what_its_value_means(objects):
    assert "In 9 of 10 runs you get at least 0.7916" in objects["plan"]._repr_html_()


def test_the_unit_of_a_model_reaches_what_is_made_from_it():
    model = bqrl.MDP([(0, 0, 0, 0.5, 2.0), (0, 0, 0, 0.5, 0.0), (0, 1, 0, 1.0, 0.5)], horizon=3, units="QALY")
    plan, record = bqrl.solve(model, 0.1), bqrl.learn(model, "ucbvi", 0.1, 20, 0)
    experiment = bqrl.compare(model, ["ucbvi", "q-learning"], tau=0.1, episodes=20, seeds=2, workers=1)
    for thing in (plan, bqrl.guarantee_curve(model), record, experiment, bqrl.solve(model, 0.1, planner="greedy")):
        assert "(QALY)" in str(thing.chart().to_dict()), thing
    assert "QALY" in str(experiment.chart().to_dict()["title"])
    assert f"you get at least {plan.value:g} QALY" in plan._repr_html_()
    assert "cumulative gap (QALY)" in record._repr_html_()
    assert "best quantile (QALY)" in bqrl.guarantee_curve(model)._repr_html_()
    log = {"episode": [0, 1], "state": [0, 0], "action": [0, 1], "reward": [2.0, 0.5], "next_state": [0, 0]}
    estimate = bqrl.fit(log, model=model, ends="truncated")
    assert "(QALY)" in str(estimate.chart(0.1).to_dict())
    assert estimate.solve(0.9).units == "QALY"


@pytest.mark.parametrize("name", ["curve", "plan", "law", "record", "estimate"])
def test_each_has_a_chart(objects, name):
    spec = objects[name].chart().to_dict()
    assert spec["$schema"].endswith(".json")
    assert len(str(spec)) < 200_000


@pytest.mark.parametrize(
    "options", [{"beta": 0.1}, {"planner": "greedy"}, {"points": 100}, {"radius": 0.1, "attitude": "robust"}]
)
def test_charts_of_other_plans_mark_the_promise(options):
    plan = bqrl.solve(MODEL, 0.1, **options)
    promise = plan.law.quantile(0.1) if plan.beta else plan.value
    marked = f"tau,policy,from\n0.1,best,{promise:.6g}\n"
    assert repr(marked)[1:-1] in str(plan.chart().to_dict())


def test_rows_hold_the_numbers(objects):
    law, record = objects["law"], objects["record"]
    assert sum(row["probability"] for row in law.rows()) == pytest.approx(1.0)
    assert objects["curve"].rows()[-1]["value"] == 1.0
    assert [row["gap"] for row in record.rows()] == record.gap().tolist()
    assert record.rows()[0]["episode"] == 1
    assert objects["plan"].rows()[0]["value"] == objects["plan"].value
    outcomes = objects["model"].rows()
    rows = {(row["state"], row["action"]) for row in outcomes}
    assert sum(row["probability"] for row in outcomes) == pytest.approx(len(rows))


def test_frames_where_pandas_is_installed(objects, monkeypatch):
    made = []
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = lambda rows: made.append(rows) or "frame"
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    for name in ("model", "curve", "plan", "law", "record", "experiment", "estimate"):
        assert objects[name].to_frame() == "frame"
        assert made[-1] == objects[name].rows()
    assert objects["policy"].to_frame(MODEL, min_probability=0.1) == "frame"
    assert made[-1] == objects["policy"].table(MODEL, min_probability=0.1)
    assert objects["comparison"].to_frame() == "frame"
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas; install it with: pip install pandas"):
        objects["law"].to_frame()
    with pytest.raises(ImportError, match="to_frame needs pandas; install it with: pip install pandas"):
        objects["estimate"].to_frame()  # once a bare ModuleNotFoundError


def test_the_map_of_a_stochastic_policy_shows_the_most_probable_actions():
    policy = bqrl.StochasticPolicy([[[0.25, 0.75], [1.0, 0.0]]])
    chart = policy_view(policy).to_dict()
    assert "most often" in " ".join(chart["title"]["text"])
    assert {row["s"]: (row["a"], row["part"]) for row in chart_values(chart)} == {"0": ("1", 0.75), "1": ("0", 1.0)}


def test_the_map_of_a_policy_on_demand_leaves_out_what_cannot_be_met():
    """The actions there are computed from checkpoints, which takes longer than the plan."""
    mdp = bqrl.MDP([(s, a, (s + a) % 9, 1.0, a) for s in range(9) for a in range(3)], horizon=3, start=4)
    policy = values_first(mdp, lattice(mdp), max_bytes=1e9).policy(2.0)
    shown = _action_probabilities(policy, np.arange(9))
    assert np.array_equal(shown.sum(axis=2) == 1.0, mdp.reachable[:3])
    assert policy.actions.passes == 0
