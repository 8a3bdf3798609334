"""Rules as people write them: every form gives the same actions, and every fault has its line."""

import csv

import numpy as np
import pandas as pd
import pytest

import bqrl
from bqrl import evaluate, simulate
from bqrl.errors import FileFormatError, ModelWarning, PolicyError
from bqrl.policies.convert import bind
from bqrl.policies.rule_forms import _range_of

# Down has one action; Good and Poor have two.
ROWS = [
    ("Good", "wait", "Good", 0.7, 10.0), ("Good", "wait", "Poor", 0.3, 10.0), ("Good", "repair", "Good", 1.0, 4.0),
    ("Poor", "wait", "Poor", 0.5, 6.0), ("Poor", "wait", "Down", 0.5, 6.0), ("Poor", "repair", "Good", 1.0, -3.0),
    ("Down", "replace", "Good", 1.0, -9.0),
]  # fmt: skip
COLUMNS = ("state", "action", "next_state", "probability", "reward")
MODEL = bqrl.MDP([dict(zip(COLUMNS, row, strict=True)) for row in ROWS], horizon=6, start="Good")
WAIT, REPAIR = (MODEL.action_names.index(name) for name in ("wait", "repair"))


def rule(late=4):
    """Wait when good; repair when poor before stage `late` (from 0), then wait."""
    return lambda h, s: {"Good": WAIT, "Poor": REPAIR if h < late else WAIT, "Down": 2}[MODEL.state_label(s)]


def same(one, other):
    assert evaluate(MODEL, one).equals(evaluate(MODEL, other), 0.0)
    assert np.array_equal(simulate(MODEL, one, 50, seed=3), simulate(MODEL, other, 50, seed=3))


