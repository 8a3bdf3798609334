"""The models that a log and its assumptions give."""

import re

import numpy as np
import pytest
from logged_problems import coin, two_steps

from bqrl.errors import ArgumentError, FileFormatError, SizeError
from bqrl.logs.counts import fit_counts
from bqrl.logs.fit import fit


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
    with pytest.raises(FileFormatError, match=r"expected a reward from 0 to 0\.5, as reward_range says, got 1"):
        fit(coin(10, 5), reward_range=(0, 0.5))
    with pytest.raises(FileFormatError, match="drop reward_by"):
        fit(coin(10, 5), reward_by="state-action")


@pytest.mark.parametrize("ends", [None, "truncated"])
def test_an_unseen_outcome_may_end_the_episode(ends):
    """If steps end episodes with probability 0.1, one log in eight shows no end; it once promised 3 where 0.05 has 1."""
    full = {"episode": np.repeat(range(10), 3), "state": ["a"] * 30, "action": ["x"] * 30, "reward": [1.0] * 30}
    cut = {name: [*column[:29]] for name, column in full.items()}
    estimate = fit(full if ends is None else cut, reward_range=(1, 2), ends=ends)
    assert estimate.solve(0.05).value == 1.0  # the first step pays, afterwards the episode may have ended
    assert estimate.trivial(1.0)
    assert fit(full, reward_range=(-1, 2)).solve(0.05).value == -3.0


def test_rows_without_visits_do_not_fill_the_memory():
    log = {"episode": range(2000), "state": range(2000), "action": range(2000), "reward": [0.0] * 2000}
    with pytest.raises(SizeError, match=r"horizon must allow at most .* lower it or declare stationary=True") as caught:
        fit(log, reward_range=(0, 1), horizon=1000)
    assert caught.value.name == "horizon"


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
    with pytest.raises(FileFormatError, match="known lists, got the reward 1 and 's'; correct"):
        fit(two_steps(), reward_range=(0, 9), known=[("t", "old", "s", 1.0, 9.0)], stationary=True)
    with pytest.raises(ArgumentError, match="sum to 1"):
        fit(two_steps(), reward_range=(0, 5), known=[("t", "new", "s", 0.5, 3.0)])


def test_a_known_probability_may_exceed_1_by_a_rounding_error():
    """Frequencies of a frame often sum to 1.0000000000000002, which a model accepts."""
    known = [("t", "new", "s", 1.0 + 2e-16 * 2, 3.0)]
    assert fit(two_steps(), reward_range=(0, 5), known=known, stationary=True).solve(0.2).value == 3.0
    trial = {"state": ["s"], "action": ["a"], "next_state": ["s"], "count": [5], "reward": [1.0]}
    assert fit_counts(trial, horizon=1, known=[("t", "a", "s", 1.0 + 2e-16 * 2, 3.0)]).mdp.S == 2


def test_known_rows_are_checked_where_the_log_does_not_tell_the_successor():
    log = two_steps()
    del log["next_state"]  # the last step of an episode has none
    for stationary in (False, True):
        with pytest.raises(FileFormatError, match="expected an outcome that known lists") as caught:
            fit(log, reward_range=(0, 9), known=[("t", "old", "s", 1.0, 9.0)], stationary=stationary)
        assert caught.value.column == "reward"
        assert fit(log, reward_range=(0, 9), known=[("t", "old", "s", 1.0, 1.0)], stationary=stationary).steps == 800


def test_support_lists_what_is_possible():
    support = [(s, a, u) for s, u in (("s", "t"), ("t", "s")) for a in ("old", "new")]
    estimate = fit(two_steps(), support=support)
    assert not estimate.radii[estimate.seen].any()  # one successor per row: nothing is uncertain
    assert estimate.solve(0.01).value == 1.0
    with pytest.raises(
        FileFormatError, match=r"support lists, got \('s', 'old', 't'\); add it to support or correct the log"
    ):
        fit(two_steps(), support=[("s", "old", "s"), ("s", "new", "t"), ("t", "old", "s")])
    with pytest.raises(TypeError, match=r"support\[0\]\[3\] must be a number, got 'r'"):
        fit(two_steps(), support=[("s", "old", "t", "r")])
    with pytest.raises(ArgumentError, match="reward_range must be given"):
        fit(two_steps(), support="states")
    wide = fit(two_steps(), support="states", reward_range=(0, 1))
    assert wide.balls.outcomes[wide.seen].max() == 2


