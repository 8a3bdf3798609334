"""Tables by column name, and the one line that each fault is answered with."""

# ruff: noqa: E501  (a bad table and its answer stay on one line)

import numpy as np
import pytest
from mdp_strategies import assert_same

from bqrl import MDP
from bqrl.errors import ArgumentError, ModelError, ModelWarning
from bqrl.mdp.columns import match_columns

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


def test_stages_in_a_column():
    staged = {"stage": [1, 2], "s": [0, 0], "a": [0, 0], "to": [0, 0], "p": [1, 1], "r": [3, 4]}
    mdp = MDP(staged)
    assert (mdp.H, mdp.reward.tolist()) == (2, [[3.0, 4.0]])


@pytest.mark.parametrize(
    "header",
    [
        "idstatefrom,idaction,idstateto,probability,reward",
        "S,A,S',P,R",
        "From,Action,To,Prob,Reward",
        "s,a,next,p,rewards",
    ],
)
def test_usual_names_are_recognised(header):
    assert list(match_columns(header.split(","), None).values()) == [0, 1, 2, 3, 4]


def test_other_columns_are_ignored_with_a_notice():
    with pytest.warns(ModelWarning, match=r"^columns ignored: 'note'$"):
        MDP(TABLE | {"note": ["x", "y", "z"]}, horizon=2)


FAULTS = [
    ("a missing column", lambda: MDP(table(reward=None), horizon=2), "there is no column for the reward", "reward"),
    ("its nearest header", lambda: MDP(table(reward=None, rewrd=[1, 2, 3]), horizon=2), "is it 'rewrd'?", "reward"),
    ("two candidates", lambda: MDP(table(state=None, s=["x"] * 3, source=["x"] * 3), horizon=2), "could both hold the state", "state"),
    ("mixed ids", lambda: MDP(table(state=["Well", "1", "Sick"]), horizon=2), "row 0: the state 'Well' is a name where other states are numbers", "state"),
    ("an empty id", lambda: MDP(table(next_state=["Sick", "", "Well"]), horizon=2), "row 1: the state is empty", "next_state"),
    ("an unknown name", lambda: MDP(TABLE, horizon=2, state_names=["Well", "Sik"]), "row 2: there is no state 'Sick'; did you mean 'Sik'?", "state"),
    ("ids from 2", lambda: MDP(table(state=[2, 2, 3], next_state=[3, 2, 2]), horizon=2), "the smallest state id is 2", "state"),
    ("half an id", lambda: MDP(table(action=[0.5, 0.5, 1]), horizon=2), "row 0: the action must be a name or a whole number", "action"),
    ("a NaN id", lambda: MDP(table(action=[0.0, 0.0, np.nan]), horizon=2), "row 2: the action is empty", "action"),
    ("percentages", lambda: MDP(table(probability=[25, 75, 100]), horizon=2), "the row sums to 100: percentages? divide them by 100", "probability"),
    ("a negative probability", lambda: MDP(table(probability=[-0.25, 1.25, 1]), horizon=2), "row 0: the probability must be a number in [0, 1]", "probability"),
    ("a row below 1", lambda: MDP(table(probability=[0.25, 0.5, 1]), horizon=2), "row 0: row (s=Well, a=wait) sums to 0.75", "probability"),
    ("a row twice", lambda: MDP({k: [*v, v[2]] for k, v in TABLE.items()}, horizon=2), "rows 2 and 3 both give (s=Sick, a=cure, s'=Well)", None),
    ("a word for a number", lambda: MDP(table(reward=[1, "two", 3]), horizon=2), "is not a number (column reward)", "reward"),
    ("an infinite reward", lambda: MDP(table(reward=[1, np.inf, 3]), horizon=2), "row 1: the reward must be a finite number, got inf", "reward"),
    ("columns of two lengths", lambda: MDP(table(reward=[1, 2]), horizon=2), "must be of one length", None),
    ("no rows", lambda: MDP({name: [] for name in TABLE}, horizon=2), "at least one transition", None),
    ("a matrix for a column", lambda: MDP(table(reward=[[1], [2], [3]]), horizon=2), "must be a flat list", "reward"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "phrase", "column"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS])
def test_a_bad_table_gets_one_line(call, phrase, column):
    with pytest.raises(ModelError) as caught:
        call()
    assert phrase in str(caught.value)
    assert caught.value.column == column
    assert len(str(caught.value).splitlines()) == 1


ARGUMENTS = [
    ("an unknown role", {"columns": {"stat": "state"}}, "got 'stat'; did you mean 'state'?"),
    ("an unknown header", {"columns": {"state": "stte"}}, "there is no column 'stte'; did you mean 'state'?"),
    ("one column for two roles", {"columns": {"state": "state", "next_state": "state"}}, "a column of its own"),
    ("columns without a table", {"transitions": [(0, 0, 0, 1, 0)], "columns": {"state": "s"}}, "with a table"),
    ("rewards beside a table", {"rewards": [[1.0]]}, "rewards must be omitted with a table"),
    ("an unknown first state", {"start": {"Wel": 1.0}}, "there is no state 'Wel'; did you mean 'Well'?"),
    ("a start in percentages", {"start": {"Well": 80, "Sick": 20}}, "sum 100: percentages?"),
    ("a start below 1", {"start": {"Well": 0.8}}, "the sum 0.8"),
    ("a negative share", {"start": {"Well": 1.5, "Sick": -0.5}}, "start['Sick'] must be a number in [0, 1e+06]"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "phrase"), [row[1:] for row in ARGUMENTS], ids=[row[0] for row in ARGUMENTS])
def test_bad_options_of_a_table_get_one_line(options, phrase):
    with pytest.raises(ArgumentError) as caught:
        MDP(**{"transitions": TABLE, "horizon": 2} | options)
    assert phrase in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
