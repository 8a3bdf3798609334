"""A policy as a file and a table of decisions."""

import bqrl
from bqrl.errors import SizeError
from bqrl.results import decisions
from bqrl.results.decisions import policy_files, rule_overview, rule_sentences
from bqrl.results.words import Words


def test_a_table_that_is_too_large_is_left_out_and_the_policy_is_not(monkeypatch):
    plan, tables, files = bqrl.solve("SafeOrRisky", tau=0.1), {}, {}
    assert policy_files(plan.policy, plan.mdp, Words(title="t"), "policy", "", tables, files, {"tau": 0.1}) == []
    assert tables["policy"].when == {"tau": 0.1}
    assert list(files) == ["policy.npz"]

    def refuse(*_, **__):
        raise SizeError("too many rows")

    monkeypatch.setattr(decisions, "decision_rows", refuse)
    (line,) = policy_files(plan.policy, plan.mdp, Words(title="t"), "other", "", tables, files)
    assert line == "other.csv is not written: too many rows; other.npz holds the policy"
    assert "other" not in tables
    assert "other.npz" in files


def test_rules_have_an_overview_and_few_sentences_and_policies_with_memory_have_none():
    words = Words(title="t", stage="week")
    rule = bqrl.solve("MachineReplacement", tau=0.1, rule="state")
    table = rule_overview(rule, words)
    assert table.columns == ["state", "weeks 1-15"]
    assert all(action is not None for row in table.rows for action in row.values())
    assert rule_sentences(rule, words)[0].startswith("In every week: ")
    memory = bqrl.solve("MachineReplacement", tau=0.1)
    assert rule_overview(memory, words) is None
    assert rule_sentences(memory, words) == []
    neutral = bqrl.solve("MachineReplacement", bqrl.Mean())
    assert rule_overview(neutral, words) is not None
    assert rule_sentences(neutral, words) == []
