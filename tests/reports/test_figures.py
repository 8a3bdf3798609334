import numpy as np
import pytest

import bqrl
from bqrl.laws.law import Law
from bqrl.planners.expected import best_mean
from bqrl.planners.occupancy import play_shares
from bqrl.planners.target import guarantee_curve, plan_from_curve
from bqrl.reports.document import Solved
from bqrl.reports.figures import Spread, Steps, _thinned, cdf_figure, guarantee_figure, quantile_steps
from bqrl.reports.plan_figures import plan_figures
from bqrl.reports.policy_map import MAX_STATES, Panel, policy_figure
from bqrl.reports.style import colours, encode, escape

LAW = Law([0.0, 1.0, 3.0], [0.25, 0.25, 0.5])


def texts(figure):
    found = [figure.get_suptitle()]
    for axes in figure.axes:
        found += [axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()]
        found += [label.get_text() for label in (*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels())]
        for child in axes.child_axes:
            found += [label.get_text() for label in child.get_xticklabels()]
        if axes.get_legend() is not None:
            found += [text.get_text() for text in axes.get_legend().get_texts()]
    for legend in figure.legends:
        found += [text.get_text() for text in legend.get_texts()]
    return found


def line(axes, label):
    return next(line for line in axes.lines if line.get_label() == label)


@pytest.fixture(scope="module")
def solved():
    mdp = bqrl.envs.make("AssetSelling")
    curve = guarantee_curve(mdp)
    plans = tuple(plan_from_curve(curve, tau) for tau in (0.1, 0.5))
    neutral = bqrl.evaluate(mdp, best_mean(mdp)[1])
    shares = tuple(play_shares(mdp, plan.policy) for plan in plans)
    return Solved("AssetSelling", mdp, plans, neutral, {}, curve, shares)


def test_the_guarantee_curve_shows_the_best_quantile_of_every_level(solved):
    figure = plan_figures(solved)["guarantee_curve"]
    axes = figure.axes[0]
    best = line(axes, "best policy for each level")
    assert best.get_drawstyle() == "steps-post"
    x, y = (np.asarray(part) for part in best.get_data())
    for tau in (0.02, 0.1, 0.33, 0.5, 0.9, 0.99):
        assert y[np.searchsorted(x, tau, side="left") - 1] == solved.curve(tau)
    x, y = (np.asarray(part) for part in line(axes, "risk-neutral policy").get_data())
    assert y[np.searchsorted(x, 0.1) - 1] == pytest.approx(17 / 24)
    dots = [tuple(map(float, np.concatenate(mark.get_data()))) for mark in axes.lines if mark.get_marker() == "o"]
    assert dots == [(0.1, 19 / 24), (0.5, 23 / 24)]
    assert axes.get_xlabel() == "level τ: share of runs that may end below the promise"
    assert axes.get_ylabel() == "promised return"
    assert {"0.7917\nat 0.1", "0.9583\nat 0.5"} <= set(texts(figure))
    assert figure.get_suptitle() == "AssetSelling: what can be promised, and how surely"


def test_the_cdf_shows_every_plan_and_the_risk_neutral_policy(solved):
    figure = plan_figures(solved)["return_cdf"]
    axes = figure.axes[0]
    for plan, label in zip(
        (*solved.plans, None), ("τ = 0.1: 0.7917", "τ = 0.5: 0.9583", "risk-neutral policy"), strict=True
    ):
        law = solved.neutral if plan is None else plan.law
        x, y = line(axes, label).get_data()
        np.testing.assert_allclose(y[1:], law.cdf(np.asarray(x)[1:]))
        assert label in texts(figure)
    assert axes.get_xlabel() == "return"
    assert axes.get_ylabel() == "share of runs that end at or below it"


def test_a_buffered_plan_is_named_with_its_own_value(solved):
    plan = bqrl.solve(solved.mdp, 0.5, beta=0.3)
    figure = plan_figures(Solved("AssetSelling", solved.mdp, (plan,), solved.neutral))["return_cdf"]
    assert f"buffered, τ = 0.5: {plan.value:.4g}" in texts(figure)
    assert plan.value != plan.law.quantile(0.5)
    assert "buffered quantile" in figure.axes[0].get_title(loc="left") + " ".join(texts(figure))


def test_a_rounded_curve_is_called_proven(solved):
    curve = guarantee_curve(solved.mdp, points=50)
    plans = (plan_from_curve(curve, 0.1),)
    figure = plan_figures(Solved("AssetSelling", solved.mdp, plans, solved.neutral, {}, curve))["guarantee_curve"]
    assert "proven value for each level" in texts(figure)
    assert "best policy for each level" not in texts(figure)


