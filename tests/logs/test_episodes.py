import numpy as np
import pytest

import bqrl
from bqrl.errors import FileFormatError
from bqrl.logs.episodes import ENDED, UNKNOWN, order_episodes
from bqrl.logs.read import read_columns


def ordered(horizon=None, ends=None, **columns):
    count = len(columns["state"])
    return order_episodes(read_columns({"action": ["x"] * count, "reward": [1.0] * count} | columns), horizon, ends)


def test_stages_come_from_the_order_or_the_column():
    by_order = ordered(episode=[7, 7, 3, 3], state=list("acbd"))
    by_column = ordered(episode=[7, 3, 7, 3], stage=[2, 2, 1, 1], state=list("cdab"))
    for log in (by_order, by_column):
        assert log.stage.tolist() == [0, 1, 0, 1]
        assert [log.states[s] for s in log.state] == ["b", "d", "a", "c"]  # episode 3 comes first
        assert log.next_state.tolist() == [log.states.index("d"), UNKNOWN, log.states.index("c"), UNKNOWN]


def test_ids_that_two_logs_share_do_not_join_their_episodes():
    """Two logs with the ids 0 to 199 became 200 episodes of two steps, and the promise was wrong."""
    ids, steps = [*range(200), *range(200)], {"state": ["a"] * 400}
    words = "row 200, column 'episode': expected the rows of an episode together, got episode '0' again after another one; give"
    with pytest.raises(FileFormatError, match=words):
        ordered(episode=ids, **steps)
    with pytest.raises(FileFormatError, match=r"row 2.*got episode '7' again"):
        ordered(episode=[7, 3, 7, 3], state=list("abcd"))
    assert ordered(episode=ids, stage=[0] * 200 + [1] * 200, **steps).T == 200
    assert ordered(episode=range(400), **steps).T == 400


def test_shorter_episodes_end_or_were_cut_off():
    columns = {"episode": [1, 1, 2], "state": list("aba")}
    assert ordered(**columns).next_state.tolist() == [1, UNKNOWN, ENDED]
    cut = ordered(ends="truncated", **columns)
    assert cut.next_state.tolist() == [1, UNKNOWN, UNKNOWN]
    assert cut.truncated.tolist() == [False, True]
    assert cut.returns(1.0).tolist() == [2.0]


def test_a_column_tells_ends_apart():
    log = ordered(episode=[1, 1, 2, 3], state=list("abab"), end=["", "", "terminal", "truncated"])
    assert log.truncated.tolist() == [False, False, True]
    assert log.next_state.tolist() == [1, UNKNOWN, ENDED, UNKNOWN]


def test_last_stages_count_only_if_every_successor_is_recorded():
    """Otherwise only those steps would count whose successor happens to be known."""
    log = ordered(episode=[1, 1, 2, 2], state=list("abab"), next_state=["b", "c", "b", ""])
    assert log.next_state.tolist() == [1, UNKNOWN, 1, UNKNOWN]


def test_absorbing_states_are_those_in_which_complete_episodes_end():
    log = ordered(episode=[1, 1, 2], state=list("aba"), next_state=["b", "a", "done"])
    assert [log.states[s] for s in np.flatnonzero(log.absorbing)] == ["done"]


HEADER = "episode,stage,state,action,reward,next_state,end\n"
TWO = "1,0,a,x,1,b,\n1,1,b,x,1,a,\n"


