"""Tables of rules: joined stages, no blank cell that can occur, sentences, and files for spreadsheets."""

import sys

import numpy as np
import pytest

import bqrl

NAMES = ["Good", "Fair", "Poor"]


def machine(**names):
    wear = [(s, 0, min(s + 1, 2), 0.5, 2.0 - s) for s in range(3)] + [(s, 0, s, 0.5, 2.0 - s) for s in range(3)]
    labels = {"state_names": NAMES, "action_names": ["wait", "repair"]} | names
    return bqrl.MDP([*wear, *((s, 1, 0, 1.0, -1.0) for s in range(3))], horizon=6, **labels)


RULE = np.array([[0, 0, 1]] * 4 + [[0, 0, 0]] * 2)


def test_equal_stages_are_joined_and_nothing_that_can_occur_is_blank():
    rows = bqrl.rule_table(machine(), RULE, stage="week").rows()
    assert rows == [
        {"state": "Good", "weeks 1-4": "wait", "weeks 5-6": "wait"},
        {"state": "Fair", "weeks 1-4": "wait", "weeks 5-6": "wait"},
        {"state": "Poor", "weeks 1-4": "repair", "weeks 5-6": "wait"},
    ]
    never = np.ones((6, 3), int)  # the rule itself never leaves Good, but others can
    assert len(bqrl.rule_table(machine(), never).rows()) == 3


@pytest.mark.parametrize("seed", range(5))
def test_every_reachable_decision_stands_in_the_table(seed):
    mdp = bqrl.envs.make("TreatmentChoice")
    actions = np.sort(np.random.default_rng(seed).integers(0, mdp.A, (mdp.H, mdp.S)), axis=0)
    table = bqrl.rule_table(mdp, actions)
    by_state = {row["state"]: list(row.values())[1:] for row in table.rows()}
    for i, (first, last, _) in enumerate(table.runs()):
        for h in range(first, last + 1):
            for s in np.flatnonzero(mdp.reachable[h]):
                assert by_state[mdp.state_label(s)][i] == mdp.action_label(actions[h, s])


def test_sentences():
    assert bqrl.rule_table(machine(), RULE, stage="week").sentences() == [
        "weeks 1-4: wait up to Fair, repair in Poor",
        "in the last two weeks: always wait, never repair",
    ]
    mixed = bqrl.rule_table(machine(), [1, 0, 1], stage="Woche").sentences()
    assert mixed == [
        "Woche 1-6: repair in Good, Poor; wait in Fair"
    ]  # stages at which Poor cannot occur fit any action there
    turned = bqrl.rule_table(machine(), [0, 0, 1], order=["Poor", "Fair", "Good"]).sentences()
    assert turned[-1] == "in every stage: repair in Poor, wait from Fair on"


def test_a_sentence_does_not_give_an_action_to_a_state_without_a_choice():
    names = ("New", "Worn", "Poor", "Gone")
    rows = [(0, "wait", 1), (1, "wait", 2), (1, "mend", 0), (2, "wait", 3), (2, "mend", 0), (3, "scrap", 3)]
    columns = ("state", "action", "next_state", "probability", "reward")
    listed = [dict(zip(columns, (names[s], a, names[t], 1.0, 0.0), strict=True)) for s, a, t in rows]
    mdp = bqrl.MDP(listed, horizon=9, start="New")
    said = bqrl.rule_table(mdp, {"Worn": "wait", "Poor": "mend"}).sentences()
    assert said[-1].endswith("wait in Worn, mend in Poor")
    both = bqrl.rule_table(mdp, {"Worn": "mend", "Poor": "mend"}).sentences()
    assert both[-1].endswith("always mend")


@pytest.mark.parametrize(
    ("last", "said"), [(1, "in the last week: "), (3, "in the last three weeks: "), (4, "from week 3 on: ")]
)
def test_the_end_of_a_rule_is_named_by_its_length_if_that_is_short(last, said):
    actions = np.array([[0, 0, 1]] * (6 - last) + [[1, 1, 1]] * last)
    assert bqrl.rule_table(machine(), actions, stage="week").sentences()[-1] == f"{said}always repair, never wait"
    assert bqrl.rule_table(machine(), actions, stage="Woche").sentences()[-1].startswith("Woche ")
    assert bqrl.rule_table(machine(), [1, 1, 1]).sentences() == ["in every stage: always repair"]


def test_a_plan_brings_its_order():
    plan = bqrl.solve(machine(), tau=0.2, rule="threshold", order=["Poor", "Fair", "Good"])
    assert [row["state"] for row in bqrl.rule_table(machine(), plan).rows()] == ["Poor", "Fair", "Good"]


def test_csv_in_the_decimal_sign_of_the_user_and_without_formulas(tmp_path):
    mdp = machine(state_names=["0.5", "=cmd()", "-x"], action_names=["2.50000001", "@b"])
    table = bqrl.rule_table(mdp, [0, 0, 1], order=["0.5", "=cmd()", "-x"])
    table.save(tmp_path / "rule.csv")
    assert (tmp_path / "rule.csv").read_text().splitlines() == [
        "state,stages 1-6", "0.5,2.5", "'=cmd(),2.5", "'-x,'@b",
    ]  # fmt: skip
    table.save(tmp_path / "rule.csv", decimal=",")
    assert (tmp_path / "rule.csv").read_text().splitlines() == [
        "state;stages 1-6", "0,5;2,5", "'=cmd();2,5", "'-x;'@b",
    ]  # fmt: skip


def test_xlsx(tmp_path, monkeypatch):
    table, path = bqrl.rule_table(machine(action_names=["=1+1", "repair"]), RULE), tmp_path / "rule.xlsx"
    try:
        import openpyxl
    except ImportError:
        pass
    else:
        table.save(path)
        cells = [[cell.value for cell in row] for row in openpyxl.load_workbook(path).active.rows]
        assert cells[1] == ["Good", "'=1+1", "'=1+1"]
        path.unlink()
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        ImportError,
        match=r"an \.xlsx file needs openpyxl; install it with: pip install openpyxl, or save as \.csv",
    ):
        table.save(path)
    assert not path.exists()


def test_bad_arguments(tmp_path):
    with pytest.raises(ValueError, match=r"path must end in \.csv or \.xlsx, got rule\.txt"):
        bqrl.rule_table(machine(), RULE).save("rule.txt")
    with pytest.raises(ValueError, match="decimal must be one of"):
        bqrl.rule_table(machine(), RULE).save(tmp_path / "rule.csv", decimal=";")
    with pytest.raises(ValueError, match="policy must play one action per stage and state, got action probabilities"):
        bqrl.rule_table(machine(), np.full((3, 2), 0.5))
    with pytest.raises(TypeError, match="stage must be a word"):
        bqrl.rule_table(machine(), RULE, stage="")
    with pytest.raises(bqrl.errors.PolicyError, match="depends on its memory"):
        bqrl.rule_table("SafeOrRisky", bqrl.solve("SafeOrRisky", 0.1))


def test_the_word_for_a_stage_is_that_of_the_model():
    mdp = bqrl.MDP([(0, 0, 0, 1.0, 1.0)], horizon=3, words={"stage": "week"})
    assert bqrl.rule_table(mdp, [0]).sentences() == ["in every week: no decision"]
    assert bqrl.rule_table(mdp, [0], stage="day").sentences() == ["in every day: no decision"]
