"""Decision tables are followed here by their documented rules alone: a CSV file, the outcomes of the problem, no bqrl policy."""

import csv
import io
import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import small_mdps
from policy_kinds import six_kinds

import bqrl
from bqrl.errors import PolicyError
from bqrl.policies.tables import decision_rows
from bqrl.results.result import ResultTable, to_csv

CONTRACTS = [[0, 0, 0, 0.5, 4.0], [0, 0, 0, 0.5, 7.0], [0, 1, 0, 0.6, 7.0], [0, 1, 0, 0.4, 0.0]]


def contracts(tmp_path, horizon=3, discount=1.0, reward=7.0):
    path = tmp_path / "contracts.csv"
    rows = [[*row[:4], reward if row[4] == 7.0 else row[4]] for row in CONTRACTS]
    lines = "".join(",".join(map(str, row)) + "\n" for row in rows)
    path.write_text(f"idstatefrom,idaction,idstateto,probability,reward\n{lines}")
    return bqrl.load(path, horizon=horizon, discount=discount)


def follow(mdp, content):
    """The law of the return of whoever follows the CSV by its documented rules."""
    table = [{key: x for key, x in row.items() if x} for row in csv.DictReader(io.StringIO(content.decode()))]
    parts = defaultdict(list)
    for row in table:
        parts[row.get("part"), float(row.get("weight", 1.0))].append(row)
    actions = {mdp.action_label(a): a for a in range(mdp.A)}
    law = defaultdict(float)
    for (_, weight), rows in parts.items():
        here = {}
        by_place = defaultdict(list)
        for row in rows:
            by_place[int(row["stage"]), row["state"]].append(row)
        for s in np.flatnonzero(mdp.mu).tolist():
            memory = None
            if "target" in rows[0]:
                memory = float(rows[0]["target"])
            elif "label" in rows[0]:
                memory = by_place[1, mdp.state_label(s)][0]["label"]
            here[s, memory, 0.0] = weight * float(mdp.mu[s])
        for h in range(mdp.H):
            after = defaultdict(float)
            for (s, memory, total), p in here.items():
                found = by_place[h + 1, mdp.state_label(s)]
                row = choose(found, memory)
                for t, q, r in zip(*(x.tolist() for x in mdp.outcomes(h, s, actions[row["action"]])), strict=True):
                    if q > 0.0:
                        label = mdp.state_label(t)
                        key = t, remember(found, row, memory, r, label, h == mdp.H - 1), total + mdp.discount**h * r
                        after[key] += p * q
            here = after
        for (_, _, total), p in here.items():
            law[round(total, 9)] += p
    return bqrl.Law(list(law), list(law.values()))


def choose(rows, memory):
    if "need_from" in rows[0]:
        return min(rows, key=lambda row: max(float(row["need_from"]) - memory, memory - float(row["need_to"]), 0.0))
    if "label" in rows[0]:
        return next(row for row in rows if row["label"] == memory)
    (row,) = rows
    return row


def remember(rows, row, memory, reward, next_state, last):
    if "need_from" in row:
        worth = float(row.get("worth", 1.0)) * reward
        if "reward_step" in row:
            floor, step = float(row["reward_floor"]), float(row["reward_step"])
            worth = floor + step * math.floor((worth - floor) / step + 1e-9)
        return memory - worth
    if "label" in row and not last:
        same = [other for other in rows if other["label"] == memory and other["next_state"] == next_state]
        return min(same, key=lambda other: abs(float(other["reward"]) - reward))["next_label"]
    return None


def check(mdp, plan):
    rows = decision_rows(plan.policy, mdp)
    law = follow(mdp, to_csv(ResultTable(rows)))
    low, high = bqrl.evaluate(mdp, plan.policy, bracket=True)
    if low.equals(high, 1e-12):
        assert law.equals(low, 1e-7)
    else:
        assert all(
            low.quantile(u) - 1e-7 <= law.quantile(u) <= high.quantile(u) + 1e-7 for u in np.linspace(0.01, 0.99, 99)
        )
    promised = law.quantile(plan.tau) if plan.beta == 0.0 else law.buffered_quantile(plan.tau, plan.beta)
    assert promised >= plan.value - 1e-7 * max(1.0, abs(plan.value))
    return rows


@pytest.mark.parametrize(
    ("tau", "options"),
    [
        (0.4, {}),
        (0.8, {"discount": 0.5}),
        (0.5, {"beta": 0.25, "randomized": True}),
        (0.5, {"beta": 0.25}),
        (0.4, {"points": 50}),
        (0.4, {"points": 50, "discount": 0.9, "reward": math.pi}),
        (0.6, {"points": 30, "discount": 0.97, "reward": math.e, "horizon": 5}),
        (0.4, {"planner": "frontier"}),
        (0.4, {"planner": "greedy"}),
        (0.4, {"planner": "expected"}),
    ],
    ids=str,
)
def test_every_kind_of_table_is_followed_by_its_rules_alone(tmp_path, tau, options):
    shape = {key: options.pop(key) for key in ("discount", "reward", "horizon") if key in options}
    mdp = contracts(tmp_path, **shape)
    check(mdp, bqrl.solve(mdp, tau, **options))


