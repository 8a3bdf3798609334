"""Columns of tables: usual headers, the caller's choice, the nearest header where one is missing, and labels."""

import warnings

import numpy as np
import pytest

from bqrl.errors import ArgumentError, ArgumentTypeError, ModelError, ModelWarning
from bqrl.mdp.columns import LOG, MODEL, code_labels, label_text, match_columns, warn_of_costs
from bqrl.mdp.files.sources import frame_columns

USUAL = list(MODEL.required)


@pytest.mark.parametrize(
    "header",
    [
        "idstatefrom,idaction,idstateto,probability,reward",
        "S,A,S',P,R",
        "From,Action,To,Prob.,Reward",
        "s,a,next,p,rewards",
        "Current State,Decision,Next-State,Chance,Payoff",
        "start.state,action,end.state,probability,reward",
        "source,action,target,p,r",
        "s,a,sp,p,r",
    ],
)
def test_usual_names_are_recognised(header):
    assert match_columns(header.split(","), MODEL) == dict(zip(USUAL, range(5), strict=True))


@pytest.mark.parametrize("kind", [MODEL, LOG])
def test_no_name_stands_for_two_roles(kind):
    names = [name for role in kind.roles for name in kind.names(role)]
    assert len(set(names)) == len(names)


def test_the_roles_own_name_wins_over_a_synonym():
    assert match_columns([*USUAL[:4], "reward", "stage"], MODEL)["stage"] == 5
    with pytest.warns(ModelWarning, match="columns ignored: 'payoff'"):
        assert match_columns(["payoff", *USUAL], MODEL)["reward"] == 5


