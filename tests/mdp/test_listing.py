"""Tables of transitions, frames of any library included: ids, stages, events, and one line for every fault."""

# ruff: noqa: E501  (a bad table and its answer stay on one line)

import numpy as np
import pytest
from helpers import assert_one_line
from mdp_strategies import assert_same

from bqrl import MDP
from bqrl.errors import ArgumentError, ModelError, ModelWarning

TABLE = {
    "state": ["Well", "Well", "Sick"],
    "action": ["wait", "wait", "cure"],
    "next_state": ["Sick", "Well", "Well"],
    "probability": [0.25, 0.75, 1.0],
    "reward": [5, 5, -2],
}


def table(**changes):
    return {name: column for name, column in (TABLE | changes).items() if column is not None}


def test_given_names_fix_the_order():
    mdp = MDP(TABLE, horizon=2, state_names=["Sick", "Well", "Dead"], action_names=["cure", "wait"])
    assert (mdp.S, mdp.start) == (3, 0)
    assert mdp.outcomes(0, 1, 1)[0].tolist() == [0, 1]
    numbered = table(state=[1, 1, 0], next_state=[0, 1, 1])
    assert_same(mdp, MDP(numbered, horizon=2, state_names=["Sick", "Well", "Dead"], action_names=["cure", "wait"]))


def test_codes_with_leading_zeros_are_names_in_the_order_of_their_numbers():
    """In order of appearance, the first state of a table that lists them otherwise was once another one than before."""
    codes = {"state": ["02", "00", "01"], "action": ["00", "00", "00"], "next_state": ["01", "02", "00"],
             "probability": [1, 1, 1], "reward": [5, 7, 9]}  # fmt: skip
    mdp = MDP(codes, horizon=1)
    assert (mdp.state_names, mdp.action_names, mdp.reward.tolist()) == (("00", "01", "02"), ("00",), [[7.0, 9.0, 5.0]])
    apart = MDP(codes | {"state": ["1", "01", "2"], "next_state": ["1", "1", "01"]}, horizon=1)
    assert (apart.state_names, apart.reward.tolist()) == (("1", "01", "2"), [[5.0, 7.0, 9.0]])
    named = MDP(codes, horizon=1, state_names=["a", "b", "c"])  # the names of the numbers 0, 1 and 2
    assert (named.state_names, named.reward.tolist()) == (("a", "b", "c"), [[7.0, 9.0, 5.0]])


def test_stages_in_a_column():
    staged = {"stage": [1, 2], "s": [0, 0], "a": [0, 0], "to": [0, 0], "p": [1, 1], "r": [3, 4]}
    mdp = MDP(staged)
    assert (mdp.H, mdp.reward.tolist()) == (2, [[3.0, 4.0]])


def test_probabilities_in_percent():
    assert_same(MDP(table(probability=["25%", 0.75, "100 %"]), horizon=2), MDP(TABLE, horizon=2))


def test_a_column_of_costs_is_maximised_with_a_notice():
    costs = {**table(reward=None), "Cost": [5, 5, 2]}
    with pytest.warns(ModelWarning, match="the column 'Cost' is read as rewards, which are maximised; negate costs"):
        MDP(costs, horizon=2, columns={"reward": "Cost"})
    MDP(costs | {"Cost": [-5, -5, 0]}, horizon=2, columns={"reward": "Cost"})  # negated: no notice


