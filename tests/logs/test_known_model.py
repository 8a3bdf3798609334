"""Logs of a known model, with shared noise and without."""

from dataclasses import replace

import numpy as np
import pytest
from logged_problems import simulated

import bqrl
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.logs.fit import fit
from bqrl.logs.known_model import laws_of


def test_a_model_names_labels_and_outcomes():
    model = bqrl.MDP(
        [[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=2, state_names=["s", "t"], action_names=["a"]
    )
    log = {"episode": [0, 0, 1, 1], "state": ["s", "t", "s", "s"], "action": ["a"] * 4, "reward": [0.0, 1.0, 0.0, 0.0]}
    estimate = fit(log | {"next_state": ["t", "t", "s", "t"]}, model=model)
    assert estimate.counts[0, :, 0].tolist() == [3, 1]
    assert estimate.mdp.probability.tolist() == [1 / 3, 2 / 3, 1.0]
    for changed, words in (
        ({"state": ["s", "u", "s", "s"]}, "row 1, column 'state': expected one of the model's states, got 'u'"),
        ({"action": ["a", "b", "a", "a"]}, "expected one of the model's actions, got 'b'"),
        ({"reward": [7.0, 1.0, 0.0, 0.0]}, "expected the reward of an outcome with this next_state, got 7"),
    ):
        with pytest.raises(FileFormatError, match=words):
            fit(log | changed, model=model)
    with pytest.raises(ArgumentError, match="support must not be given with model="):
        fit(log, model=model, support="states")


def test_frequencies_are_counted_per_row_or_per_stage():
    mdp, log = simulated("random", 500)
    mdp = mdp.with_noise(None)
    pooled, staged = fit(log, model=mdp), fit(log, model=mdp.staged())
    assert pooled.counts.sum() == staged.counts.sum() == 500 * mdp.H
    assert np.array_equal(staged.counts.sum(axis=0), pooled.counts[0])
    states = np.array([mdp.state_label(s) for s in range(mdp.S)])
    for s in range(mdp.S):
        for a in range(mdp.A):
            here = (log["state"] == states[s]) & (log["action"] == mdp.action_label(a))
            successor, p, _ = pooled.mdp.outcomes(0, s, a)
            assert p == pytest.approx([np.mean(log["next_state"][here] == states[t]) for t in successor])


def test_the_log_must_fit_into_the_model():
    mdp, log = simulated("machine", 50)
    for horizon in (3, 9):
        with pytest.raises(ArgumentError, match="horizon must be 6, the number of stages of the model, got"):
            fit(log, model=mdp, horizon=horizon)
    with pytest.raises(FileFormatError, match="expected at most 3 steps per episode, got 6"):
        fit(log, model=bqrl.envs.make("MachineReplacement", horizon=3))
    with pytest.raises(ArgumentError, match="stationary must be False"):
        fit(log, model=mdp.with_noise(None).staged(), stationary=True)
    short = {name: column[:-1] for name, column in log.items()}
    with pytest.raises(FileFormatError, match=r"row 249.*expected an episode that lasts to the horizon, got"):
        fit({name: column for name, column in short.items() if name != "next_state"}, model=mdp)


# -- shared noise ------------------------------------------------------------------------------------------------------


def test_events_count_where_outcomes_hide_them():
    """A stock-out hides the demand; the column of events shows it."""
    mdp, log = simulated("inventory", 300)
    rng = np.random.default_rng(0)
    states = {mdp.state_label(s): s for s in range(mdp.S)}
    actions = {mdp.action_label(a): a for a in range(mdp.A)}
    names, law = mdp.noise.events[0], mdp.noise.probabilities[0]
    events = []
    for s, a, s_next, r in zip(log["state"], log["action"], log["next_state"], log["reward"], strict=True):
        row = mdp.noise.row(0, states[s], actions[a])
        successor, _, paid = mdp.outcomes(0, states[s], actions[a])
        here = np.flatnonzero((successor == states[s_next]) & (paid == r))[0]
        leads = mdp.noise.outcome_of(row)
        possible = np.flatnonzero(leads == here) if leads.size else np.arange(law.size)
        events.append(names[rng.choice(possible, p=law[possible] / law[possible].sum())])
    hidden, shown = fit(log, model=mdp), fit(log | {"event": events}, model=mdp)
    assert shown.counts.max() > hidden.counts.max()
    with pytest.raises(FileFormatError, match="column 'event': expected an event of the noise law, got '99'"):
        fit(log | {"event": ["99", *events[1:]]}, model=mdp)
    full, order_none = mdp.state_label(mdp.S - 1), mdp.action_label(0)  # a full stock separates demands
    step = int(np.flatnonzero((log["state"] == full) & (log["action"] == order_none))[0])
    first = mdp.noise.pair_start[mdp.noise.row(0, mdp.S - 1, 0)]
    leads = [mdp.state_label(int(mdp.successor[mdp.noise.pair_outcome[first + j]])) for j in range(len(names))]
    other = next(name for name, s_next in zip(names, leads, strict=True) if s_next != log["next_state"][step])
    swapped = [*events[:step], other, *events[step + 1 :]]
    with pytest.raises(FileFormatError, match="to which this event leads in the model, got '3 in stock'"):
        fit(log | {"event": swapped}, model=mdp)


def test_laws_are_frequencies_and_uniform_where_nothing_was_seen():
    assert [law.tolist() for law in laws_of([np.array([3, 1]), np.array([0, 0])])] == [[0.75, 0.25], [0.5, 0.5]]


def test_every_row_takes_the_image_of_the_event_law():
    """Machine replacement: all transitions that separate the events count, whatever their row."""
    mdp, log = simulated("machine", 400)
    estimate = fit(log, model=mdp)
    law = mdp.noise.row_law.reshape(-1)
    shared = np.flatnonzero((law >= 0) & mdp.available.reshape(-1))
    assert np.unique(estimate.counts.reshape(-1)[shared]).size <= len(mdp.noise.events)
    alone = fit(log, model=mdp.with_noise(None))
    assert estimate.counts.max() > alone.counts.max()
    assert estimate.radii.max() < alone.radii.max()


def test_a_reward_that_the_model_does_not_have_is_refused_also_where_the_next_state_is_not_recorded():
    rows = [(0, 0, 1, 0.5, 1.0), (0, 0, 0, 0.5, 0.0), (1, 0, 0, 1.0, 2.0)]
    model = bqrl.MDP(rows, horizon=2, state_names=["a", "b"], action_names=["x"])
    log = {"episode": [0, 0, 1, 1], "state": ["a", "b"] * 2, "action": ["x"] * 4, "reward": [1.0, 2.0, 1.0, 7.0]}
    for stationary in (True, False):
        with pytest.raises(FileFormatError, match="expected the reward of an outcome of this row, got 7"):
            fit(log, stationary=stationary, model=model)
    assert fit(log | {"reward": [1.0, 2.0, 1.0, 2.0]}, model=model).counted == 2


@pytest.mark.parametrize("rewards", [(0.0, 1e-12), (1e-12, 0.0), (2e9, 2e9 + 1.0), (2e9 + 1.0, 2e9), (-3e-13, 3e-13)])
def test_the_outcome_of_a_step_is_the_one_with_the_nearest_reward(rewards):
    """The first outcome within a tolerance was counted even where another one had exactly the logged reward."""
    model = bqrl.MDP([(0, 0, 0, 0.5, rewards[0]), (0, 0, 0, 0.5, rewards[1])], horizon=1)
    order = [rewards.index(r) for r in model.reward[0].tolist()]
    log = {"episode": range(10), "state": [0] * 10, "action": [0] * 10, "next_state": [0] * 10}
    estimate = fit(log | {"reward": [rewards[0]] * 9 + [rewards[1]]}, model=model)
    assert estimate.mdp.probability[np.argsort(order)].tolist() == [0.9, 0.1]


def test_a_rare_event_is_not_counted_as_the_common_one():
    """Rewards 0 and 1e-12 tell the events apart: the promise was 10, and the truth -10."""
    model = bqrl.from_step(
        lambda s, a, e: (1, 0.0 if e == "good" else 1e-12) if s == 0 else (2, 10.0 if e == "good" else -10.0),
        [0], {"good": 0.1, "bad": 0.9}, 2, 0,
    )  # fmt: skip
    log = {"episode": range(400), "state": [0] * 400, "action": [0] * 400, "next_state": [1] * 400}
    rewards = np.where(np.random.default_rng(0).random(400) < 0.9, 1e-12, 0.0)
    estimate = fit(log | {"reward": rewards}, model=model, ends="truncated")
    assert estimate.solve(0.5).value == pytest.approx(-10.0)


def test_a_reward_that_fits_two_outcomes_equally_is_refused():
    log = {"episode": [0, 1], "state": [0, 0], "action": [0, 0], "next_state": [0, 0], "reward": [0.0, 0.0]}
    model = bqrl.MDP([(0, 0, 0, 0.5, -(2.0**-50)), (0, 0, 0, 0.5, 2.0**-50)], horizon=1)
    with pytest.raises(FileFormatError, match="tells the outcomes of the model apart, got 0, which fits two; correct"):
        fit(log, model=model)


def test_outcomes_that_differ_at_other_stages_only_are_not_pooled():
    """Stationary rows whose outcomes pay the same at the first stage: its steps do not show which of them occurred."""
    model = bqrl.MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 2.0)], horizon=2)
    pays = np.array([[1.0, 1.0], [1.0, 2.0]])
    model = bqrl.MDP.from_table(replace(model._table(), reward=pays), 2, model.mu, 1.0)
    steps = {"episode": [0, 0, 1, 1], "state": [0] * 4, "action": [0] * 4, "next_state": [0] * 4}
    log = steps | {"reward": [1.0, 2.0, 1.0, 1.0]}
    with pytest.raises(FileFormatError, match=r"which fits two; correct it or pass model.staged\(\)"):
        fit(log, model=model)
    assert fit(log, model=model.staged()).counts.tolist() == [[[2]], [[2]]]


