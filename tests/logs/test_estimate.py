"""Promises: check numbers, coverage, words, files."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

import bqrl
from bqrl.errors import FileFormatError
from bqrl.logs.fit import fit

PATH = Path(__file__).parents[2] / "benchmarks" / "logs.py"
SPEC = importlib.util.spec_from_file_location("logs_benchmark", PATH)
study = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(study)


def selling_log(episodes, seed, mdp):
    """Asset selling; the logging policy sells offer s with probability 0.15 s / 24."""
    sell = np.r_[0.15 * np.arange(25) / 24, 0.5]
    policy = np.broadcast_to(np.stack([sell, 1 - sell], axis=1), (mdp.H, mdp.S, mdp.A))
    return study.played(mdp, policy, episodes, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def selling():
    return bqrl.envs.make("AssetSelling")


@pytest.mark.parametrize(("episodes", "pooled", "staged"), [(300, 9, 5), (1000, 14, 5), (3000, 16, 9)])
def test_promises_for_asset_selling(selling, episodes, pooled, staged):
    """The optimum is 19; the expected numbers are those of a prototype, up to one offer. Medians over five logs."""
    logs = [selling_log(episodes, seed, selling) for seed in range(5)]
    for model, value in ((selling, pooled), (selling.staged(), staged)):
        found = np.median([24 * fit(log, model=model).solve(0.1).value for log in logs])
        assert abs(found - value) <= 1 + 1e-9


@pytest.mark.parametrize(("episodes", "value"), [(100, 16), (300, 17), (1000, 18)])
def test_promises_with_one_law_of_offers(episodes, value):
    shared = bqrl.envs.make("AssetSelling", shared=True)
    assert abs(round(24 * fit(selling_log(episodes, 0, shared), model=shared).solve(0.1).value) - value) <= 1


@pytest.mark.parametrize("kind", study.LOGGING)
@pytest.mark.parametrize("name", list(study.problems()))
def test_promises_hold(name, kind):
    """10 logs each: if a promise held with probability 0.95 only, 6 or fewer would hold with probability 0.001."""
    mdp = study.problems()[name]
    for way in study.ways(mdp):
        found = list(study.promises(mdp, kind, way, episodes=400, repetitions=10, seed=3))
        assert sum(one["promise"] <= one["truth"] + 1e-9 for one in found) > 6
        assert all(one["truth"] <= bqrl.guarantee_curve(mdp)(study.TAU) + 1e-9 for one in found)


def test_plug_in_plans_break_their_word_where_promises_hold():
    mdp = study.problems()["inventory"]
    found = list(study.promises(mdp, "uniform", "support known", episodes=100, repetitions=20, seed=1))
    assert sum(one["claimed"] > one["plug_in"] + 1e-9 for one in found) >= 5
    assert all(one["promise"] <= one["truth"] + 1e-9 for one in found)


def test_more_knowledge_never_promises_less():
    mdp = study.problems()["machine"]
    log = study.played(mdp, study.logging_policy(mdp, "uniform"), 2000, np.random.default_rng(0))
    values = [study.fitted(mdp, log, way).solve(0.1).value for way in study.WAYS]
    assert values == sorted(values)
    assert values[-1] > values[0]


def test_events_count_where_outcomes_hide_them():
    """A stock-out hides the demand; the column of events shows it."""
    mdp = study.problems()["inventory"]
    rng = np.random.default_rng(0)
    log = study.played(mdp, study.logging_policy(mdp, "uniform"), 300, rng)
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
    hidden, told = fit(log, model=mdp), fit(log | {"event": events}, model=mdp)
    assert told.counts.max() > hidden.counts.max()
    with pytest.raises(FileFormatError, match="column 'event': the event '99' is not in the noise law"):
        fit(log | {"event": ["99", *events[1:]]}, model=mdp)
    full, order_none = mdp.state_label(mdp.S - 1), mdp.action_label(0)  # a full stock separates demands
    step = int(np.flatnonzero((log["state"] == full) & (log["action"] == order_none))[0])
    first = mdp.noise.pair_start[mdp.noise.row(0, mdp.S - 1, 0)]
    leads = [mdp.state_label(int(mdp.successor[mdp.noise.pair_outcome[first + j]])) for j in range(len(names))]
    other = next(name for name, s_next in zip(names, leads, strict=True) if s_next != log["next_state"][step])
    swapped = [*events[:step], other, *events[step + 1 :]]
    with pytest.raises(FileFormatError, match="column 'event': in the model this event leads to state"):
        fit(log | {"event": swapped}, model=mdp)


def test_the_lowest_possible_return_is_no_useful_promise(selling):
    estimate = fit(selling_log(3, 0, selling), model=selling.staged())
    value = estimate.solve(0.1).value
    assert estimate.trivial(0.0)
    assert estimate.trivial(-np.inf)
    assert not estimate.trivial(max(value, 1 / 24))


def coin(n, heads):
    return {"episode": range(n), "state": ["s"] * n, "action": ["a"] * n, "reward": [1.0] * heads + [0.0] * (n - heads)}


def test_the_sentence_names_what_it_rests_on():
    plan = fit(coin(5000, 5000), reward_range=(0, 1)).solve(0.1)
    assert plan.notes[0] == (
        "With 95 % confidence, in 9 of 10 episodes you get at least 1, assuming that the next state and the reward depend "
        "only on the stage, state and action; every episode starts in state 's'; rewards lie between 0 and 1."
    )
    assert "99 % of episodes" not in plan.notes[0]
    assert "in 85 % of episodes" in fit(coin(5000, 5000), reward_range=(0, 1)).solve(0.15).notes[0]
    nothing = fit(coin(5, 5) | {"reward": [1.0] * 5}, reward_by="state-action", horizon=2).solve(0.1)
    assert nothing.value == -np.inf
    assert nothing.notes[0].startswith("No promise is possible")


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [3, 20, 200])
def test_order_statistics_cover_the_quantile(tau, n):
    """Against the binomial law: the ends are the tightest that keep each tail at 0.025."""
    log = coin(n, n) | {"reward": np.arange(n, dtype=float)}
    found = fit(log, reward_range=(0, n)).logged(tau)
    tail = 0.025
    below = max((i for i in range(1, n + 1) if binom.cdf(i - 1, n, tau) <= tail), default=0)
    above = min((i for i in range(1, n + 1) if binom.sf(i - 1, n, tau) <= tail), default=n + 1)
    assert found["lower"] == (below - 1 if below else -np.inf)
    assert found["upper"] == (above - 1 if above <= n else np.inf)
    assert found["value"] == np.ceil(n * tau) - 1


def test_buffered_promises_hold_and_need_a_lowest_reward():
    mdp = study.problems()["random"]
    log = study.played(mdp, study.logging_policy(mdp, "uniform"), 3000, np.random.default_rng(0))
    estimate = study.fitted(mdp, log, "nothing known")
    plan = estimate.solve(0.3, 0.3)
    truth = bqrl.evaluate(study.embedded(mdp, estimate), plan.policy).cvar(0.3)
    assert 0.0 < plan.value <= truth
    assert "the CVaR at 0.3 of the return is at least" in plan.notes[0]
    with pytest.raises(ValueError, match="reward_range must be given to fit"):
        fit(coin(9, 9), reward_by="state-action", horizon=2).solve(0.5, 0.1)


def test_projections_grow_and_start_at_the_promise():
    mdp = study.problems()["machine"]
    log = study.played(mdp, study.logging_policy(mdp, "uniform"), 200, np.random.default_rng(0))
    estimate = fit(log, model=mdp)
    values = [one["value"] for one in estimate.projection(0.1, (1, 2, 4, 10))]
    assert values == sorted(values)
    assert values[0] == estimate.solve(0.1).value
    assert values[0] < values[-1] <= estimate.plug_in(0.1).value


@pytest.mark.parametrize("way", study.WAYS)
def test_estimates_are_saved_and_loaded(tmp_path, way):
    mdp = study.problems()["machine"]
    log = study.played(mdp, study.logging_policy(mdp, "uniform"), 300, np.random.default_rng(0))
    estimate = study.fitted(mdp, log, way)
    bqrl.save(estimate, tmp_path / "estimate.npz")
    again = bqrl.load(tmp_path / "estimate.npz")
    assert str(again) == str(estimate)
    assert again.rows() == estimate.rows()
    assert again.solve(0.1).value == estimate.solve(0.1).value
    assert again.solve(0.1).notes == estimate.solve(0.1).notes
    assert again.logged(0.1) == estimate.logged(0.1)
    assert len(again.to_frame()) == len(estimate.rows())


def test_files_that_are_no_estimates_are_one_line(tmp_path):
    np.savez(tmp_path / "other.npz", bqrl_estimate=1)
    with pytest.raises(FileFormatError, match="the array 'H' is missing"):
        bqrl.load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"confidence": 1.0}, "confidence must be a number in"),
        ({"reward_range": (1, 0)}, r"reward_range\[1\] must be a number of at least 1"),
        ({"reward_range": 3}, "reward_range must be two numbers"),
        ({"ends": "cut"}, "ends must be one of"),
        ({"reward_by": "state"}, "reward_by must be one of"),
        ({"stationary": 1}, "stationary must be True or False"),
        ({"start": "t"}, "start names the state 't'"),
        ({"known": [("s", "a", "s", 1.0)]}, "known must hold tuples of 5 or 6"),
        ({"support": "all"}, "support must be one of 'states'"),
        ({"model": 3}, "model must be an MDP"),
    ],
)
def test_bad_arguments_are_one_line(options, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        fit(coin(9, 5), **{"reward_range": (0, 1)} | options)
    assert "\n" not in str(caught.value)