def test_declared_rewards_are_rounded_as_those_of_the_log():
    """Once the rounded rewards of the log contradicted the exact ones of support and of known rows."""
    log = {"episode": range(90), "state": ["s"] * 90, "action": ["a"] * 90, "reward": [1.25, 0.75, 1.25] * 30}
    log |= {"next_state": ["s"] * 90}
    support = [("s", "a", "s", 1.25), ("s", "a", "s", 0.75)]
    known = [("s", "a", "s", 2 / 3, 1.25), ("s", "a", "s", 1 / 3, 0.75)]
    for declared, promise in (({"support": support}, 1.0), ({"known": known, "reward_range": (0, 2)}, 1.0)):
        assert fit(log, round_rewards=0.5, **declared).solve(0.9).value == promise
        assert fit(log, **declared).solve(0.9).value == 1.25
    with pytest.raises(FileFormatError, match=r"support lists, got \('s', 'a', 's', 0.75\); add") as caught:
        fit(log, support=support[:1])
    assert caught.value.column == "reward"


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
    rest = estimate.start_error() + 1e-12  # the level that is left is below the least buffer
    assert estimate.solve(rest, beta=0.01).value == -np.inf
    assert fit(log, reward_range=(0, 2), start={"a": 0.5, "b": 0.5}).start_error() == 0.0
    assert fit(log, reward_range=(0, 2), start="b").solve(0.4).value == 2.0


def test_rewards_of_steps_that_do_not_count_must_agree_with_the_declarations_too():
    log = {"episode": [0, 0, 1, 1], "state": ["a", "b"] * 2, "action": ["x"] * 4, "reward": [2.0, 0.0, 2.0, 1.0]}
    with pytest.raises(FileFormatError, match=r"expected a reward from 1 to 2, as reward_range says, got 0"):
        fit(log, stationary=True, reward_range=(1, 2))
    with pytest.raises(FileFormatError, match=r"expected the reward 0 as elsewhere .* got 1; drop reward_by"):
        fit(log, stationary=True, reward_by="state-action", reward_range=(0, 2))


def test_a_mark_of_the_horizon_is_no_early_end():
    """Environments mark the last step as terminated; with pooled stages it once counted as an end, and -5 was promised."""
    n, H = 3000, 6
    log = {
        "episode": np.repeat(np.arange(n), H), "state": ["on"] * n * H, "action": ["run"] * n * H,
        "reward": [-1.0] * n * H, "next_state": ["on"] * n * H, "terminated": [h == H - 1 for _ in range(n) for h in range(H)],
    }  # fmt: skip
    estimate = fit(log, stationary=True, reward_range=(-1, 0))
    assert estimate.counted == n * (H - 1)
    assert estimate.solve(0.5).value == -H == fit(log, reward_range=(-1, 0)).solve(0.5).value
    for support in ("states", [("on", "run", "on")]):  # it was once no outcome that the list has
        assert fit(log, support=support, reward_range=(-1, 0)).solve(0.5).value == -H
    ending = log | {"next_state": ["off" if end else "on" for end in log["terminated"]]}
    both = [("on", "run", "on"), ("on", "run", "(end)")]
    assert fit(ending, support=both, reward_range=(-1, 0)).solve(0.5).value == -H


def test_a_mark_at_the_last_stage_is_an_end_where_the_support_lists_one():
    """The named state once counted instead, so that its transition had the rewards of both."""
    log = {"episode": [0, 0, 1, 1, 2], "state": ["on"] * 5, "action": ["run"] * 5, "reward": [0.0, 0.0, 0.0, 5.0, 5.0]}
    log |= {"next_state": ["on"] * 5, "terminated": [0, 0, 0, 1, 1]}
    listed = [("on", "run", "on"), ("on", "run", "(end)")]
    paid = [(*each, reward) for each, reward in zip(listed, (0.0, 5.0), strict=True)]
    for support in ("states", listed, paid):
        mdp = fit(log, support=support).mdp
        row = slice(*mdp.row_start[mdp.S : mdp.S + 2])  # stage 1, state "on"
        assert (mdp.successor[row].tolist(), mdp.probability[row].tolist()) == ([0, 1], [0.5, 0.5])


def test_declarations_may_name_what_the_log_does_not_show():
    """A small log need not show every state and action; naming another was once refused with "did you mean"."""
    log = {"episode": range(300), "state": ["a"] * 300, "action": ["x"] * 300, "reward": [1.0] * 300}
    log |= {"next_state": ["b"] * 150 + ["c"] * 150}
    support = [("a", "x", after) for after in "bcd"]
    estimate = fit(log, support=[*support, ("a", "y", "b")], reward_range=(0, 1))
    assert estimate.mdp.state_names == ("a", "b", "c", "d", "(end)", "(unseen)")
    assert estimate.balls.outcomes[0, 0].tolist() == [3, 0]
    assert not estimate.mdp.available[0, 0, 1]  # possible outcomes do not make an action known
    assert estimate.solve(0.2).value == 1.0
    assert estimate.solve(0.01).value == 0.0  # "d" may be likely, and its reward is not known
    sold = fit(log, reward_range=(0, 5), known=iter([("a", "sell", "(end)", 1.0, 5.0)]))
    assert sold.solve(0.01).value == 5.0
    assert "the problem has 'sell', which the log does not show" in sold.assumptions
    law = fit(log, reward_range=(0, 1), start={"a": 0.875, "z": 0.125})
    assert (law.solve(0.2).value, law.solve(0.125).value) == (1.0, 0.0)
    assert law.reason(0.125) == "no action was ever tried in state 'z', which has probability 0.12"
    for options, words in (
        ({"start": "z"}, "start must name states of the log, got 'z'"),
        ({"support": [("a", "", "b")]}, "support must name actions of the log, got ''"),
    ):
        with pytest.raises(ArgumentError, match=words):
            fit(log, reward_range=(0, 1), **options)


