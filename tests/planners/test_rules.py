"""Rules without memory: against all rules of small problems, in exact fractions, and the options of the search."""

import numpy as np
import pytest
import rule_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import LEVELS, random_mdp, small_mdps

import bqrl
from bqrl.planners.facts import RuleOrder

RULES = ("stage-state", "state", "threshold")
CAP = 200  # rules of a problem


def best_of(mdp, rule, score):
    """The best value of all rules of a kind; None if there are too many or none."""
    try:
        rules = rule_oracle.all_rules(mdp, rule, CAP)
    except ValueError:
        return None
    return max(map(score, rule_oracle.exact_laws(mdp, rules))) if rules else None


def is_of_kind(plan, mdp, rule):
    """Whether the policy of a plan is one of the rules of a kind."""
    played = {(h, s): int(plan.policy.actions[h, s]) for h, s, _ in rule_oracle.cells(mdp)}
    return played in rule_oracle.all_rules(mdp, rule, CAP)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=25)
@given(mdp=small_mdps(horizon=3), tau=st.sampled_from(LEVELS))
def test_a_rule_is_of_its_kind_and_never_above_the_best_one(rule, mdp, tau):
    best = best_of(mdp, rule, lambda law: rule_oracle.quantile(law, tau))
    if best is None:
        return
    plan = bqrl.solve(mdp, tau=float(tau), rule=rule)
    assert plan.value <= float(best) + 1e-9
    assert plan.value <= plan.upper
    assert is_of_kind(plan, mdp, rule)
    assert plan.law.equals(bqrl.evaluate(mdp, plan.policy))
    assert plan.upper == bqrl.solve(mdp, tau=float(tau)).upper


@pytest.mark.parametrize(
    ("rule", "kind"), [*((rule, "quantile") for rule in RULES), ("stage-state", "cvar"), ("threshold", "buffered")]
)
def test_the_best_rule_is_found_in_95_percent_of_random_problems(rule, kind):
    rng, hits, tried = np.random.default_rng(5), 0, 0
    while tried < 40:
        mdp, tau = random_mdp(rng), LEVELS[int(rng.integers(len(LEVELS)))]
        beta = {"quantile": 0, "cvar": tau, "buffered": tau / 2}[kind]
        score = (
            rule_oracle.quantile if kind == "quantile" else lambda law, tau, b=beta: rule_oracle.buffered(law, tau, b)
        )
        best = best_of(mdp, rule, lambda law, f=score, t=tau: f(law, t))
        if best is None or mdp.A == 1:
            continue
        value, tried = bqrl.solve(mdp, tau=float(tau), beta=float(beta), rule=rule).value, tried + 1
        assert value <= float(best) + 1e-9
        hits += value >= float(best) - 1e-9
    assert hits >= 38


def test_known_answers():
    plan = bqrl.solve("MachineReplacement", tau=0.1, rule="stage-state")
    assert (plan.value, plan.upper, plan.certain, plan.policy.kind) == (86.0, 86.0, True, "markov")
    assert plan.planner == "stage-state rule"
    fixed = bqrl.solve("MachineReplacement", tau=0.1, rule="state")
    assert (fixed.value, fixed.upper) == (75.0, 86.0)  # the best of all 729, each evaluated exactly
    assert np.all(fixed.policy.actions == fixed.policy.actions[0])


def test_same_answer_every_time():
    one, two = (bqrl.solve("TreatmentChoice", tau=0.2, rule="stage-state") for _ in range(2))
    assert np.array_equal(one.policy.actions, two.policy.actions)


def test_without_a_lattice_the_value_is_a_proven_lower_bound():
    step = [[0.7, 0.3], [0.4, 0.6]]
    mdp = bqrl.MDP(np.stack([step, step[::-1]], axis=1), [[1.0, 0.3], [-0.4, 0.7]], horizon=14, discount=0.93)
    plan = bqrl.solve(mdp, tau=0.2, rule="stage-state", points=500)
    lower, upper = bqrl.evaluate(mdp, plan.policy, bracket=True)
    assert lower.quantile(0.2) <= plan.value <= plan.upper
    assert plan.value <= upper.quantile(0.2)
    assert not plan.exact


