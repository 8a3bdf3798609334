import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.laws.law import Law
from bqrl.reports.learning import Learned, Runs, label_of, learning_document, settled
from bqrl.reports.learning_figures import (
    BLOCKS,
    VERTICES,
    _broken,
    block_ends,
    learning_figures,
    promises,
    spread,
    summed,
)
from bqrl.reports.learning_tables import learner_columns, seed_columns
from bqrl.reports.learning_words import headline, learned, ranked, ranking
from bqrl.reports.style import encode

MODEL = bqrl.MDP([[[1.0]]], [[1.0]], horizon=1)
BEST = 10.0


def runs(label, quantiles, finals=None):
    """Runs of a learner whose promises by seed and episode are `quantiles`."""
    table = np.array(quantiles, float)
    ends = table[:, -1] if finals is None else finals
    laws = tuple(Law.point(float(x)) for x in ends)
    seeds = tuple(range(42, 42 + len(table)))
    return Runs(label, label.lower(), {}, seeds, table + 0.5, table, table - 1.0, laws)


def found(kind, *each, tau=0.1, chance=2.0):
    return Learned(kind, "Shop", MODEL, {}, tau, each, BEST, BEST - 1.0, Law.point(chance))


def told(kind, *each, **more):
    return learning_document(found(kind, *each, **more))


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_the_document_sums_what_fell_short():
    content = told("learn", runs("A", [[4, 8, 10, 10], [10, 10, 10, 10]]))
    first, second = content["learners"][0]["runs"]
    assert (first["gap"], first["regret"], first["settled"]) == (8.0, 8.0, 2)
    assert (second["gap"], second["regret"], second["settled"]) == (0.0, 0.0, 0)
    assert content["learners"][0]["mean"]["gap"] == 4.0
    assert content["learners"][0]["std"]["gap"] == pytest.approx(np.std([8, 0], ddof=1))
    assert content["random"] == {"quantile": 2.0, "mean": 2.0, "gap": 32.0, "regret": 28.0}
    assert content["best"] == {"quantile": 10.0, "mean": 9.0}


@given(st.lists(st.sampled_from([0.0, 0.5]), min_size=1, max_size=12))
def test_settled_is_the_first_episode_of_the_last_stretch_without_a_gap(gaps):
    first = settled(np.array(gaps), 1.0)
    if gaps[-1] > 0:
        assert first is None
    else:
        assert all(gap == 0 for gap in gaps[first:])
        assert first == 0 or gaps[first - 1] > 0


def test_labels():
    assert label_of("thompson", {}) == "Thompson"
    assert label_of("ucb-bqrl", {"planner": "greedy"}) == "UCB-BQRL, greedy planner"
    assert label_of("sarsa", {"epsilon": (0.5, 0.1)}) == "SARSA, epsilon=0.5,0.1"


# -- words ------------------------------------------------------------------------------------------------------------


def test_a_title_claims_the_best_promise_only_where_it_was_kept():
    early = runs("A", [[4] + [10] * 19, [8, 8, 8] + [10] * 17])
    assert headline(told("learn", early)) == "A makes the best promise, 10, from episode 4 on in all 2 seeds"
    assert headline(told("learn", runs("A", [[10] * 20]))) == "A makes the best promise, 10, from the first episode on"
    late = runs("A", [[4] * 19 + [10]])
    assert headline(told("learn", late)) == "A ends with the best promise, 10"
    some = runs("A", [[10] * 20, [10] * 19 + [9]])
    assert headline(told("learn", some)) == "A ends with the best promise, 10, in 1 of 2 seeds"
    never = runs("A", [[7] * 20, [9] * 20])
    assert headline(told("learn", never)) == "A ends on average 2 short of the best promise, 10"
    lost = runs("A", [[10] * 20], finals=[9.0])  # the last update spoilt it
    assert headline(told("learn", lost)) == "A ends 1 short of the best promise, 10"


def test_what_one_learner_means():
    every = learned(told("learn", runs("A", [[4, 10], [10, 10]])))
    assert every == (
        "After 2 episodes, in 9 of 10 runs you get at least 10, the best that any policy can promise, with each of the "
        "2 seeds. On the way policies fell short of it by 1.5 an episode on average, 3 in all."
    )
    some = learned(told("learn", runs("A", [[10, 10], [10, 6]])))
    assert (
        "1 of 2 seeds end with the best promise of any policy, at least 10 in 9 of 10 runs; on average they promise 8."
        in some
    )
    none = learned(told("learn", runs("A", [[7]])))
    assert none.startswith("After 1 episode, in 9 of 10 runs you get at least 7, 3 less than the best promise, 10.")
    assert learned(told("learn", runs("A", [[10, 10]]))).endswith("No policy on the way fell short of it.")
    assert "nothing to learn" in learned(told("learn", runs("A", [[10, 10]]), chance=10.0))


def test_a_ranking_says_no_more_than_the_seeds_show():
    a, b = runs("A", [[9] * 4, [9] * 4]), runs("B", [[5] * 4, [6] * 4])
    wanted = "A falls short of the best promise by 4 in all; the next, B, by 18 (4.5 times as much)"
    assert ranking(told("compare", b, a)) == wanted
    mixed = runs("C", [[8] * 4, [9.5] * 4])  # one seed better, one worse than A's
    assert ranking(told("compare", a, mixed)) == "A and C fall short of the best promise least: by 4 and 5 in all"
    best = runs("D", [[10] * 4, [10] * 4])
    assert ranking(told("compare", a, best)) == "D never falls short of the best promise; the next, A, by 4 in all"
    two = ranking(told("compare", a, best, runs("E", [[10] * 4, [10] * 4])))
    assert two == "D and E never fall short of the best promise; the next, A, by 4 in all"
    assert ranking(told("compare", best, runs("E", [[10] * 4] * 2))) == (
        "none of the 2 learners ever falls short of the best promise"
    )
    assert ranking(told("compare", a)) == headline(told("compare", a))
    text = ranked(told("compare", a, b))
    assert text.endswith("In 9 of 10 runs the best policy gives at least 10, playing at random 2.")
    assert "nothing to learn" in ranked(told("compare", a, b, chance=10.0))


