"""The decisions of a policy: its table for people, and its file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.model import MDP
from bqrl.planners.plan import Plan
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import THIS_MODEL, Policy
from bqrl.policies.rule_table import rule_table
from bqrl.policies.tables import decision_rows
from bqrl.results.result import ResultTable, saved_bytes
from bqrl.results.words import Words, sentence

MAX_WIDE = 30  # columns of an overview table (states by stages)
MAX_SENTENCES = 5  # that describe a rule
MAX_TEXT = 600  # signs of these sentences; a longer rule is read in its table


def rule_overview(plan: Plan, words: Words, whole: bool = False) -> ResultTable | None:
    """The rule of a plan without memory, as a table of states by stages; None if it has memory.

    Also None if it has too many columns to be shown, unless `whole` is true.
    """
    if plan.mdp is None or not isinstance(plan.policy, MarkovPolicy):
        return None
    rows = rule_table(plan.mdp, plan, stage=words.stage).rows()
    if not whole and len(rows[0]) > MAX_WIDE + 1:
        return None
    caption = f"{plan.objective.label}: the {words.action} by {words.state} and {words.stage}, with equal ones joined."
    return ResultTable(rows, titles={"state": words.state}, caption=sentence(caption))


def rule_sentences(plan: Plan, words: Words) -> list[str]:
    """The rule of a plan in words, if it was planned as a rule and few sentences say it."""
    if plan.mdp is None or "rule" not in plan.details or not isinstance(plan.policy, MarkovPolicy):
        return []
    found = rule_table(plan.mdp, plan, stage=words.stage).sentences()
    short = len(found) <= MAX_SENTENCES and sum(map(len, found)) <= MAX_TEXT
    return [sentence(line) for line in found] if short else []


def policy_files(
    policy: Policy, mdp: MDP, words: Words, name: str, caption: str, tables: dict[str, ResultTable],
    files: dict[str, bytes], when: Mapping[str, Any] | None = None,
) -> list[str]:  # fmt: skip
    """Add a policy to `files` and its decisions to `tables`; returns a line for each that cannot be written."""
    left_out = list[str]()
    try:
        files[f"{name}.npz"] = _policy_bytes(policy, mdp)
    except (SizeError, PolicyError) as fault:
        left_out.append(f"{name}.npz is not written: {fault}")
    try:
        tables[name] = decision_table(policy, mdp, words, caption, when)
    except (SizeError, PolicyError) as fault:
        held = f"; {name}.npz holds the policy" if f"{name}.npz" in files else ""
        left_out.append(f"{name}.csv is not written: {fault}{held}")
    return left_out


def _policy_bytes(policy: Policy, mdp: MDP) -> bytes:
    """The file of a policy; one that computes its tables on demand is stored as its labels."""
    try:
        return saved_bytes(policy)
    except SizeError:
        return saved_bytes(policy.to_labels(mdp))


def decision_table(
    policy: Policy, mdp: MDP, words: Words, caption: str = "", when: Mapping[str, Any] | None = None
) -> ResultTable:
    """The decisions of a policy, one row per situation that can occur."""
    ends = {"earned": "earned so far", "need": "still needed"}
    titles = {f"{key}_{end}": words.titled(f"{title}: {end}") for key, title in ends.items() for end in ("from", "to")}
    titles |= {"target": words.titled("target"), "probability": "probability that it occurs"}
    titles |= {"next_state": f"next {words.state}", "next_label": "next label"}
    titles |= {"state": words.state, "action": words.action}
    said = f"{caption}the decision to follow in each situation that can occur; the column {words.stage} counts from 1"
    rows = decision_rows(policy, mdp, stage=words.stage, rewards=THIS_MODEL)
    if rows and "earned_from" in rows[0]:
        said += f". If a {words.state} has several rows, follow the row whose range contains what was earned so far"
    return ResultTable(rows, titles=titles, caption=sentence(said), when=when or {})