def test_the_policy_map_shows_the_action_played(solved):
    figure = plan_figures(solved)["policy_map"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["τ = 0.1", "τ = 0.5"]
    assert {"Stop", "Continue", "never met", "stage", "state", "sold"} <= set(texts(figure))
    picture = np.asarray(figure.axes[0].images[0].get_array())
    assert picture.shape == (26, 10, 3)
    stop, go = picture[19, 1], picture[18, 1]  # the first plan holds out for offer 19
    assert not np.allclose(stop, go)
    np.testing.assert_allclose(picture[19:25, 1:], np.broadcast_to(stop, (6, 9, 3)))
    np.testing.assert_allclose(picture[:19, 1:9], np.broadcast_to(go, (19, 8, 3)))
    np.testing.assert_allclose(picture[4, 0], 1.0)  # never met: the first offer is 5


def test_a_bracket_is_drawn_as_a_band():
    figure = guarantee_figure([quantile_steps("plan", LAW, LAW.shift(0.5))], [(0.5, 1.0, "#000000")], "t", "s")
    assert len(figure.axes[0].collections) == 1
    assert "≥ 1\nat 0.5" in texts(figure)
    figure = cdf_figure([Spread("plan", LAW, 0.5, 1.0, law_upper=LAW.shift(0.5))], "t", "s")
    assert len(figure.axes[0].collections) == 1


def test_close_levels_keep_their_names_apart():
    marks = [(tau, 1.0, "#000000") for tau in (0.1, 0.12, 0.14)]
    figure = guarantee_figure([Steps("x", np.array([0.0]), np.array([1.0]))], marks, "t", "s")
    assert {"1\nat 0.1", "1\nat 0.12\n\n", "1\nat 0.14\n\n\n\n"} <= set(texts(figure))
    spreads = [Spread(f"{tau}", LAW, tau, 1.0) for tau in (0.01, 0.02, 0.03)]
    heights = [text.xy[1] for text in cdf_figure(spreads, "t", "s").axes[0].texts]
    assert np.diff(heights).min() >= 0.05


def test_a_line_that_another_covers_is_wider():
    figure = cdf_figure([Spread("a", LAW, 0.1, 0.0), Spread("b", LAW, 0.5, 1.0)], "t", "s")
    assert line(figure.axes[0], "a").get_linewidth() > line(figure.axes[0], "b").get_linewidth()


def test_rare_returns_do_not_squeeze_the_frame():
    law = Law([-1000.0, 0.0, 1.0], [0.001, 0.499, 0.5])
    assert cdf_figure([Spread("a", law)], "t", "s").axes[0].get_xlim()[0] > -1.0


def test_thinning_keeps_the_ends_and_the_shape():
    x = np.linspace(0.0, 1.0, 100_000)
    kept_x, kept_y = _thinned(x, x**2)
    assert kept_x.size <= 3002
    assert (kept_x[0], kept_x[-1]) == (0.0, 1.0)
    np.testing.assert_allclose(kept_y, kept_x**2)


def test_many_states_are_cut_to_those_met_most_often():
    shares = np.zeros((3, 100, 2))
    shares[:, :, 0] = np.arange(100)
    figure = policy_figure([Panel("p", shares)], [f"s{i}" for i in range(100)], ["a", "b"], "title")
    assert figure.get_suptitle().replace("\n", " ") == f"title (the {MAX_STATES} states met most often of 99)"
    assert figure.axes[0].images[0].get_array().shape == (MAX_STATES, 3, 3)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names[0] == "s40"
    assert len(names) <= 26


def test_many_actions_get_a_colour_bar():
    shares = np.zeros((2, 12, 12))
    shares[:, np.arange(12), np.arange(12)] = 1.0
    figure = policy_figure([Panel("p", shares)], list(map(str, range(12))), list(map(str, range(12))), "title")
    assert "action" in texts(figure)


def test_a_mixed_cell_is_paler():
    shares = np.zeros((1, 2, 2))
    shares[0, 0] = 1.0, 0.0
    shares[0, 1] = 0.6, 0.4
    picture = policy_figure([Panel("p", shares)], ["a", "b"], ["x", "y"], "t").axes[0].images[0].get_array()
    assert np.all(picture[1, 0] > picture[0, 0] - 1e-12)
    assert picture[1, 0].sum() > picture[0, 0].sum()


def test_names_are_drawn_as_they_stand():
    assert escape("a$b$") == r"a\$b\$"
    law = Law.point(1.0)
    for kind in ("png", "pdf", "svg"):
        assert encode(cdf_figure([Spread("$x_{$", law, 0.5, 1.0)], r"$\bad{$ 中", "$s$"), kind)


def test_the_same_figure_gives_the_same_bytes():
    for kind in ("png", "pdf", "svg"):
        one, two = (encode(cdf_figure([Spread("a", LAW)], "t", "s"), kind) for _ in range(2))
        assert one == two


def test_colours_are_distinct():
    for count in (1, 8, 20):
        assert len({str(colour) for colour in colours(count)}) == count