@pytest.mark.parametrize("kinds", list(itertools.permutations(("expected", "target", "frontier"), 2)), ids=str)
def test_a_mixture_of_different_kinds_has_one_set_of_columns(tmp_path, kinds):
    """Once such a table could not be written: "dict contains fields not in fieldnames"."""
    mdp = contracts(tmp_path)
    parts = [bqrl.solve(mdp, 0.4, planner=kind).policy for kind in kinds]
    mixture = bqrl.MixturePolicy(parts, [0.25, 0.75])
    rows = decision_rows(mixture, mdp, stage="week")
    assert len({tuple(row) for row in rows}) == 1
    own = [set(decision_rows(part, mdp, stage="week")[0]) for part in parts]
    assert set(rows[0]) == {"part", "weight"} | own[0] | own[1]
    content = to_csv(ResultTable(decision_rows(mixture, mdp)))
    assert follow(mdp, content).equals(bqrl.evaluate(mdp, mixture), 1e-9)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_the_table_of_asset_selling(tau):
    mdp = bqrl.envs.make("AssetSelling")
    plan = bqrl.solve(mdp, tau)
    rows = check(mdp, plan)
    assert len(rows) < len(plan.policy.rows(mdp)) / 2
    assert rows[0]["stage"] == 1
    (first,) = [row for row in rows if row["stage"] == 1]  # one state, nothing earned: one row can apply
    assert (first["earned_from"], first["probability"]) == (0.0, 1.0)
    for stage in range(1, 11):
        assert sum(row["probability"] for row in rows if row["stage"] == stage) == pytest.approx(1.0)


@settings(max_examples=25)
@given(small_mdps(), st.sampled_from([0.1, 0.3, 0.5, 0.8]))
def test_random_problems(mdp, tau):
    check(mdp, bqrl.solve(mdp, tau))
    curve = bqrl.guarantee_curve(mdp, keep=True)
    level = curve.level_policy(tau)
    assert follow(mdp, to_csv(ResultTable(decision_rows(level, mdp)))).equals(bqrl.evaluate(mdp, level), 1e-7)


def test_neighbouring_rows_differ_in_their_action():
    mdp = bqrl.envs.make("AssetSelling")
    rows = bqrl.solve(mdp, 0.5).policy.table(mdp)
    for a, b in itertools.pairwise(rows):
        if (a["stage"], a["state"]) == (b["stage"], b["state"]):
            assert a["action"] != b["action"]
            assert a["earned_to"] < b["earned_from"]


def test_rare_situations_can_be_left_out():
    mdp = bqrl.envs.make("AssetSelling")
    policy = bqrl.solve(mdp, 0.1).policy
    whole, common = policy.table(mdp), policy.table(mdp, min_probability=0.02)
    assert 0 < len(common) < len(whole)
    assert common == [row for row in whole if row["probability"] >= 0.02]
    assert policy.rows(mdp) == policy.table(mdp, reachable=False)
    with pytest.raises(ValueError, match="min_probability must be a number in"):
        policy.table(mdp, min_probability=2)


def test_the_wide_form_where_the_memory_does_not_matter(tmp_path):
    mdp = bqrl.envs.make("AssetSelling")
    policy = bqrl.solve(mdp, 0.1).policy
    rows = policy.table(mdp, wide=True)
    assert rows[5] == {"state": "5", "1": "Continue"} | {str(h): "Continue" for h in range(2, 10)} | {"10": "Stop"}
    assert rows[0]["1"] is None
    risky = contracts(tmp_path)
    with pytest.raises(
        PolicyError, match="requires one action per state and stage, got several in state 0 at stage 2"
    ) as fault:
        bqrl.solve(risky, 0.6).policy.table(risky, wide=True)
    assert (fault.value.stage, fault.value.state) == (1, 0)


def test_the_wide_form_has_an_action_for_every_decision_that_the_long_form_lists():
    mdp = bqrl.envs.make("AssetSelling")
    policy = bqrl.solve(mdp, planner="expected", tau=0.5).policy
    for options in ({}, {"reachable": False}, {"min_probability": 0.02}):
        listed = {(row["state"], str(row["stage"])): row["action"] for row in policy.table(mdp, **options)}
        wide = {
            (row["state"], stage): action
            for row in policy.table(mdp, wide=True, **options)
            for stage, action in row.items()
            if stage != "state" and action is not None
        }
        assert wide == listed
    assert len(policy.table(mdp, wide=True, reachable=False)) == mdp.S
    needs = bqrl.solve(mdp, 0.1).policy
    with pytest.raises(PolicyError, match="requires one action per state and stage, got several"):
        needs.table(mdp, wide=True, reachable=False)  # the action depends on the need


