"""Radii against brute force over all sets of outcomes, and the models that a log and its assumptions give."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr

import bqrl
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.logs.balls import Balls, largest_error
from bqrl.logs.fit import fit


def balls(visits, outcomes, most, free, delta=0.05):
    one = np.ones((1, 1, 1))
    return Balls(
        visits=(one * visits).astype(int), outcomes=(one * outcomes).astype(int), most=one * most,
        exact=np.zeros((1, 1, 1), bool), free=free, rows=1, delta=delta,
    )  # fmt: skip


def smallest_mass(x, bound):
    """The smallest q with KL(x || q) <= bound."""
    distance = lambda q: rel_entr(x, q) + rel_entr(1 - x, 1 - q) - bound  # noqa: E731
    return 0.0 if x == 0 else brentq(distance, 1e-300, x) if distance(1e-300) > 0 else 0.0


@pytest.mark.parametrize("counts", [(50, 50), (97, 2, 1), (100,), (40, 30, 20, 10), (995, 3, 2), (60, 40)])
@pytest.mark.parametrize("bound", [0.3, 0.05, 0.002])
def test_the_largest_error_bounds_every_set_of_outcomes(counts, bound):
    p = np.array(counts) / sum(counts)
    sets = [p[list(g)].sum() for size in range(1, p.size + 1) for g in combinations(range(p.size), size)]
    worst = max(x - smallest_mass(min(x, 1.0), bound) for x in sets)
    found = float(largest_error(np.array(bound), np.array(p.max())))
    assert worst - 1e-12 <= found <= max(1.05 * np.sqrt(bound / 2), worst)
    if p.max() == 1.0:
        assert found == pytest.approx(1 - np.exp(-bound), rel=0.2)


@pytest.mark.parametrize(
    "law", [np.full(5, 0.2), np.array([0.97, 0.01, 0.01, 0.01]), np.array([1.0]), np.full(400, 1 / 400)]
)
@pytest.mark.parametrize("free", [True, False])
def test_radii_hold_for_all_visit_numbers_at_once(law, free):
    """At delta = 0.5, 60 rows of 300 visits: fails with probability below 1e-9 if the radius holds in half of them.

    The union over sets is far from tight, so that a violation is not expected at all.
    """
    rng, broken = np.random.default_rng(1), 0
    for _ in range(60):
        draws = rng.choice(law.size, 300, p=law)
        for n in (1, 3, 10, 30, 100, 300):
            count = np.bincount(draws[:n], minlength=law.size)
            error = np.maximum(count / n - law, 0.0)[count > 0].sum()  # the largest over sets of seen outcomes
            outcomes = np.count_nonzero(count) if free else law.size
            if law.size > 1 and error > balls(n, outcomes, count.max(), free, 0.5).radii()[0, 0, 0] / 2 + 1e-12:
                broken += 1
                break
    assert broken == 0


def test_radii_hold_if_logging_stops_at_a_lucky_moment():
    """Action a is tried until it has won more often than 0.6, which happens by chance alone: its frequency is biased.

    The union bound is far from tight, so that no violation is expected even at confidence 0.5.
    """
    rng = np.random.default_rng(2)
    for _ in range(20):
        wins = rng.random(3000) < 0.5
        share = np.cumsum(wins) / np.arange(1, 3001)
        lucky = np.flatnonzero((share > 0.6) & (np.arange(3000) >= 4))
        n = int(lucky[0]) + 1 if lucky.size else 3000
        log = {"episode": range(n + 10), "state": ["s"] * (n + 10), "action": ["a"] * n + ["b"] * 10}
        estimate = fit(log | {"reward": [*wins[:n].astype(float), *[0.0] * 10]}, 0.5, reward_range=(0, 1))
        assert share[n - 1] - 0.5 <= estimate.radii[0, 0, 0] / 2


def test_a_row_that_always_shows_something_new_promises_nothing():
    """Every one of 200 draws was new, so the true row may give the seen outcomes no mass at all.

    Weissman's radius with the states of the log as the support would be about 1.2.
    """
    log = {"episode": range(200), "state": ["s"] * 200, "action": ["a"] * 200, "reward": np.arange(200) / 1000}
    estimate = fit(log, reward_range=(-1, 1))
    assert estimate.radii[0, 0, 0] == 2.0
    assert estimate.solve(0.9).value == -1.0


def coin(n, heads, **columns):
    """One step: action a pays 1 or 0."""
    return {
        "episode": range(n),
        "state": ["s"] * n,
        "action": ["a"] * n,
        "reward": [1.0] * heads + [0.0] * (n - heads),
    } | columns


@pytest.mark.parametrize("heads", [9_000, 9_500, 9_900, 10_000])
def test_one_step_by_hand(heads):
    estimate = fit(coin(10_000, heads), reward_range=(0, 1))
    worst = 1 - heads / 10_000 + estimate.radii[0, 0, 0] / 2
    assert estimate.solve(0.1).value == (1.0 if worst < 0.1 else 0.0)
    assert estimate.solve(min(0.99, worst + 0.001)).value == 1.0


def test_a_reward_range_is_required_unless_the_support_is_known():
    with pytest.raises(ArgumentError, match="reward_range must be given"):
        fit(coin(10, 5))
    assert fit(coin(10, 10), reward_by="state-action").solve(0.1).value == 1.0  # its reward is known, n = 10


def test_rewards_outside_the_range_or_of_one_row_are_refused():
    with pytest.raises(FileFormatError, match="outside reward_range"):
        fit(coin(10, 5), reward_range=(0, 0.5))
    with pytest.raises(FileFormatError, match="drop reward_by"):
        fit(coin(10, 5), reward_by="state-action")


def two_steps(n=400):
    """Action "new" is tried in state s only; state t is reached from s."""
    half = ["old", "new"] * (n // 2)
    return {
        "episode": np.repeat(np.arange(n), 2), "state": ["s", "t"] * n, "action": [x for a in half for x in (a, "old")],
        "reward": [0.0, 1.0] * n, "next_state": ["t", "s"] * n,
    }  # fmt: skip


def test_an_action_never_tried_is_not_available():
    estimate = fit(two_steps(), reward_range=(0, 1))
    actions = estimate.mdp.action_names
    t = estimate.mdp.state_names.index("t")
    assert not estimate.mdp.available[1, t, actions.index("new")]
    assert estimate.mdp.available[1, t, actions.index("old")]
    assert not estimate.seen[1, t, actions.index("new")]


def test_known_rows_have_radius_zero_and_need_no_visits():
    known = [("t", "new", "s", 0.5, 3.0), ("t", "new", "s", 0.5, 5.0)]
    plan = fit(two_steps(), reward_range=(0, 5), known=known, stationary=True).solve(0.2)
    assert plan.value == 3.0  # "new" in t is known, and pays at least 3
    assert fit(two_steps(), reward_range=(0, 5), stationary=True).solve(0.2).value == 1.0
    with pytest.raises(FileFormatError, match="known says that this outcome is impossible"):
        fit(two_steps(), reward_range=(0, 5), known=[("t", "old", "s", 1.0, 9.0)], stationary=True)
    with pytest.raises(ArgumentError, match="sum to 1"):
        fit(two_steps(), reward_range=(0, 5), known=[("t", "new", "s", 0.5, 3.0)])


def test_support_lists_what_is_possible():
    support = [(s, a, u) for s, u in (("s", "t"), ("t", "s")) for a in ("old", "new")]
    estimate = fit(two_steps(), support=support)
    assert not estimate.radii[estimate.seen].any()  # one successor per row: nothing is uncertain
    assert estimate.solve(0.01).value == 1.0
    with pytest.raises(FileFormatError, match="support does not list this outcome; extend it"):
        fit(two_steps(), support=[("s", "old", "s"), ("s", "new", "t"), ("t", "old", "s")])
    with pytest.raises(ArgumentError, match="reward_range must be given"):
        fit(two_steps(), support="states")
    wide = fit(two_steps(), support="states", reward_range=(0, 1))
    assert wide.balls.outcomes[wide.seen].max() == 2


def test_steps_without_a_successor_do_not_count():
    """Episodes that are cut off whenever the next state is bad, which is not recorded."""
    log = {"episode": [0, 0, 1, 2, 2, 3], "state": list("aaaaaa"), "action": ["x"] * 6, "reward": [0.0] * 6}
    cut = fit(log, ends="truncated", stationary=True, reward_range=(0, 1))
    assert cut.counted == 2  # neither the steps that were cut off nor those of the last stage
    assert "cut off" in " ".join(cut.assumptions)
    complete = fit(log, stationary=True, reward_range=(0, 1))
    assert complete.counted == 4
    assert complete.mdp.state_names[-2:] == ("(end)", "(unseen)")


def test_several_first_states_cost_a_part_of_the_level():
    log = {"episode": range(2000), "state": ["a", "b"] * 1000, "action": ["x"] * 2000, "reward": [1.0, 2.0] * 1000}
    estimate = fit(log, reward_range=(0, 2))
    assert 0.01 < estimate.start_error() < 0.06
    assert estimate.solve(0.4).value == 1.0
    assert estimate.solve(0.01).value == -np.inf
    assert fit(log, reward_range=(0, 2), start={"a": 0.5, "b": 0.5}).start_error() == 0.0
    assert fit(log, reward_range=(0, 2), start="b").solve(0.4).value == 2.0


def test_a_model_names_labels_and_outcomes():
    model = bqrl.MDP(
        [[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=2, state_names=["s", "t"], action_names=["a"]
    )
    log = {"episode": [0, 0, 1, 1], "state": ["s", "t", "s", "s"], "action": ["a"] * 4, "reward": [0.0, 1.0, 0.0, 0.0]}
    estimate = fit(log | {"next_state": ["t", "t", "s", "t"]}, model=model)
    assert estimate.counts[0, :, 0].tolist() == [3, 1]
    assert estimate.mdp.probability.tolist() == [1 / 3, 2 / 3, 1.0]
    for changed, words in (
        ({"state": ["s", "u", "s", "s"]}, "the model has no state 'u'"),
        ({"action": ["a", "b", "a", "a"]}, "the model has no action 'b'"),
        ({"reward": [7.0, 1.0, 0.0, 0.0]}, "no outcome with this next_state and reward 7"),
    ):
        with pytest.raises(FileFormatError, match=words):
            fit(log | changed, model=model)
    with pytest.raises(ArgumentError, match="support must not be given with model="):
        fit(log, model=model, support="states")