LONG = "state,action,stage\nGood,wait,\nPoor,repair,1-4\nPoor,wait,from week 5 on\n"
ALWAYS = rule(late=99)
FORMS = {
    "a dict of names": ({"Good": "wait", "Poor": "repair"}, ALWAYS),
    "a dict of indices": ({0: WAIT, 1: REPAIR, 2: 2}, ALWAYS),
    "a dict of names to indices": ({"Good": WAIT, "Poor": REPAIR}, ALWAYS),
    "a list of names": (["wait", "repair", "replace"], ALWAYS),
    "names by stage": ([["wait", "repair", "replace"]] * 4 + [["wait", "wait", "replace"]] * 2, rule()),
    "an array of names": (np.array(["wait", "repair", "replace"]), ALWAYS),
    "a list of dicts": ([{"state": "Good", "action": "wait"}, {"state": "Poor", "action": "repair"}], ALWAYS),
    "a dict of columns": ({"state": ["Good", "Poor"], "action": ["wait", "repair"]}, ALWAYS),
    "a frame": (pd.DataFrame({"state": ["Good", "Poor"], "action": ["wait", "repair"]}), ALWAYS),
    "a frame with stages": (
        pd.DataFrame({"s": ["Good", "Poor", "Poor"], "a": ["wait", "repair", "wait"], "month": ["", "1-4", "5-"]}),
        rule(),
    ),
    "an action that exists in few states": ("always:wait", lambda h, s: 2 if MODEL.state_label(s) == "Down" else WAIT),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_the_rule_that_it_says(name):
    same(*FORMS[name])


FILES = {
    "long": LONG,
    "with semicolons and a byte order mark": '\ufeffState;Action;Week\n"Good";wait;all\nPoor;repair;1-4\nPoor;wait;5+\n\n',
    "with comments": "sep=,\n# rule\nstate,action,stage\nGood,wait,1 to 6\nPoor,repair,up to 4\nPoor,wait,5\nPoor,wait,6\n",
    "wide": "state,weeks 1-4,weeks 5-6\nGood,wait,wait\nPoor,repair,wait\nDown,replace,\n",
    "by stage": "state,1,2,3,4,5,6\nGood,wait,wait,wait,wait,wait,wait\nPoor,,repair,repair,repair,wait,wait\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_csv_file_is_a_rule(name, tmp_path):
    path = tmp_path / "rule.csv"
    path.write_text(FILES[name], encoding="utf-8")
    same(path, rule())
    same(str(path), rule())


def test_a_sheet_is_a_rule(tmp_path):
    pytest.importorskip("openpyxl")
    rows = {"state": ["Good", "Poor", "Poor"], "action": ["wait", "repair", "wait"], "week": ["", "1-4", "5-"]}
    pd.DataFrame(rows).to_excel(tmp_path / "rule.xlsx", index=False)
    same(tmp_path / "rule.xlsx", rule())
    bqrl.rule_table(MODEL, rule()).save(tmp_path / "wall.xlsx")
    same(tmp_path / "wall.xlsx", rule())


def test_files_that_bqrl_wrote_are_rules(tmp_path):
    target = bqrl.solve(MODEL, 0.3)
    policy = bqrl.solve(MODEL, 0.3, planner="expected").policy
    policy.save(tmp_path / "policy.npz")
    target.policy.save(tmp_path / "target.npz")
    same(tmp_path / "policy.npz", policy)
    assert evaluate(MODEL, str(tmp_path / "target.npz")).equals(target.law, 0.0)
    bqrl.rule_table(MODEL, policy, stage="week").save(tmp_path / "wall.csv")
    same(tmp_path / "wall.csv", policy)
    bqrl.rule_table(MODEL, policy).save(tmp_path / "comma.csv", decimal=",")
    same(tmp_path / "comma.csv", policy)
    rows = policy.table(MODEL)  # lists only the states that this policy meets
    with (tmp_path / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    same(tmp_path / "table.csv", policy)
    same(rows, policy)
    assert "earned_from" in target.policy.table(MODEL)[0]
    with pytest.raises(PolicyError, match=r"whose actions depend on more; save the policy as \.npz"):
        evaluate(MODEL, target.policy.table(MODEL))


def test_random_draws_each_available_action_with_the_same_probability():
    shares = MODEL.available[0] / MODEL.available[0].sum(axis=1, keepdims=True)
    assert evaluate(MODEL, "random").equals(evaluate(MODEL, shares), 0.0)


def test_states_are_values_before_they_are_indices():
    def step(stock, order, demand):
        return max(min(stock + order, 4) - demand, 1), float(min(stock + order, demand)) - 0.25 * order

    mdp = bqrl.from_step(step, [0, 2], {1: 0.5, 2: 0.5}, horizon=3, start=4)
    assert mdp.state_values[:2] == (1, 2)
    _, by_value = bind(mdp, {stock: "2" if stock < 3 else "0" for stock in mdp.state_values})
    low = [i for i, stock in enumerate(mdp.state_values) if stock < 3]
    met = mdp.reachable[:-1]
    assert np.array_equal(by_value.actions[met] == 1, np.isin(np.arange(mdp.S), low)[None, :].repeat(3, 0)[met])
    by_name = bind(mdp, {str(stock): "2" if stock < 3 else "0" for stock in mdp.state_values})[1]
    assert np.array_equal(by_name.actions, by_value.actions)


def test_a_number_that_a_spreadsheet_shortened_is_the_same_name(tmp_path):
    rows = [("0.50", "1.0", "0.50", 1.0, 1.0), ("0.50", "2.0", "0.50", 1.0, 2.0)]
    names = {"state_names": ["0.50"], "action_names": ["1.0", "2.0"]}
    mdp = bqrl.MDP([dict(zip(COLUMNS, row, strict=True)) for row in rows], horizon=2, **names)
    (tmp_path / "rule.csv").write_text("state,action\n0.5,2\n")
    assert evaluate(mdp, tmp_path / "rule.csv").mean() == 4.0


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("7", (7, 7)), ("week 7", (7, 7)), ("1-8", (1, 8)), ("1 \N{EN DASH} 8", (1, 8)), ("weeks 1 to 8", (1, 8)),
        ("from week 1 to week 8", (1, 8)), ("9-", (9, None)), ("9+", (9, None)), ("from week 9 on", (9, None)),
        ("From 9 onwards", (9, None)), ("until 8", (None, 8)), ("up to week 8", (None, 8)), ("-8", (None, 8)),
        ("", (None, None)), ("all", (None, None)), ("8-Jan", None), ("08-01", None), ("Jan-08", None), ("1.5", None),
        ("soon", None), ("1-2-3", None), ("a b 3", None),
    ],
)  # fmt: skip
def test_ranges_of_stages(text, ends):
    assert _range_of(text) == ends


def test_columns_under_headers_of_ones_own_are_recognised_by_their_cells():
    rows = [
        {"Condition": "Good", "Decision": "wait", "Week": "1-6"},
        {"Condition": "Poor", "Decision": "repair", "Week": ""},
    ]
    expected = bind(MODEL, {"Good": "wait", "Poor": "repair"})[1].actions
    assert np.array_equal(bind(MODEL, rows)[1].actions, expected)
    renamed = [dict(zip(("Zustand", "Was tun", "Woche"), row.values(), strict=True)) for row in rows]
    listed = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    german = bqrl.MDP(listed, horizon=6, start="Good", words={"stage": "Woche"})
    assert np.array_equal(bind(german, renamed)[1].actions, expected)
    renamed[0]["Zustand"] = "Goood"
    with pytest.raises(PolicyError, match="got 'Goood'; did you mean 'Good'"):
        bind(german, [*renamed, renamed[1]])
    half = [dict(zip(("Zustand", "Was tun"), row, strict=True)) for row in (("Good", "wiat"), ("Poor", "repair"))]
    with pytest.raises(PolicyError, match="got 'wiat'; did you mean 'wait'"):
        bind(MODEL, half)


FAULTS = {
    "a missing state": ({"Good": "wait"}, "every state with several actions that it meets, got none for Poor"),
    "an unknown state": ({"Goood": "wait"}, "must name a state of the model, got 'Goood'; did you mean 'Good'?"),
    "an unknown action": (
        {"Good": "wiat", "Poor": "repair"},
        "must name an action of the model, got 'wiat'; did you mean 'wait'?",
    ),
    "two actions for a state": ({"Good": "wait", 0: "repair"}, "must name a state of the model, got '0'"),
    "an index beyond the last": ({0: 7, 1: 0}, "must name an action of the model, got '7'"),
    "too few names": (
        ["wait", "repair"],
        r"must have one action per state \(3\), or one such list per stage \(6\), got shape \(2,\)",
    ),
    "always what some states do not have": (
        "always:replace",
        "'always:replace' requires, in every state that it meets, this action or a single other one, got none for Good, Poor",
    ),
    "always an unknown action": ("always:reapir", "got 'reapir'; did you mean 'repair'"),
    "a missing column": (
        [{"state": "Good", "what": "sleep"}],
        "expected the columns state, action and optionally stage, got 'state', 'what'",
    ),
    "two columns for a role": (
        [{"s": "Good", "source": "Good", "action": "wait"}],
        "expected one column for the state, got 's' and 'source'",
    ),
    "a stage beyond the last": (
        [{"state": "Good", "action": "wait", "stage": "1-7"}],
        "row 0, column 'stage': stages must rise from 1 to at most 6, got '1-7'",
    ),
    "stages that fall": (
        [{"state": "Good", "action": "wait", "stage": "4-2"}],
        "row 0, column 'stage': stages must rise from 1 to at most 6, got '4-2'",
    ),
    "a date": (
        [{"state": "Good", "action": "wait", "stage": "8-Jan"}],
        "row 0, column 'stage': the stage must be a number or a range, got '8-Jan'; write a number",
    ),
    "a gap": (
        [{"state": "Good", "action": "wait", "stage": ""}, {"state": "Poor", "action": "wait", "stage": "3-"}],
        "got none for Poor at stage 2",
    ),
    "an overlap": (
        [{"state": "Good", "action": "wait", "stage": "1-4"}, {"state": "Good", "action": "repair", "stage": "4-6"}],
        "row 1, column 'action': expected one action for state Good at stage 4, got 'wait' and 'repair'; drop one of them",
    ),
    "an action that the state does not have": ({"Good": "replace", "Poor": "wait"}, "Good"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_its_line(name):
    given, message = FAULTS[name]
    with pytest.raises(PolicyError, match=message) as fault:
        evaluate(MODEL, given)
    assert "\n" not in str(fault.value)


def test_a_fault_in_a_file_names_the_file_and_the_line(tmp_path):
    path = tmp_path / "rule.csv"
    for content, message in (
        (
            LONG.replace("Poor,wait", "Pour,wait"),
            r"rule\.csv: line 4, column 'state': the rule must name a state of the model, got 'Pour'",
        ),
        (LONG.replace(",1-4", ""), r"rule\.csv: line 3: expected 3 columns as in the header, got 2"),
        ("", r"rule\.csv: expected a header such as state,action, got an empty file"),
        ("state,action\n", "got none for Good"),
    ):
        path.write_text(content)
        with pytest.raises(FileFormatError, match=message):
            evaluate(MODEL, path)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        evaluate(MODEL, tmp_path / "none.csv")


def test_a_column_without_a_role_is_announced(tmp_path):
    table = [{"state": "Good", "action": "wait", "why": "cheap"}, {"state": "Poor", "action": "repair", "why": "safe"}]
    with pytest.warns(ModelWarning, match="columns ignored: 'why'"):
        same(table, ALWAYS)


def test_a_bare_action_is_not_a_strategy():
    with pytest.raises(ValueError, match="got 'wait'; did you mean 'always:wait'\\?"):
        evaluate(MODEL, "wait")