@pytest.mark.parametrize(
    "options", [(), ("--points", 40, "--discount", 0.9), ("--beta", 0.2), ("--planner", "greedy")], ids=str
)
def test_the_csv_of_a_folder_keeps_the_promise_of_that_folder(cli, tmp_path, options):
    contracts(tmp_path)
    asked = ("--tau", 0.4, "--horizon", 3, "--stage-name", "week", *options, "--out", tmp_path / "o")
    assert cli("solve", tmp_path / "contracts.csv", *asked)[0] == 0
    mdp = bqrl.load(tmp_path / "contracts.csv", horizon=3, discount=0.9 if "--discount" in options else 1.0)
    content = (tmp_path / "o" / "policy_tau0p4.csv").read_bytes()
    assert content.startswith(b"week,state,")
    law = follow(mdp, content.replace(b"week,", b"stage,", 1))
    (level,) = csv.DictReader((tmp_path / "o" / "levels.csv").read_text().splitlines())
    promised = law.buffered_quantile(0.4, 0.2) if "--beta" in options else law.quantile(0.4)
    assert promised >= float(level["value"]) - 1e-7


def test_a_table_that_cannot_be_followed_is_not_written_and_the_reason_is(cli, tmp_path, monkeypatch):
    contracts(tmp_path)
    monkeypatch.setattr("bqrl.policies.tables.MAX_ROWS", 2)
    code, _, err = cli("solve", tmp_path / "contracts.csv", "--tau", 0.4, "--horizon", 3, "--out", tmp_path / "o")
    assert code == 0
    assert "policy_tau0p4.csv is not written: the table must have at most 2 rows, got 3" in err
    assert not (tmp_path / "o" / "policy_tau0p4.csv").exists()
    assert (tmp_path / "o" / "policy_tau0p4.npz").exists()


def test_the_column_of_stages_cannot_have_the_name_of_another_column(cli, tmp_path):
    mdp = bqrl.envs.make("AssetSelling")
    with pytest.raises(ValueError, match="stage must not be the name of another column, got 'state'"):
        decision_rows(bqrl.solve(mdp, 0.1).policy, mdp, stage="state")
    done = cli("solve", "AssetSelling", "--tau", "0.1", "--stage-name", "action", "--out", tmp_path / "o")
    assert "--stage-name must not be a column of the policy's table, got 'action'; choose another word" in str(done)
    assert not (tmp_path / "o").exists()


def test_a_stochastic_policy_has_one_row_per_action_with_its_share():
    mdp = bqrl.envs.make("AssetSelling")
    shares = np.where(np.arange(mdp.S)[None, :, None] > 20, [1.0, 0.0], [0.25, 0.75]) * np.ones((mdp.H, 1, 1))
    shares = np.where(np.broadcast_to(mdp.available, shares.shape), shares, 0.0)
    policy = bqrl.StochasticPolicy(shares / np.maximum(shares.sum(axis=2, keepdims=True), 1e-300))
    met = defaultdict(float)
    for row in policy.table(mdp):
        met[row["stage"]] += row["probability"]
        if row["action"] == "Continue":
            assert row["share"] in (0.75, 1.0)
    assert dict(met) == pytest.approx(dict.fromkeys(range(1, mdp.H + 1), 1.0))
    assert all("probability" not in row and 0.0 < row["share"] <= 1.0 for row in policy.rows(mdp))
    with pytest.raises(PolicyError, match="requires one action per state and stage"):
        policy.table(mdp, wide=True)
    mixture = bqrl.MixturePolicy([policy, bqrl.MarkovPolicy(np.zeros((mdp.H, mdp.S), int))], [0.5, 0.5])
    assert {row["share"] is None for row in mixture.table(mdp)} == {True, False}


def test_tables_name_what_the_problem_names():
    mdp = bqrl.envs.make("AssetSelling")
    markov, stochastic, target, labels, level, mix = six_kinds(mdp)
    for policy in (markov, stochastic, target, labels, level, mix):
        rows = policy.rows(mdp)
        assert {row["action"] for row in rows} <= {"Stop", "Continue"}
        assert {row["stage"] for row in rows} == set(range(1, 11))  # people count from 1
    first = [row for row in target.rows(mdp) if row["stage"] == 1]
    assert {row["state"] for row in first} == {"5"}
    assert first[0]["need_above"] == -np.inf
    assert first[-1]["need_up_to"] == np.inf
    assert {row["part"] for row in mix.rows(mdp)} == {1, 2}