# -- tables -----------------------------------------------------------------------------------------------------------


def test_tables_list_seeds_and_learners():
    one = dict(seed_columns(told("learn", runs("A", [[4, 10], [10, 10]]))))
    assert one["seed"] == ["42", "43", "mean"]
    assert one["cumulative gap"] == ["6", "0", "3"]
    assert one["settled after"] == ["1", "0", ""]
    assert dict(seed_columns(told("learn", runs("A", [[4, 10]]))))["seed"] == ["42"]
    several = dict(learner_columns(told("compare", runs("B", [[5, 5], [5, 5]]), runs("A", [[4, 10], [10, 10]]))))
    assert several["learner"] == ["A", "B", "best possible", "random policy"]
    assert several["cumulative gap"] == ["3.000 ± 4.243", "10.00", "0", "16.00"]
    assert several["settled after"] == ["1", "\N{EN DASH}", "", ""]


# -- figures ----------------------------------------------------------------------------------------------------------


def test_blocks_cover_every_episode_once():
    for T in (1, 7, 100, 101, 2000, 12345):
        ends = block_ends(T, 100)
        assert ends[-1] == T
        assert ends.size == min(T, 100)
        assert np.all(np.diff(np.r_[0, ends]) >= 1)


def test_bands_are_means_and_ranges():
    rng = np.random.default_rng(0)
    values = rng.random((3, 1000))
    band = promises(values)
    assert band.x.size == BLOCKS
    np.testing.assert_allclose(band.mean[0], values[:, :10].mean())
    np.testing.assert_allclose(band.low[-1], values[:, -10:].mean(axis=1).min())
    total = summed(values)
    assert total.x.size == VERTICES + 1
    assert (total.x[0], total.mean[0], total.x[-1]) == (0, 0.0, 1000)
    np.testing.assert_allclose(total.high[-1], values.sum(axis=1).max())
    few = promises(values[:, :3])
    np.testing.assert_allclose(few.mean, values[:, :3].mean(axis=0))


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=10))
def test_names_do_not_touch_and_keep_their_order(wanted):
    places = spread(wanted, [0.05] * len(wanted))
    order = np.argsort(wanted, kind="stable")
    apart = np.diff(np.sort(places))
    assert np.all(apart >= 0.05 - 1e-9)
    assert min(places) >= 0.025 - 1e-9
    assert max(places) <= 1.0 + 1e-9
    assert np.all(np.diff(np.array(wanted)[np.argsort(places)]) >= -1e-12)
    if len(wanted) == 1 or np.diff(np.array(wanted)[order]).min(initial=1.0) > 0.05:
        np.testing.assert_allclose(places, np.maximum(wanted, 0.025), atol=0.05)


def words(figure):
    return [
        text.get_text()
        for axes in figure.axes
        for text in (*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label, axes._left_title)
    ]


def test_the_figure_needs_no_caption():
    a, b = runs("A", [[9] * 30, [8] * 30]), runs("B$", [[5] * 30, [6] * 30])
    both = found("compare", a, b)
    content = learning_document(both)
    figure = learning_figures(both, content)["learning"]
    title = figure.get_suptitle().replace("\n", " ")
    assert title == f"Shop: {ranking(content)}".replace("$", r"\$")
    text = words(figure)
    for wanted in ("A: 45", r"B\$: 135", "best possible: 10", "random policy: 2", "return reached in 9 of 10 runs"):
        assert wanted in text
    assert any("mean of 2 seeds" in each for each in text)
    left, right = figure.axes
    assert [line.get_ydata()[-1] for line in right.lines] == [45.0, 135.0]
    assert left.lines[0].get_ydata()[0] == 8.5
    assert left.get_ylim()[0] < 2.0 < 10.0 < left.get_ylim()[1]
    for kind in ("png", "pdf"):
        assert encode(figure, kind)


def test_one_seed_has_no_band_and_one_episode_is_a_point():
    alone = found("learn", runs("A", [[9.0]]))
    figure = learning_figures(alone, learning_document(alone))["learning"]
    assert not figure.axes[0].collections
    assert figure.axes[0].lines[0].get_marker() == "o"
    assert encode(figure, "png")


def test_a_reference_far_away_does_not_squeeze_the_curves():
    far = found("learn", runs("A", [[9.0, 9.5, 10.0]]), chance=-1e6)
    figure = learning_figures(far, learning_document(far))["learning"]
    assert figure.axes[0].get_ylim()[0] > 0.0
    assert "random policy: \N{MINUS SIGN}1000000, below this frame" in words(figure)


def test_many_learners_get_names_and_colours_of_their_own():
    many = found("compare", *(runs(f"learner number {i}, with a long name", [[i] * 5, [i] * 5]) for i in range(10)))
    figure = learning_figures(many, learning_document(many))["learning"]
    assert len({str(line.get_color()) for line in figure.axes[1].lines}) == 10
    assert encode(figure, "png")


def test_long_names_are_broken_after_a_comma():
    assert _broken("UCB-BQRL, greedy planner") == "UCB-BQRL, greedy planner"
    assert _broken("UCB-BQRL, greedy planner, c_conf=0.01") == "UCB-BQRL, greedy planner,\nc_conf=0.01"
    assert "\n" not in _broken("a" * 60)