@pytest.mark.parametrize(
    ("rows", "options", "line", "column", "words"),
    [
        ("1,0,a,x,1,b,\n1,2,b,x,1,a,\n2,0,a,x,1,b,\n", {}, 3, "stage", "expected stage 1, got 2; add"),
        ("1,0,a,x,1,b,\n1,0,b,x,1,a,\n2,0,a,x,1,b,\n", {}, 3, "stage", "expected stage 1, got 0; drop one of the rows"),
        (TWO + "2,1,a,x,1,b,\n", {}, 4, "stage", "expected stage 0, got 1; add the missing steps"),
        (TWO + "2,first,a,x,1,b,\n", {}, 4, "stage", "whole number"),
        (TWO + f"2,{10**30},a,x,1,b,\n", {}, 4, "stage", "whole number"),
        (TWO + "2,0,a,x,1,b,\n2,1,a,x,1,b,\n", {}, 4, "next_state", "the state of the next step, got 'b'"),
        (TWO + "2,0,a,x,1,b,\n", {"horizon": 1}, 3, "stage", "at most 1 steps per episode, got 2; raise horizon"),
        (TWO, {}, 2, "episode", "expected many episodes, got one"),
        (TWO + "2,0,,x,1,b,\n", {}, 4, "state", "expected the state, got an empty cell"),
        (TWO + "2,0,a,x,1,b,termnal\n", {}, 4, "end", "did you mean 'terminal'"),
        ("1,0,a,x,1,b,terminal\n1,1,b,x,1,a,\n2,0,a,x,1,b,\n", {}, 2, "end", "got a step that others follow"),
    ],
)
def test_bad_logs_are_one_line_with_their_place(tmp_path, rows, options, line, column, words):
    path = tmp_path / "bad.csv"
    path.write_text(HEADER + rows)
    with pytest.raises(FileFormatError, match=r"^bad\.csv: line") as caught:
        order_episodes(read_columns(path), options.get("horizon"), options.get("ends"))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_a_state_that_ends_episodes_sometimes_is_refused(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("episode,state,action,reward,next_state\n1,a,x,1,b\n1,b,x,1,a\n2,a,x,1,b\n")
    with pytest.raises(FileFormatError, match="at the end of an episode, got 'b', from which line 3 continues"):
        order_episodes(read_columns(path), None, None)
    assert order_episodes(read_columns(path), None, "truncated").next_state[-1] >= 0


def test_ends_are_given_once():
    with pytest.raises(ValueError, match="ends must not be given"):
        ordered(episode=[1, 2], state=["a", "a"], end=["", ""], ends="terminal")


# -- absorbing states --------------------------------------------------------------------------------------------------


def registry(*, died, cut, action="", reward=0.0):
    """Patients treated for three years: `died` die after two and have one final row, `cut` are cut off after two."""
    log = {name: [] for name in ("episode", "stage", "state", "action", "reward")}
    lives = [["Well", "Well", "Dead"]] * died + [["Well", "Well"]] * cut + [["Well"] * 3] * 20
    for episode, states in enumerate(lives):
        for stage, state in enumerate(states):
            dead = state == "Dead"
            for name, cell in zip(
                log, (episode, stage, state, action if dead else "treat", reward if dead else 1.0), strict=True
            ):
                log[name].append(cell)
    return log


def test_a_registry_with_a_final_row_per_death_and_cut_episodes_can_be_fitted():
    """It was unreadable (an empty action), or it promised nothing and blamed an action that was tried hundreds of times."""
    log = registry(died=6, cut=10)
    steps = order_episodes(read_columns(log), None, "truncated", ["Dead"])
    assert (steps.H, steps.T, steps.state.size) == (3, 36, 92)
    assert steps.truncated.tolist() == [False] * 6 + [True] * 10 + [False] * 20
    assert steps.returns(1.0).tolist() == [2.0] * 6 + [3.0] * 20
    estimate = bqrl.fit(log, ends="truncated", absorbing=["Dead"], stationary=True, reward_range=(0, 1))
    dead, well = (estimate.mdp.state_names.index(name) for name in ("Dead", "Well"))
    successor, probability, _ = estimate.mdp.outcomes(0, well, 0)
    # 36 first steps and 26 second ones have a successor; the last stage does not
    assert dict(zip(successor.tolist(), probability.tolist(), strict=True))[dead] == 6 / 62
    assert estimate.mdp.outcomes(0, dead, 0)[0].tolist() == [dead]
    assert estimate.solve(tau=0.9).value > 0.0
    assert "'Dead' is never left and without reward" in estimate.assumptions


def test_a_declared_absorbing_state_equals_one_that_complete_episodes_name():
    """Without cut episodes, the log with final rows and the log with next states give the same model."""
    log = registry(died=6, cut=0)
    named = {
        name: [cell for cell, s in zip(column, log["state"], strict=True) if s != "Dead"]
        for name, column in log.items()
    }
    after = [*log["state"][1:], "Well"]
    last = [log["episode"][i] != e for i, e in enumerate([*log["episode"][1:], -1])]
    named["next_state"] = ["" if end else t for t, end, s in zip(after, last, log["state"], strict=True) if s != "Dead"]
    options = {"reward_range": (0, 1), "horizon": 3}
    declared, other = bqrl.fit(log, absorbing=["Dead"], **options), bqrl.fit(named, **options)
    assert declared.mdp.rows() == other.mdp.rows()
    assert np.array_equal(declared.radii, other.radii)


def test_an_end_mark_on_the_row_of_death_does_not_matter():
    log = registry(died=6, cut=10)
    marks = [("terminal" if s == "Dead" else "") for s in log["state"]]
    plain = order_episodes(read_columns(log), None, "truncated", ["Dead"])
    marked = order_episodes(read_columns(log | {"end": marks}), None, None, ["Dead"])
    assert np.array_equal(plain.next_state, marked.next_state)
    assert np.array_equal(plain.truncated, marked.truncated)


@pytest.mark.parametrize(
    ("log", "given", "words"),
    [
        (registry(died=2, cut=2), "Dead", "absorbing must be a list of states, got 'Dead'"),
        (registry(died=2, cut=2), ["Daed"], "absorbing must name states of the log, got 'Daed'; did you mean 'Dead'"),
        (
            registry(died=2, cut=2, reward=-5.0),
            ["Dead"],
            "expected the reward 0, got -5 in state 'Dead', which is declared",
        ),
        (registry(died=2, cut=2, action="x"), ["Well"], "expected an episode that begins in another state, got 'Well'"),
        (registry(died=2, cut=2), [], "got an empty cell; if the state 'Dead' is never left, declare it absorbing"),
    ],
)
def test_bad_absorbing_states_are_one_line(log, given, words):
    with pytest.raises((ValueError, TypeError), match=words):
        order_episodes(read_columns(log), None, "truncated", given)


def test_an_absorbing_state_that_is_left_is_refused():
    log = {"episode": [0, 0, 0, 1], "state": ["a", "b", "a", "a"], "action": ["x"] * 4, "reward": [0.0] * 4}
    with pytest.raises(ValueError, match="row 1, column 'state': expected no other state to follow, got one after 'b'"):
        order_episodes(read_columns(log), None, None, ["b"])


def test_one_last_row_of_a_state_that_is_never_left_is_named():
    """The message proposed to call the deaths cut off."""
    log = {
        "episode": [0, 0, 1, 1, 2, 2, 2],
        "state": ["Well", "Dead"] * 2 + ["Well"] * 3,
        "action": ["x"] * 7,
        "reward": [0.0] * 7,
    }
    log |= {"next_state": ["Dead", "Dead"] * 2 + ["Well"] * 3}
    with pytest.raises(
        FileFormatError, match="if 'Dead' is never left, declare it absorbing, else declare ends as truncated"
    ):
        bqrl.fit(log, reward_range=(0, 1))
    assert bqrl.fit(log, reward_range=(0, 1), absorbing=["Dead"]).episodes == 3
