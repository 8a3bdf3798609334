"""Arguments of `fit`, what a sentence rests on, and what declarations add."""

from types import MappingProxyType

import numpy as np
import pytest
from logged_problems import coin, simulated, two_steps

import bqrl
from bqrl import MDP
from bqrl.logs.fit import fit


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confidence": 1.0}, "confidence must be a number in"),
        ({"reward_range": (1, 0)}, r"reward_range\[1\] must be a number of at least 1"),
        ({"reward_range": 3}, "reward_range must be two numbers"),
        ({"ends": "cut"}, "ends must be one of"),
        ({"reward_by": "state"}, "reward_by must be one of"),
        ({"stationary": 1}, "stationary must be True or False"),
        ({"start": "t"}, "start must name states of the log, got 't'"),
        ({"known": [("s", "a", "s", 1.0)]}, "known must hold tuples of 5 or 6"),
        ({"known": [("s", "a", "s", "p", 1.0)]}, r"known\[0\]\[3\] must be a number of at least 0, got 'p'"),
        ({"known": [("s", "s", "a", "s", 1.0, 1.0)]}, r"known\[0\]\[0\] must be a whole number from 0 to 0, got 's'"),
        ({"start": {"s": "x"}}, r"start\['s'\] must be a number of at least 0, got 'x'"),
        ({"start": [0.5, 0.5]}, r"start must name states of the log, got '\[0\.5, 0\.5\]'"),
        ({"horizon": 10**9}, "horizon must be at most 1000000, got 1000000000"),
        ({"support": "all"}, "support must be one of 'states'"),
        ({"model": 3}, "model must be an MDP"),
    ],
)
def test_bad_arguments_are_one_line(options, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        fit(coin(9, 5), **{"reward_range": (0, 1)} | options)
    assert "\n" not in str(caught.value)


def test_every_declaration_is_named_in_the_sentence():
    log = two_steps()
    known = [("t", "new", "s", 1.0, 1.0)]
    support = [(s, a, u) for s, u in (("s", "t"), ("t", "s")) for a in ("old", "new")]
    estimate = fit(log, stationary=True, start="s", known=known, support=support, reward_by="state-action")
    assert estimate.assumptions == (
        "the next state and the reward depend only on the state and action", "their law is the same in every stage",
        "the given first state is right", "the known rows are right", "only the listed transitions are possible",
        "the reward depends on the state and action alone",
    )  # fmt: skip
    assert "their law is the same in every stage" not in fit(log, reward_range=(0, 1)).assumptions


def test_the_sentence_names_what_a_model_declares():
    mdp, log = simulated("machine", 100)
    shared = fit(log, model=mdp).assumptions
    assert "its rows share noise as it states" in shared
    assert "its known rows are right" not in shared
    table = {name: [row[name] for row in mdp.rows()] for name in mdp.rows()[0]}
    known = MDP(table, horizon=mdp.H, start=mdp.state_label(mdp.start), known=np.ones((mdp.S, mdp.A), bool))
    assumed = fit(log, model=known).assumptions
    assert "its known rows are right" in assumed
    assert "its rows share noise as it states" not in assumed


def test_support_states_names_early_ends_as_excluded():
    """With this declaration a log without an early end promises its full return; nothing once said that ends are excluded."""
    log = {"episode": np.repeat(range(10), 3), "state": ["a"] * 30, "action": ["x"] * 30, "reward": [1.0] * 30}
    full = fit(log, reward_range=(1, 2), support="states", reward_by="state-action")
    assert full.solve(0.05).value == 3.0
    assert "no episode ends before step 3" in full.assumptions
    ended = {name: list(column)[:-1] for name, column in log.items()}
    seen = fit(ended, reward_range=(1, 2), support="states", reward_by="state-action")
    assert seen.solve(0.05).value == 1.0
    assert not any(text.startswith("no episode ends") for text in seen.assumptions)
    assert (
        "no step ends an episode"
        in fit(log | {"next_state": ["a"] * 30}, reward_range=(1, 2), support="states").assumptions
    )


def test_gains_are_the_promises_of_refits():
    """Each declaration is dropped alone; the promise without it is that of a fit without it."""
    mdp, log = simulated("random", 1000)
    bounds = (float(mdp.reward.min()), float(mdp.reward.max()))
    estimate = fit(log, stationary=True, reward_range=bounds, reward_by="state-action", support="states")
    gains = {gain["declaration"]: gain for gain in estimate.gains(0.1)}
    assert list(gains) == ["stationary", "support", "reward_by"]
    given = {"stationary": True, "reward_range": bounds, "reward_by": "state-action", "support": "states"}
    for name, gain in gains.items():
        without = fit(log, **given | {name: False if name == "stationary" else None}).solve(0.1).value
        assert gain["without"] == without
        assert gain["value"] == estimate.solve(0.1).value
    assert fit(log, reward_range=bounds).gains(0.1) == []


def test_gains_say_why_a_declaration_lowers_the_promise():
    """Each row has two outcomes; `support="states"` allows 40, and radii grow with their number, but slowly."""
    rng, steps = np.random.default_rng(0), []
    for episode in range(4000):
        first = int(rng.integers(40))
        steps += [(episode, f"s{first}", f"s{(first + int(rng.integers(2))) % 40}")]
    log = dict(zip(("episode", "state", "next_state"), zip(*steps, strict=True), strict=True))
    log |= {"action": ["go"] * 4000, "reward": [float(s != t) for _, s, t in steps]}
    start = {f"s{i}": 1 / 40 for i in range(40)}
    estimate = fit(log, reward_range=(0, 1), support="states", start=start, adaptive=True)
    support = next(gain for gain in estimate.gains(0.833) if gain["declaration"] == "support")
    assert support["without"] > support["value"]
    assert "more outcomes than the data show" in support["note"]
    support = next(gain for gain in estimate.gains(0.84) if gain["declaration"] == "support")
    assert (
        support["without"] == support["value"] == 1.0
    )  # equal shares for all sets of 40 outcomes promised 0 below 0.88


def test_gains_say_why_a_declaration_cannot_be_dropped():
    [gain] = fit(coin(10, 10), reward_by="state-action").gains(0.1)
    assert gain["without"] is None
    assert gain["note"] == "it requires reward_range"


def test_gains_of_a_model_with_shared_noise():
    mdp, log = simulated("machine", 300)
    gains = {gain["declaration"].split(" (")[0]: gain for gain in fit(log, model=mdp).gains(0.1)}
    assert list(gains) == ["stationary", "shared noise", "model"]
    assert gains["shared noise"]["without"] == fit(log, model=mdp.with_noise(None)).solve(0.1).value
    assert all(gain["without"] <= gain["value"] for gain in gains.values())
    assert gains["model"]["without"] < gains["shared noise"]["without"]


def test_an_estimate_from_a_file_has_no_gains(tmp_path):
    bqrl.save(fit(coin(10, 10), reward_by="state-action"), tmp_path / "estimate.npz")
    assert bqrl.load(tmp_path / "estimate.npz").gains(0.1) == []


def test_returns_of_the_log_have_the_discount_of_the_model():
    model = bqrl.MDP([[[1.0]]], [[1.0]], horizon=2, discount=0.5)
    log = {"episode": [0, 0, 1, 1], "state": ["0"] * 4, "action": ["0"] * 4, "reward": [1.0] * 4}
    assert fit(log | {"next_state": ["0"] * 4}, model=model).returns.tolist() == [1.5, 1.5]
    with pytest.raises(ValueError, match="discount must not be given with model="):
        fit(log, model=model, discount=0.9)
    assert np.isclose(fit(log, discount=0.5, reward_range=(0, 1)).returns, 1.5).all()


def test_episodes_of_different_lengths_rest_on_a_longest_one():
    """Where episodes end at random, the longest of the log is not the longest possible; the sentence now says so."""
    log = {"episode": [0, 1, 1, 2, 2, 2], "state": ["on"] * 6, "action": ["go"] * 6, "reward": [-1.0] * 6}
    estimate = fit(log, stationary=True, reward_range=(-1, 0))
    assert "episodes with fewer than 3 steps are complete, and none is longer" in estimate.assumptions


@pytest.mark.parametrize(
    ("options", "complete"),
    [
        ({}, "with fewer than 3 steps"),
        ({"ends": "terminal"}, "with fewer than 3 steps"),
        ({"absorbing": ["dead"]}, "with fewer than 3 steps"),
        ({"ends": "truncated"}, None),
        ({"ends": "truncated", "absorbing": ["dead"]}, "that reach an absorbing state"),
        ({"column": ["", "", "", "truncated", "", "terminated"]}, "marked as ended"),
        ({"column": ["", "", "", "truncated", "", "terminated"], "absorbing": ["dead"]}, "marked as ended"),
        ({"column": ["", "", "", "truncated", "", "truncated"]}, None),
        ({"column": ["", "", "", "terminated", "", "terminated"]}, "with fewer than 3 steps"),
    ],
)
def test_sentences_about_cut_off_and_complete_episodes_do_not_contradict_each_other(options, complete):
    """ "Episodes with fewer steps are complete" once stood beside "whether an episode was cut off ...", and marks without any."""
    log = {"episode": [0, 0, 0, 1, 2, 2], "state": ["on"] * 6, "action": ["go"] * 6, "reward": [1.0] * 6}
    log["next_state"] = ["on", "on", "on", "off", "on", "dead"]
    if "column" in options:
        log["end"] = options["column"]
    chosen = {name: value for name, value in options.items() if name != "column"}
    said = fit(log, horizon=3, reward_range=(0, 1), **chosen).assumptions
    assert [text.split(" are complete")[0] for text in said if "complete" in text] == (
        [f"episodes {complete}"] if complete else []
    )
    assert any("was cut off" in text for text in said) == (complete != "with fewer than 3 steps")


def test_declarations_may_be_iterators_and_may_change_afterwards():
    """A generator was once exhausted when the gains fitted the log again, and a changed list changed the gains."""
    log = two_steps()
    known = [["t", "new", "s", 1.0, 1.0]]
    support = [(s, a, u) for s, u in (("s", "t"), ("t", "s")) for a in ("old", "new")]
    start = {"s": 1.0}
    options = {"stationary": True, "reward_by": "state-action"}
    expected = fit(log, known=known, support=support, start=start, **options).gains(0.1)
    lazy = fit(log, known=iter(known), support=(row for row in support), start=MappingProxyType(start), **options)
    changed = [list(row) for row in known]
    later = fit(log, known=changed, support=support, start=start, **options)
    changed[0][3] = 0.5
    start["t"] = 1.0
    support.clear()
    assert lazy.gains(0.1) == later.gains(0.1) == expected
    assert [gain["note"] for gain in expected] == [""] * 5


def test_a_promise_about_rounded_rewards_holds_for_the_policy_that_sees_the_true_ones():
    """Rewards of one cent more or less: enumerated exactly, with the policy fed the rewards that are really paid."""
    rng, H = np.random.default_rng(0), 3
    paid = {"safe": [(0.5, 10.2), (0.5, 10.9)], "risky": [(0.3, 0.4), (0.35, 30.1), (0.35, 30.7)]}
    log = {name: [] for name in ("episode", "state", "action", "reward")}
    for episode in range(1500):
        for _ in range(H):
            a = "safe" if rng.random() < 0.5 else "risky"
            r = paid[a][rng.choice(len(paid[a]), p=[p for p, _ in paid[a]])][1]
            for name, cell in zip(log, (episode, "s", a, r), strict=True):
                log[name].append(cell)
    estimate = fit(log, stationary=True, reward_range=(0, 31), round_rewards=10)
    plan = estimate.solve(tau=0.3)
    policy, now = plan.policy, {(plan.policy.start(), 0.0): 1.0}
    for h in range(H):
        after = {}
        for (need, total), p in now.items():
            a = policy.act(h, 0, need)
            for q, r in paid[estimate.mdp.action_label(a)]:
                key = policy.next(need, h, 0, a, r, 0), total + r
                after[key] = after.get(key, 0.0) + p * q
        now = after
    missed = sum(p for (_, total), p in now.items() if total < plan.value)
    assert plan.value >= 10.0
    assert missed < 0.3
    assert "each reward counts as the next lower multiple of 10, so that the true return is no lower" in plan.remarks[0]
    assert set(estimate.mdp.reward.ravel().tolist()) <= {0.0, 10.0, 30.0}


def test_the_lower_end_of_the_range_is_rounded_with_the_rewards():
    log = coin(20, 10) | {"reward": [-0.5, 0.5] * 10}
    assert "rewards lie between -1 and 0.6" in fit(log, reward_range=(-0.6, 0.6), round_rewards=1).assumptions
    with pytest.raises(ValueError, match="round_rewards must be a number above 0"):
        fit(log, reward_range=(-1, 1), round_rewards=0)
    mdp, machine = simulated("machine", 10)
    with pytest.raises(ValueError, match="round_rewards must not be given with model="):
        fit(machine, model=mdp, round_rewards=1)


def test_an_absorbing_state_of_a_model_is_checked():
    rows = {
        "state": ["a", "a", "b"],
        "action": ["x"] * 3,
        "next_state": ["a", "b", "b"],
        "probability": [0.5, 0.5, 1.0],
    }
    model = MDP(rows | {"reward": [1.0, 1.0, 0.0]}, horizon=3)
    log = {"episode": [0, 0, 1, 1, 1], "state": ["a", "b", "a", "a", "b"], "action": ["x", "", "x", "x", ""]}
    log |= {"reward": [1.0, 0.0, 1.0, 1.0, 0.0]}
    estimate = fit(log, model=model, absorbing=["b"])
    assert estimate.mdp.outcomes(0, 0, 0)[1].tolist() == [1 / 3, 2 / 3]
    with pytest.raises(
        ValueError, match="absorbing must name states that the model never leaves, without reward, got 'b'"
    ):
        fit(log, model=MDP(rows | {"reward": [1.0, 1.0, 0.5]}, horizon=3), absorbing=["b"])


def test_known_rows_may_come_from_a_file(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("state,action,next_state,probability,reward\nt,new,s,1,1\n")
    listed = fit(two_steps(), stationary=True, reward_range=(0, 1), known=[("t", "new", "s", 1.0, 1.0)])
    assert fit(two_steps(), stationary=True, reward_range=(0, 1), known=path).mdp.rows() == listed.mdp.rows()