def test_other_columns_are_ignored_with_one_notice():
    with pytest.warns(ModelWarning, match=r"^columns ignored: 'a1', 'a2', 'a3', 'a4', 'a5', \.\.\.$"):
        match_columns([*USUAL, "a1", "a2", "a3", "a4", "a5", "a6"], MODEL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        match_columns([*USUAL, "", " "], MODEL)  # cells without a header are no columns


def test_a_column_that_ends_episodes_is_not_ignored_in_silence():
    with pytest.warns(
        ModelWarning, match="columns ignored: 'Done'; an episode ends in a state that leads back to itself"
    ):
        match_columns([*USUAL, "Done"], MODEL)


def test_a_column_of_laws_means_nothing_without_events():
    with pytest.warns(ModelWarning, match=r"^columns ignored: 'law'$"):
        assert "law" not in match_columns([*USUAL, "law"], MODEL)
    assert match_columns([*USUAL, "law", "event"], MODEL)["law"] == 5


def test_the_caller_chooses_in_any_case():
    header = ["here", "what", "There", "how likely", "gain"]
    chosen = {"state": "here", "action": "What", "next_state": "there", "probability": "how likely", "reward": "gain"}
    assert list(match_columns(header, MODEL, chosen).values()) == [0, 1, 2, 3, 4]


FAULTS = [
    (["state", "action", "next_state", "probability"], "expected a column for the reward, got none", "reward"),
    ([*USUAL[:4], "rewrd"], "expected a column for the reward, got 'rewrd'", "reward"),
    ([*USUAL[:4], "x", "y"], "expected a column for the reward, got 'x', 'y'", "reward"),
    (
        ["A", "x", "A", "1", "0"],
        ",probability,reward, got 'A', 'x', 'A', '1', '0'; add this line, or give the headers",
        None,
    ),
    (
        [*USUAL[:4], "cost", "qaly"],
        "got 'cost', 'qaly'; map reward to a header with columns, and negate costs",
        "reward",
    ),
    (["s a sp p r"], "got 's a sp p r'; separate the columns by commas, semicolons or tabs", None),
    (USUAL[1:], "for the state, got none; add it", "state"),  # next_state is taken and not the nearest header
    (["s", "source", *USUAL[1:]], "expected one column for the state, got 's' and 'source'", "state"),
    ([*USUAL, "reward"], "expected distinct headers, got 'reward' twice; rename one of them", "reward"),
]


@pytest.mark.parametrize(("header", "phrase", "column"), FAULTS)
def test_a_bad_header_gets_one_line(header, phrase, column):
    with pytest.raises(ModelError) as caught:
        match_columns(header, MODEL)
    assert phrase in str(caught.value)
    assert caught.value.column == column


@pytest.mark.parametrize(
    ("header", "cost"),
    [
        *((header, True) for header in ("cost", "Costs", "Total cost", "stagecost", "TotalCost", "cost_eur", "cost (EUR)")),
        *((header, True) for header in ("cost per QALY", "cost_of_treatment", "loss", "operating_expenses", "penalty")),
        *((header, False) for header in ("qaly_minus_cost", "net_benefit", "revenue - cost", "revenue-cost", "less costs")),
        *((header, False) for header in ("reward net of cost", "cost_savings", "costBenefit", "cost effectiveness", "reward")),
    ],
)  # fmt: skip
def test_a_difference_that_mentions_costs_is_no_cost(header, cost):
    """Once "qaly_minus_cost" got the advice to negate costs, which turns the problem round."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_costs(header, np.array([-1.0, 2.0]))
    assert ["negate costs" in str(one.message) for one in caught] == [True] * cost


CHOICES = [
    ({"stat": "state"}, "got 'stat'; did you mean 'state'?"),
    ({"state": "stte"}, "columns must name headers of the table, got 'stte'; did you mean 'state'?"),
    ({"state": "state", "next_state": "state"}, "columns must give each role a column of its own"),
]


@pytest.mark.parametrize(("columns", "phrase"), CHOICES)
def test_a_bad_choice_gets_one_line(columns, phrase):
    with pytest.raises(ArgumentError) as caught:
        match_columns(USUAL, MODEL, columns)
    assert phrase in str(caught.value)
    assert caught.value.name == "columns"


def test_columns_must_be_a_dict():
    with pytest.raises(ArgumentTypeError, match=r"columns must be a dict such as \{'state': 'from'\}, got 'state'"):
        match_columns(USUAL, MODEL, "state")


# -- labels ------------------------------------------------------------------------------------------------------------


def test_labels_that_mean_the_same_are_one():
    found = code_labels([3, "3", 3.0, np.float32(3), " 3 ", "x", None, float("nan"), "", 2.5, [1], [1]])
    assert found.labels == ["3", "x", "", "2.5", "[1]"]
    assert found.code.tolist() == [0, 0, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4]


def test_missing_values_of_pandas_are_empty():
    pandas = pytest.importorskip("pandas")
    assert [label_text(cell) for cell in (pandas.NA, pandas.NaT, 1e300, -0.0)] == ["", "", "1e+300", "0"]


def test_two_columns_with_one_header_are_both_listed():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1, 2]], columns=["s", "s"])
    assert [header for header, _ in frame_columns(frame)] == ["s", "s"]


def test_arrays_that_differ_are_different_labels():
    """The text of an array has 8 digits and leaves out the middle of long ones, so that states were once merged."""
    close = [np.array([0.1, 1.0]), np.array([0.1 + 1e-12, 1.0])]
    long = [np.zeros(3000), np.eye(1, 3000, 1500)[0]]
    for cells in (close, long):
        assert code_labels(cells).code.tolist() == [0, 1]
    assert label_text(np.array([1, 2])) == label_text([1, 2]) == "[1, 2]"


def test_an_index_that_repeats_a_column_is_left_alone():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"state": ["x"], "action": ["go"], "next_state": ["x"], "probability": [1.0], "reward": [2.0]})
    for index in ("state", ["state", "action"]):
        assert [header for header, _ in frame_columns(frame.set_index(index, drop=False))] == list(frame)


def test_a_log_in_place_of_a_model_names_the_function_for_it():
    with pytest.raises(ModelError, match=r"for the probability, got 'episode'; read a log of episodes with bqrl\.fit"):
        match_columns(["episode", "state", "action", "reward", "next_state"], MODEL)
