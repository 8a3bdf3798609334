"""What limits a promise, in words, and what would raise it."""

import numpy as np
from logged_problems import coin

import bqrl
from bqrl.logs.fit import fit
from bqrl.results.estimates import fit_result
from bqrl.results.words import Words, remarks


def test_the_sentence_calls_a_stage_what_the_caller_does():
    log = late_log(tried=("go",)) | {
        "state": ["stage" if s == "start" else s for s in late_log(tried=("go",))["state"]]
    }
    staged, pooled = (fit(log, reward_range=(1, 2), stationary=stationary) for stationary in (False, True))
    yearly = Words(title="", stage="year")
    said = remarks(staged.solve(0.1), yearly)[0]
    assert "depend only on the year, state and action; every episode starts in state 'stage'" in said
    assert "their law is the same in every year" in remarks(pooled.solve(0.1), yearly)[0]
    assert "their law is the same in every stage" in pooled.solve(0.1).remarks[0]


def late_log(n=300, tried=()):
    """From start, 40 % of the episodes go to late; there only the actions in `tried` were logged, at the last stage."""
    rows = [("start", "wait", 1.0, "late" if i % 5 < 2 else "early") for i in range(n)]
    steps = {"episode": [], "stage": [], "state": [], "action": [], "reward": [], "next_state": []}
    for i, row in enumerate(rows):
        listed = [row]
        if row[3] == "early" or tried:
            listed.append((row[3], "go" if row[3] == "early" else tried[i % len(tried)], 2.0, "early"))
        for h, (s, a, r, s_next) in enumerate(listed):
            for name, value in zip(steps, (i, h, s, a, r, s_next), strict=True):
                steps[name].append(value)
    return steps


def test_the_reason_names_a_state_in_which_nothing_was_tried():
    estimate = fit(late_log(), reward_range=(1, 2), ends="truncated")
    assert estimate.solve(0.1).value == 1.0  # the lowest possible return: one step, then an early end
    assert "in state 'late' at stage 2, which has probability 0.4" in estimate.reason(0.1)
    assert "in state 'late' at week 2, " in estimate.reason(0.1, stage="week")
    assert estimate.reason(0.9) is None


def test_people_read_stages_from_1():
    """Rows, limits and reasons once counted from 0, the decision table of the same plan from 1."""
    estimate = fit(late_log(tried=("go", "stay")), reward_range=(1, 2))
    assert {row["stage"] for row in estimate.rows()} == {1, 2}
    stages = {row["state"]: row["stage"] for row in estimate.limits(0.1)}
    assert stages["start"] == 1
    assert stages["late"] == 2
    assert {row["stage"] for row in fit(late_log(), reward_range=(1, 2), stationary=True).rows()} == {None}


def test_the_reason_names_a_row_that_was_tried_too_seldom():
    estimate = fit(coin(12, 12), reward_range=(0, 1))
    assert estimate.solve(0.05).value == 0.0
    found = estimate.reason(0.05)
    assert found.startswith("action 'a' in state 's' was tried 12 times: with the radius ")
    assert "\n" not in found


def test_the_reason_names_a_row_that_was_never_tried():
    """From s the model moves to late for certain; what late pays, no episode of the log shows."""
    rows = [(0, 0, 1, 1.0, 0.0), (1, 0, 0, 0.5, 0.0), (1, 0, 0, 0.5, 1.0)]
    model = bqrl.MDP(rows, horizon=2, state_names=["s", "late"], action_names=["3"])
    log = {
        "episode": [0, 1],
        "state": ["s", "s"],
        "action": ["3", "3"],
        "reward": [0.0, 0.0],
        "next_state": ["late", "late"],
    }
    estimate = fit(log, model=model, ends="truncated")
    assert estimate.reason(0.1) == "action '3' in state 'late' was never tried"


def test_the_reason_says_that_the_first_state_is_unknown():
    log = {"episode": range(20), "state": ["a", "b"] * 10, "action": ["x"] * 20, "reward": [1.0, 2.0] * 10}
    assert "declare start" in fit(log, reward_range=(0, 2)).reason(0.1)


