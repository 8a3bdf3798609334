"""Logs of a known model."""

import numpy as np
import pytest
from logged_problems import simulated

import bqrl
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.logs.fit import fit


def test_a_model_names_labels_and_outcomes():
    model = bqrl.MDP(
        [[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=2, state_names=["s", "t"], action_names=["a"]
    )
    log = {"episode": [0, 0, 1, 1], "state": ["s", "t", "s", "s"], "action": ["a"] * 4, "reward": [0.0, 1.0, 0.0, 0.0]}
    estimate = fit(log | {"next_state": ["t", "t", "s", "t"]}, model=model)
    assert estimate.counts[0, :, 0].tolist() == [3, 1]
    assert estimate.mdp.probability.tolist() == [1 / 3, 2 / 3, 1.0]
    for changed, words in (
        ({"state": ["s", "u", "s", "s"]}, "the model has no state 'u'"),
        ({"action": ["a", "b", "a", "a"]}, "the model has no action 'b'"),
        ({"reward": [7.0, 1.0, 0.0, 0.0]}, "no outcome with this next_state and reward 7"),
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
    with pytest.raises(ArgumentError, match="model must have at least 6 stages"):
        fit(log, model=bqrl.envs.make("MachineReplacement", horizon=3), horizon=6)
    with pytest.raises(ArgumentError, match="stationary must be False"):
        fit(log, model=mdp.with_noise(None).staged(), stationary=True)
    short = {name: column[:-1] for name, column in log.items()}
    with pytest.raises(FileFormatError, match="ends before the horizon; name the next_state"):
        fit({name: column for name, column in short.items() if name != "next_state"}, model=mdp)