def test_a_named_next_state_counts_where_a_column_marks_the_end():
    """A log of our own environment, which marks the last step as terminated, was once refused."""
    model = bqrl.MDP([(0, 0, 0, 0.5, -1.0), (0, 0, 1, 0.5, 0.0), (1, 0, 1, 1.0, 0.0)], horizon=2)
    rows = [(1, 0, -1.0, 0, 0), (1, 0, -1.0, 0, 1), (2, 0, 0.0, 1, 1), (3, 0, -1.0, 0, 0), (3, 0, 0.0, 1, 1)]
    log = dict(zip(("episode", "state", "reward", "next_state", "terminated"), zip(*rows, strict=True), strict=True))
    estimate = fit(log | {"action": [0] * 5}, model=model)
    assert estimate.counts.tolist() == [[[5], [0]]]
    assert estimate.mdp.probability.tolist() == [0.6, 0.4, 1.0]
    unnamed = log | {"action": [0] * 5, "next_state": [0, None, None, 0, None]}
    with pytest.raises(FileFormatError, match="expected an episode that lasts to the horizon"):
        fit(unnamed, model=model)


@pytest.mark.parametrize("hidden", [False, True])
def test_the_tries_of_a_row_are_its_own_where_rows_share_noise(hidden):
    """The observations of the law were once shown as visits of every row, and the logging policy was wrong."""
    mdp, log = simulated("asset selling", 100)
    log = {name: np.asarray(column) for name, column in log.items() if name != "next_state" or not hidden}
    if hidden:
        mdp = mdp.staged()
    estimate = fit(log, model=mdp)
    last = log["stage"] == mdp.H - 1
    for s, name in enumerate(mdp.state_names):
        here = (log["state"] == name) & ~(last & hidden)
        played = [np.count_nonzero(here & (log["action"] == a)) for a in mdp.action_names]
        assert estimate.tries[:, s].sum(axis=0).tolist() == played
    shares = estimate.tries / np.maximum(estimate.tries.sum(axis=2, keepdims=True), 1)
    assert np.array_equal(np.nan_to_num(estimate.logging_policy), shares)
    assert sum(row["visits"] for row in estimate.rows()) == estimate.counted
    assert np.any(estimate.counts > estimate.tries)


@pytest.mark.parametrize("tries", [0, 12])
def test_the_reason_counts_the_observations_of_shared_noise(tries):
    """An action was called never tried, or said to show 28 outcomes in 12 tries; its law was observed 60 times."""
    mdp = bqrl.from_step(lambda s, a, e: (s, e * (1.0 + a)), [0, 1], {e: 1 / 30 for e in range(30)}, 1, 0)
    event, action = np.random.default_rng(0).integers(0, 30, 60), np.repeat([0, 1], [60 - tries, tries])
    log = {"episode": range(60), "state": [0] * 60, "action": action, "reward": event * (1.0 + action), "event": event}
    reason = fit(log, model=mdp).reason(0.02)
    assert reason.startswith("action '1' in state '0' has noise that was observed 60 times: with the radius")
    assert "different outcomes" not in reason