@pytest.mark.parametrize("marks", [["", "terminal"], ["", ""], ["terminal", "terminal"]])
def test_which_steps_count_does_not_depend_on_their_outcomes(marks):
    """With pooled stages the last one counted if no episode of the log happened to end there: ends were underestimated."""
    log = {"episode": [0, 0, 1, 1], "state": ["s"] * 4, "action": ["a"] * 4, "reward": [0.0] * 4}
    log |= {"next_state": ["s"] * 4, "end": ["", marks[0], "", marks[1]]}
    assert fit(log, stationary=True, reward_range=(0, 1)).counted == 2


def test_next_states_that_are_recorded_for_some_last_steps_only_are_an_assumption():
    log = {"episode": [0, 0, 1, 1], "state": ["s"] * 4, "action": ["a"] * 4, "reward": [0.0] * 4}
    text = "whether the next state of a last step is recorded does not depend on it"
    for last, assumed in ((["s", "s"], False), (["s", None], True), ([None, None], False)):
        estimate = fit(log | {"next_state": ["s", last[0], "s", last[1]]}, stationary=True, reward_range=(0, 1))
        assert (text in estimate.assumptions) == assumed
        assert estimate.counted == (4 if last == ["s", "s"] else 2)


def test_a_support_names_a_transition_with_rewards_or_without():
    """Both forms of one transition once added up to a probability of 2."""
    log, rest = two_steps(), [("t", "old", "s", 1.0), ("s", "old", "t"), ("s", "new", "t")]
    with pytest.raises(
        ArgumentError, match=r"support must list a transition with rewards or without, got both; give su"
    ):
        fit(log, support=[*rest, ("s", "old", "t", 0.0)])
    random = fit(log, support=[rest[0], ("t", "old", "s", 0.0), *(((*row, 0.0)) for row in rest[1:])])
    assert "the reward is determined by the transition" not in random.assumptions
    assert "the reward is determined by the transition" in fit(log, support=rest).assumptions


def test_every_action_found_costs_a_share_of_the_confidence():
    """With `support="states"` the log may try actions until one looks good; a union over those seen alone would not do."""
    log = two_steps()
    listed = [(s, a, t) for s in "st" for a in ("old", "new") for t in "st"]
    rows = [fit(log, reward_range=(0, 1), support=support).balls.rows for support in ("states", listed)]
    assert rows == [2 * 2 * 2 * 3, 2 * 2 * 2]


def test_rewards_that_differ_in_the_last_digit_are_told_apart():
    """Both were once shown as 0.3."""
    log = coin(4, 2, reward=[0.3, 0.3, 0.1 + 0.2, 0.3])
    with pytest.raises(
        FileFormatError, match=r"the reward 0.3 as elsewhere .*, got 0.30000000000000004; drop reward_by"
    ):
        fit(log, reward_by="state-action")
    with pytest.raises(FileFormatError, match=r"a reward from 0 to 0.3, as reward_range says, got 0.30000000000000004"):
        fit(log, reward_range=(0, 0.3))
    assert "rewards lie between 0 and 0.30000000000000004" in fit(log, reward_range=(0, 0.1 + 0.2)).assumptions


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        ({"known": [("t", "a", "t", 1.0, -100.0)]}, "known[0][4]"),
        ({"support": [("s", "a", "t", 1.0), ("t", "a", "t", -100.0)]}, "support[1][3]"),
    ],
)
def test_declared_rewards_lie_in_the_stated_range(declared, name):
    """A promise of 1 once ignored a declared reward of -100 that follows the cut, or an unseen outcome."""
    log = {"episode": range(200), "state": ["s"] * 200, "action": ["a"] * 200, "reward": [1.0] * 200}
    log |= {"next_state": ["t"] * 200, "end": ["truncated"] * 200}
    asked = {"horizon": 3, "stationary": True, **declared}
    text = f"{name} must be from 0 to 1, the range of the rewards, got -100.0; widen reward_range"
    with pytest.raises(ValueError, match=re.escape(text)):
        fit(log, reward_range=(0, 1), **asked)
    assert fit(log, reward_range=(-100, 1), **asked).solve(0.2).value == -199.0