def test_no_promise_names_the_remedy_that_helps():
    """It once said to declare reward_range also where only the law of the first state was the cause."""
    log = coin(20, 20, state=["s", "t"] * 10)
    sentence = fit(log, reward_by="state-action").solve(0.1).remarks[0]
    assert "declare start" in sentence
    assert "reward_range" not in sentence
    assert fit(log, reward_by="state-action", start={"s": 0.5, "t": 0.5}).solve(0.1).value == 1.0


def mortality(rng, episodes, H=6):
    """Patients die; a final row says so and has no successor. Others are lost to follow-up."""
    chances = {"wait": (0.8, 0.1), "treat": (0.9, 0.05)}  # well to well, and to death
    rows = []
    for episode in range(episodes):
        s, cut = "well", int(rng.integers(3, H + 1))
        for h in range(H):
            if s == "dead" or h >= cut:
                rows += [(episode, h, s, "wait", 0.0)] * (s == "dead")
                break
            a = str(rng.choice(["wait", "treat"]))
            stay, die = chances[a]
            rows.append((episode, h, s, a, 1.0 if s == "well" else 0.0))
            s = str(rng.choice(["well", "dead", "sick"], p=[stay, die, 1 - stay - die]))
    names = ("episode", "stage", "state", "action", "reward")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def test_a_state_that_is_never_left_is_named_as_the_cause():
    """An action with 510 tries was blamed; the last row of every death had no successor."""
    log = mortality(np.random.default_rng(0), 300)
    options = {"horizon": 6, "stationary": True, "support": "states", "reward_by": "state-action"}
    open_end = fit(log, ends="truncated", **options)
    deaths = log["state"].count("dead")
    cause = f"no successor is recorded for state 'dead' ({deaths} steps), so the worst is assumed to follow; declare it absorbing"
    assert open_end.solve(0.3).value == -np.inf
    assert open_end.reason(0.3).startswith(cause)
    assert open_end.solve(0.3).remarks[1].startswith(cause)
    assert open_end.uncounted.sum() == open_end.steps - open_end.counted
    stays, ends = ([word if s == "dead" else "" for s in log["state"]] for word in ("dead", "terminal"))
    for remedy in (
        fit(log | {"next_state": stays}, ends="truncated", **options),
        fit(log | {"end": ends}, **options),
    ):
        assert remedy.solve(0.3).value >= 1.0
        assert not any("successor" in note for note in remedy.solve(0.3).remarks)


def test_the_reason_names_rewards_that_never_repeat():
    """Continuous rewards make every step a new outcome, and no number of episodes gives a promise."""
    rewards = np.random.default_rng(0).random(300)
    log = coin(300, 0, reward=rewards)
    assert "it showed 300 different outcomes, round its rewards down" in fit(log, reward_range=(0, 1)).reason(0.3)
    rounded = fit(log | {"reward": np.floor(4 * rewards) / 4}, reward_range=(0, 1))
    assert rounded.reason(0.5) is None
    assert "different outcomes" not in rounded.reason(0.01)


def test_a_declaration_that_lowers_the_promise_is_named_by_the_plan():
    """`support="states"` lowered a promise, and only `gains` told."""
    rng = np.random.default_rng(0)
    first = rng.integers(40, size=4000)
    moved = (first + rng.integers(2, size=4000)) % 40
    log = {"episode": range(4000), "state": [f"s{i}" for i in first], "next_state": [f"s{i}" for i in moved]}
    log |= {"action": ["go"] * 4000, "reward": (first != moved).astype(float)}
    start = {f"s{i}": 1 / 40 for i in range(40)}
    estimate = fit(log, reward_range=(0, 1), support="states", start=start, adaptive=True)
    plan = estimate.solve(0.833)
    lowers = "the declaration support lowers the promise: 0 with it and 1 without it"
    assert any(lowers in text.lower() for text in plan.remarks)
    lines = [line.text for line in fit_result(estimate, plan, Words(title="x"), {}, draw=False).lines]
    assert [lowers in text.lower() for text in lines if "declaration support" in text] == [
        True
    ]  # once it was said twice