def test_thresholds_follow_the_order_given():
    names = ("state", "action", "next_state", "probability", "reward")
    listed = (
        [("ok", "wait", "ok", 0.7, 3), ("ok", "wait", "bad", 0.3, 3), ("ok", "fix", "ok", 1, 1), ("bad", "wait", "bad", 1, 0),
         ("bad", "fix", "ok", 1, -1), ("worn", "wait", "bad", 0.5, 3),
         ("worn", "wait", "worn", 0.5, 3), ("worn", "fix", "ok", 1, 0)]
    )  # fmt: skip
    mdp = bqrl.MDP([dict(zip(names, row, strict=True)) for row in listed], horizon=4, start="worn")
    named = bqrl.solve(mdp, tau=0.3, rule="threshold", order=["ok", "worn", "bad"])
    assert RuleOrder(states="as given", actions="in the order of the model") in named.notes
    assert [mdp.state_label(s) for s in named.details["states"]] == ["ok", "worn", "bad"]
    assert bqrl.solve(mdp, tau=0.3, rule="threshold").notes[1].states == "in the order of the model"
    ranks = bqrl.solve(
        mdp, tau=0.3, rule="threshold", order={"states": ["bad", "worn", "ok"], "actions": ["fix", "wait"]}
    )
    assert ranks.value == named.value
    assert bqrl.solve("MachineReplacement", tau=0.1, rule="threshold").notes[-1].states == "by number"


def test_saved_rules_play_the_same(tmp_path):
    plan = bqrl.solve("TreatmentChoice", tau=0.1, rule="threshold")
    bqrl.save(plan.policy, tmp_path / "rule.npz")
    loaded = bqrl.load(tmp_path / "rule.npz")
    assert bqrl.evaluate("TreatmentChoice", loaded).equals(plan.law)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "thresholds"}, "rule must be one of 'stage-state', 'state', 'threshold', got 'thresholds'"),
        ({"rule": "state", "order": ["new"]}, "order must be omitted unless rule is 'threshold', got ['new']"),
        ({"rule": "threshold", "order": ["old"]}, "order must list the names of states, got 'old'; choose from new, wear 1"),
        ({"rule": "threshold", "order": "new"}, "order must be a list of the names of states, got 'new'"),
        ({"rule": "threshold", "order": ["new", "new"]}, "order must list every name once, got ['new', 'new']"),
        ({"rule": "threshold", "order": {"state": ["new"]}}, "order must have the keys 'states' and 'actions' only, got 'state'"),
        ({"rule": "state", "starts": np.zeros(6, int)}, "starts must be a list or a dict of rules, got ndarray; pass [rule]"),
        ({"rule": "state", "starts": [np.full((6, 3), 1 / 3)]}, "starts[0] must be a rule without chance"),
        ({"rule": "state", "radius": 0.1, "attitude": "robust"}, "expected one of radius and rule='state', got both"),
        ({"rule": "state", "planner": "greedy"}, "planner must be 'target' with rule='state', got 'greedy'"),
    ],
)  # fmt: skip
def test_bad_arguments_get_one_line(arguments, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        bqrl.solve("MachineReplacement", tau=0.1, **arguments)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_rules_that_available_actions_forbid_are_refused():
    staged = [(h, 0, h % 2, 0, 1.0, 1.0) for h in range(2)]
    with pytest.raises(ValueError, match="because no action is available in state 0 at all stages"):
        bqrl.solve(bqrl.MDP(staged, horizon=2), tau=0.1, rule="state")
    listed = [(s, a, 0, 1.0, 1.0) for s, pair in enumerate([(0, 1), (2, 3), (0, 1)]) for a in pair]
    with pytest.raises(
        ValueError, match="be 'stage-state' or 'state', because the actions available at stage 1 allow no threshold"
    ):
        bqrl.solve(bqrl.MDP(listed, horizon=1, start=[0.4, 0.3, 0.3]), tau=0.1, rule="threshold")
    with pytest.raises(ValueError, match="objective must be a Quantile or Buffered with rule='state'"):
        bqrl.solve("MachineReplacement", bqrl.Chance(80.0), rule="state")