FAULTS = [
    ("mixed ids", lambda: MDP(table(state=["Well", "1", "Sick"]), horizon=2), "row 0, column 'state': expected a number as for other states, got the name 'Well'", "state"),
    ("an empty id", lambda: MDP(table(next_state=["Sick", "", "Well"]), horizon=2), "row 1, column 'next_state': expected the state, got an empty cell", "next_state"),
    ("an unknown name", lambda: MDP(TABLE, horizon=2, state_names=["Well", "Sik"]), "row 2, column 'state': expected one of the named states, got 'Sick'; did you mean 'Sik'?", "state"),
    ("ids from 2", lambda: MDP(table(state=[2, 2, 3], next_state=[3, 2, 2]), horizon=2), "row 0, column 'state': expected state ids that begin at 0 or 1, got 2; renumber them, or list them as names with state_names", "state"),
    ("a name in another case", lambda: MDP(table(state=["Well", "Well", "sick"]), horizon=2), "row 0: state Sick, reachable at stage 2, must have an action, got none; did you mean 'sick'? if not, give it an action", None),
    ("half an id", lambda: MDP(table(action=[0.5, 0.5, 1]), horizon=2), "row 0, column 'action': expected a name or a whole number from 0 or 1, got '0.5'; list them as names with action_names", "action"),
    ("a NaN id", lambda: MDP(table(action=[0.0, 0.0, np.nan]), horizon=2), "row 2, column 'action': expected the action, got an empty cell; is the line complete? states without a choice need an action, too", "action"),
    ("percentages", lambda: MDP(table(probability=[25, 75, 100]), horizon=2), "the row sums to 100: percentages? divide them by 100", "probability"),
    ("counts", lambda: MDP(table(probability=[30, 90, 7]), horizon=2), "row 0, column 'probability': expected a probability in [0, 1], got 30; the row sums to 120: counts? divide them by their sum", "probability"),
    ("a decimal comma", lambda: MDP(table(probability=["0,25", "0,75", "1"]), horizon=2), "row 0, column 'probability': expected a number, got '0,25'; write it as 1234.5", "probability"),
    ("a decimal comma in a percentage", lambda: MDP(table(probability=["25%", "75,0 %", "1"]), horizon=2), "row 1, column 'probability': expected a number, got '75,0 %'", "probability"),
    ("stages from 5", lambda: MDP(table(stage=[5, 5, 5])), "row 0, column 'stage': expected stages as whole numbers from 0 or 1, got 5; subtract 5", "stage"),
    ("a column of stages without its role", lambda: MDP({k: v * 2 for k, v in TABLE.items()}, horizon=2), "the row sums to 2; if the model differs by stage, name the column of the stages with columns", None),
    ("a reward of minus infinity", lambda: MDP(table(reward=[5, 5, -np.inf]), horizon=2), "row 2, column 'reward': expected a finite reward, got -inf; leave out actions that do not exist", "reward"),
    ("a negative probability", lambda: MDP(table(probability=[-0.25, 1.25, 1]), horizon=2), "row 0, column 'probability': expected a probability in [0, 1], got -0.25", "probability"),
    ("a row below 1", lambda: MDP(table(probability=[0.25, 0.5, 1]), horizon=2), "row 0, column 'probability': row (s=Well, a=wait) must sum to 1, got 0.75", "probability"),
    ("a row twice", lambda: MDP({k: [*v, v[2]] for k, v in TABLE.items()}, horizon=2), "rows 2 and 3: expected distinct outcomes, got (s=Sick, a=cure, s'=Well) with reward -2 twice", None),
    ("a word for a number", lambda: MDP(table(reward=[1, "two", 3]), horizon=2), "row 1, column 'reward': expected a number, got 'two'", "reward"),
    ("a word among numbers as text", lambda: MDP(table(reward=["1", "2", "three"]), horizon=2), "row 2, column 'reward': expected a number, got 'three'", "reward"),
    ("an infinite reward", lambda: MDP(table(reward=[1, np.inf, 3]), horizon=2), "row 1, column 'reward': expected a finite reward, got inf", "reward"),
    ("columns of two lengths", lambda: MDP(table(reward=[1, 2]), horizon=2), "the columns of a table must have one length of at least 1, got {'action': 3, 'next_state': 3, 'probability': 3, 'reward': 2, ...}", None),
    ("no rows", lambda: MDP({name: [] for name in TABLE}, horizon=2), "expected at least one row, got no rows", None),
    ("a matrix for a column", lambda: MDP(table(reward=[[1], [2], [3]]), horizon=2), "must be a flat list", "reward"),
    ("lists in an array", lambda: MDP(table(reward=np.fromiter(([1], [2], [3]), object)), horizon=2), "must be a flat list, got [1]", "reward"),
    ("one label for a column", lambda: MDP(table(state="abc"), horizon=2), "must be a flat list, got 'abc'", "state"),
    ("one number for a column", lambda: MDP(table(reward=5), horizon=2), "must be a flat list, got 5", "reward"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "phrase", "column"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_bad_table_gets_one_line(call, phrase, column):
    assert_one_line(call, ModelError, phrase, column)


ARGUMENTS = [
    ("columns without a table", {"transitions": [(0, 0, 0, 1, 0)], "columns": {"state": "s"}}, "with a table"),
    ("rewards beside a table", {"rewards": [[1.0]]}, "rewards must not be given with a table, which has its own columns, got [[1.0]]"),
    ("an unknown first state", {"start": {"Wel": 1.0}}, "start must name a state, got 'Wel'; did you mean 'Well'?"),
    ("a start in percentages", {"start": {"Well": 80, "Sick": 20}}, "sum 100: percentages?"),
    ("a start below 1", {"start": {"Well": 0.8}}, "the sum 0.8"),
    ("a negative share", {"start": {"Well": 1.5, "Sick": -0.5}}, "start['Sick'] must be a number of at least 0, got -0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "phrase"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
def test_bad_options_of_a_table_get_one_line(options, phrase):
    assert_one_line(lambda: MDP(**{"transitions": TABLE, "horizon": 2} | options), ArgumentError, phrase)


def test_arrays_without_axes_are_numbers():
    assert MDP(table(reward=list(map(np.array, (1.0, 2.0, 3.0)))), horizon=2).reward.max() == 3.0


def test_names_are_a_list():
    assert_one_line(
        lambda: MDP(TABLE, horizon=2, state_names=1.5), TypeError, "state_names must be a list of names, got 1.5"
    )


# -- events ----------------------------------------------------------------------------------------------------------

SHARED = {
    "state": ["empty", "empty", "full", "full", "full"],
    "action": ["fill", "fill", "fill", "fill", "rest"],
    "event": ["rain", "dry", "dry", "rain", ""],
    "next_state": ["full", "empty", "full", "full", "full"],
    "probability": [0.3, 0.7, 0.7, 0.3, 1.0],
    "reward": [0, 0, 1, 2, 0],
}


def shared(**changes):
    return MDP(SHARED | changes, horizon=3)


def test_rows_with_events_share_one_law():
    mdp = shared()
    assert mdp.noise.events == (("rain", "dry"),)
    assert mdp.noise.probabilities[0].tolist() == [0.3, 0.7]
    assert mdp.noise.row_law.tolist() == [[[0, -1], [0, -1]]]
    assert mdp.noise.outcome_of(mdp.noise.row(0, 0, 0)).tolist() == [1, 0]  # rain fills, dry does not
    assert mdp.noise.outcome_of(mdp.noise.row(0, 1, 0)).tolist() == [1, 0]  # rain pays 2, dry 1
    without = MDP({name: column for name, column in SHARED.items() if name != "event"}, horizon=3)
    assert_same(mdp, without)


def test_events_that_lead_to_one_outcome_merge_and_leave_the_row_without_a_law():
    mdp = shared(next_state=["full", "full", "full", "full", "full"], state=["full"] * 5, action=[0, 0, 1, 1, 2])
    assert mdp.noise.row_law.tolist() == [[[-1, 0, -1]]]
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [1.0]


def test_a_column_of_laws_tells_two_laws_with_the_same_events_apart():
    mdp = shared(probability=[0.3, 0.7, 0.5, 0.5, 1.0], law=["north", "north", "south", "south", ""])
    assert mdp.noise.events == (("rain", "dry"), ("dry", "rain"))
    assert [p.tolist() for p in mdp.noise.probabilities] == [[0.3, 0.7], [0.5, 0.5]]
    assert mdp.noise.row_law[0, :, 0].tolist() == [0, 1]


def test_an_event_of_probability_zero_stays_possible():
    mdp = shared(probability=[0.0, 1.0, 1.0, 0.0, 1.0])
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [1.0, 0.0]


EVENT_FAULTS = [
    ("two probabilities", {"probability": [0.3, 0.7, 0.6, 0.4, 1.0]}, "row 2, column 'probability': expected the probability 0.7 of event 'dry' as in row 1, got 0.6; give rows with other probabilities another law in a column 'law', or rename the column"),
    ("an event twice", {"event": ["rain", "rain", "dry", "rain", ""], "probability": [0.5, 0.5, 0.5, 0.5, 1.0]}, "row 1, column 'event': expected each event of one law once per row, or no event in the whole row, got other events"),
    ("a line without its event", {"event": ["rain", "", "dry", "rain", ""]}, "row 0, column 'event': expected each event of one law once per row, or no event in the whole row, got other events"),
    ("an event that is missing", {"event": ["rain", "dry", "dry", "rain", "rain"], "probability": [0.3, 0.7, 0.7, 0.3, 0.3], "state": ["empty", "empty", "full", "full", "mud"], "next_state": ["full", "empty", "full", "full", "mud"]}, "row 4, column 'probability': row (s=mud, a=rest) must sum to 1, got 0.3"),
    ("an event of probability zero that is missing", {"event": ["rain", "dry", "dry", "rain", "hail"], "probability": [0.3, 0.7, 0.7, 0.3, 1.0]}, "row 4, column 'event': expected each event of one law once per row, or no event in the whole row, got other events"),
    ("two laws in a row", {"law": ["a", "b", "a", "a", ""]}, "row 1, column 'event': expected each event of one law once per row, or no event in the whole row, got other events"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "phrase"), [row[1:] for row in EVENT_FAULTS], ids=[row[0] for row in EVENT_FAULTS])
def test_bad_events_get_one_line(changes, phrase):
    assert_one_line(lambda: shared(**changes), ModelError, phrase)


# -- frames ------------------------------------------------------------------------------------------------------------


def pandas_frame(table):
    return pytest.importorskip("pandas").DataFrame(table)


def polars_frame(table):
    return pytest.importorskip("polars").DataFrame(table)


FRAMES = [dict, pandas_frame, polars_frame]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_is_a_model(frame):
    mdp = MDP(frame(TABLE), horizon=8, start={"Well": 0.8, "Sick": 0.2})
    assert mdp.state_names == ("Well", "Sick")
    assert mdp.action_names == ("wait", "cure")
    assert mdp.mu.tolist() == [0.8, 0.2]
    same = MDP([(0, 0, 1, 0.25, 5), (0, 0, 0, 0.75, 5), (1, 1, 0, 1.0, -2)], horizon=8, start=[0.8, 0.2])
    assert_same(mdp, same, but=("state_names", "action_names"))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("first", [0, 1])
def test_ids_that_are_numbers_count_from_0_or_1(frame, first):
    ids = {name: [TABLE[name].index(x) + first for x in TABLE[name]] for name in ("action",)}
    index = {"Well": first, "Sick": first + 1}
    ids |= {name: [index[x] for x in TABLE[name]] for name in ("state", "next_state")}
    mdp = MDP(frame(TABLE | ids | {"action": [first, first, first + 1]}), horizon=8)
    assert mdp.state_names == (("1", "2") if first else None)
    named = MDP(TABLE, horizon=8)
    assert_same(mdp, named, but=("state_names", "action_names"))


def test_ids_of_a_pandas_frame_with_gaps_in_its_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE, index=[7, 3, 9])
    assert_same(MDP(frame, horizon=2), MDP(TABLE, horizon=2))
    text = frame.astype({"state": "string", "action": "category"})
    assert_same(MDP(text, horizon=2), MDP(TABLE, horizon=2))


def test_missing_ids_are_empty():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE | {"next_state": ["Sick", None, "Well"]})
    for kind in ("object", "string"):
        with pytest.raises(ModelError, match="row 1, column 'next_state': expected the state, got an empty cell"):
            MDP(frame.astype({"next_state": kind}), horizon=2)
    whole = pandas.DataFrame(TABLE | {"action": [0, 0, 1]}).astype({"action": "Int64"})
    assert_same(MDP(whole, horizon=2), MDP(TABLE, horizon=2), but=("action_names",))


def test_ids_may_stand_in_a_named_index():
    frame = pandas_frame(TABLE)
    for index in ("state", ["state", "action", "next_state"]):
        assert_same(MDP(frame.set_index(index), horizon=2), MDP(TABLE, horizon=2))


def test_a_lazy_frame_is_collected():
    assert_same(MDP(polars_frame(TABLE).lazy(), horizon=2), MDP(TABLE, horizon=2))


def test_a_list_of_dicts_is_a_table():
    rows = [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
    assert_same(MDP(rows, horizon=2), MDP(TABLE, horizon=2))
    del rows[1]["next_state"]
    with pytest.raises(ModelError, match="row 1, column 'next_state': expected the state, got an empty cell"):
        MDP(rows, horizon=2)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_may_have_events(frame):
    events = TABLE | {"event": ["bad", "good", ""]}
    mdp = MDP(frame(events), horizon=2)
    assert mdp.noise.events == (("bad", "good"),)
    assert_same(mdp, MDP(TABLE, horizon=2))


def test_a_misspelt_action_is_named_with_the_row_that_it_splits():
    rows = {"state": ["a", "a", "a"], "action": ["order", "order", "ordr"], "next_state": ["a"] * 3}
    with pytest.raises(ModelError, match=r"a=ordr.*misspelt|a=order.*a=ordr.*misspelt"):
        MDP(rows | {"probability": [0.3, 0.4, 0.3], "reward": [0, 1, 2]}, horizon=2)
    with pytest.raises(ModelError) as other:
        MDP(rows | {"probability": [0.3, 0.4, 1.0], "reward": [0, 1, 2]}, horizon=2)
    assert "misspelt" not in str(other.value)
