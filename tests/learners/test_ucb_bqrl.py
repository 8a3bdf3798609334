import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import random_mdp, small_mdps

import bqrl
from bqrl import MDP, evaluate
from bqrl.errors import ArgumentError, ArgumentTypeError, FileFormatError
from bqrl.laws.law import Margin
from bqrl.learners.play import ModelWorld
from bqrl.learners.protocol import Episode, Task, blank_model
from bqrl.learners.run import Run, learn
from bqrl.learners.ucb_bqrl import UCBBQRL, read_buffer
from bqrl.mdp.files import read_arrays, write_arrays
from bqrl.planners.expected import best_mean

MODEL = bqrl.envs.make("AssetSelling")


def learner(mdp, tau=0.3, T=50, seed=0, **params):
    task = Task(
        structure=mdp.structure,
        model=blank_model(mdp),
        discount=1.0,
        objective=bqrl.Quantile(tau),
        episodes=T,
        delta=0.05,
    )
    return UCBBQRL(task, np.random.default_rng(seed), **params)


# -- optimism and the confidence event ----------------------------------------------------------------------------------


def inside(mdp, ucb):
    """Whether the true kernel lies in every ball of the learner."""
    true, found = mdp.staged(), ucb.counts.probability
    distance = np.add.reduceat(np.abs(true.probability - found), true.row_start[:-1][np.diff(true.row_start) > 0])
    half = ucb.half_radius().reshape(-1)[np.diff(true.row_start) > 0]
    return bool(np.all(distance <= 2 * half + 1e-12))


def test_theoretical_radii_give_optimism_and_hold_with_their_confidence():
    # delta = 0.05 for all episodes of a run together: of 60 runs at most 9 may leave the set, but for a chance below
    # P(Binomial(60, 0.05) > 9) < 0.002.
    rng, missed, runs = np.random.default_rng(12), 0, 60
    for i in range(runs):
        mdp = random_mdp(rng, plain=True, horizon=3)
        tau = float(rng.choice([0.25, 0.5, 0.8]))
        best = bqrl.solve(mdp, tau).value
        ucb = learner(mdp, tau=tau, T=25, seed=i, c_conf="theory", buffer="point", stationary=False)
        world, held = ModelWorld(mdp, np.random.default_rng(1000 + i)), True
        for _ in range(25):
            policy = ucb.plan()
            covered = inside(mdp, ucb)
            held &= covered
            if covered:
                assert ucb.notes()["optimistic"] >= best - 1e-9
            ucb.observe(world.play(policy, ucb.rng))
        missed += not held
    assert missed <= 9


@given(small_mdps(horizon=3), st.sampled_from([0.25, 0.5, 0.8]), st.integers(0, 100))
@settings(max_examples=25)
def test_buffered_optimism_in_every_episode(mdp, tau, seed):
    ucb = learner(mdp, tau=tau, T=8, seed=seed, c_conf="theory", stationary=False)
    world = ModelWorld(mdp, np.random.default_rng(seed))
    for t in range(8):
        policy = ucb.plan()
        assert ucb.notes()["beta"] == pytest.approx(tau / np.log(np.e + t))
        if inside(mdp, ucb):
            best = bqrl.solve(mdp, tau, beta=ucb.beta).value
            assert ucb.notes()["optimistic"] >= best - 1e-9
        ucb.observe(world.play(policy, ucb.rng))


# -- parameters ---------------------------------------------------------------------------------------------------------


def test_radii_in_closed_form():
    ucb = learner(MODEL, T=2000, tau=0.1, c_conf=0.1, stationary=False)
    log = np.log(2 * 26 * 2 * 2000 * 10 / 0.05)
    half = ucb.half_radius()
    assert half.shape == (10, 52)
    assert half[0, 2 * 5 + 1] == pytest.approx(0.05 * np.sqrt(log))
    assert half[0, 2 * 5] == 0.0  # Stop is known
    ucb.counts.visits[3, 5, 1] = 49
    assert ucb.half_radius()[3, 11] == pytest.approx(0.05 * np.sqrt(log / 49))
    theory = learner(MODEL, T=2000, tau=0.1, c_conf="theory", stationary=False)
    assert theory.half_radius()[0, 11] == 1.0  # the full simplex before the first visit


def test_by_default_the_radius_falls_with_the_visits_of_its_row_and_returns_with_the_logarithm_of_time():
    ucb, small = learner(MODEL, T=2000), learner(MODEL, T=2000, c_conf=0.008)
    row, log = 2 * 5 + 1, np.log(2 * 26 * 2 * 2000 * 10 / 0.05)
    assert ucb.half_radius()[0, row] == pytest.approx(0.5 * np.sqrt(log / 10))  # no visits: 1 / sqrt(H)
    ucb.counts.visits[0, 5, 1] = small.counts.visits[0, 5, 1] = 40
    ucb.t = 1000
    c = 0.008 + (10**-0.5 - 0.008) / (1 + 40 / np.log(np.e + 1000))
    assert ucb.half_radius()[0, row] == pytest.approx(0.5 * c * np.sqrt(log / 40))
    ucb.counts.visits[0, 5, 1] = small.counts.visits[0, 5, 1] = 10**7
    assert ucb.half_radius()[0, row] == pytest.approx(small.half_radius()[0, row], rel=1e-4)


def test_the_planners_of_the_paper_and_its_study_keep_the_constant_multiplier():
    assert learner(MODEL, planner="greedy").c_conf == learner(MODEL, planner="frontier").c_conf == 0.008
    assert learner(MODEL, T=8000, stationary=False).c_conf == 0.008  # as in the study of the paper
    assert learner(MODEL).c_conf == "visits"


def stages(arms, H):
    """A bandit of H stages whose kernel is stored per stage; arm k pays 3 with probability arms[k] and 0 otherwise."""
    kernel, reward = np.zeros((H, 2, len(arms), 2)), np.zeros((H, 2, len(arms), 2))
    kernel[..., 1], kernel[..., 0], reward[..., 1] = arms, 1 - np.asarray(arms), 3.0
    return MDP(kernel, reward)


def test_counts_per_stage_explore_if_the_run_suffices_for_their_rows():
    mdp = stages([0.4, 0.7], H=3)  # state 1 cannot occur at stage 1: 2 + 4 + 4 unknown probabilities
    assert learner(mdp, T=333).c_conf == 0.008
    assert learner(mdp, T=334).c_conf == "visits"
    assert learner(mdp, T=334, planner="greedy").c_conf == 0.008


def test_a_bandit_with_counts_per_stage_is_not_abandoned_after_one_unlucky_draw():
    mdp = stages([1 / 3, 0.4, 0.4, 0.4, 0.4, 0.4, 0.62], H=3)
    for seed in (900, 901, 902, 903):
        gap = learn(mdp, "ucb-bqrl", 0.9, 1500, seed).gap()
        assert np.mean(gap[-300:] > 0) < 0.1


def test_an_arm_that_was_unlucky_at_first_is_tried_again():
    bandit = bqrl.envs.make("Bandit", probabilities=(0.7,), sure=3.0, high=9.0, low=0.0)
    tried = []
    for c_conf in (0.008, "visits"):
        ucb = learner(bandit, tau=0.4, T=400, c_conf=c_conf)
        ucb.observe(Episode(np.array([0, 0]), np.array([1]), np.array([0.0])))  # it pays 9 in 7 of 10 cases
        world = ModelWorld(bandit, np.random.default_rng(0))
        for _ in range(100):
            ucb.observe(world.play(ucb.plan(), ucb.rng))
        tried.append(int(ucb.counts.visits[0, 0, 1]) - 1)
    assert tried[0] == 0
    assert tried[1] > 50


def test_the_centred_window_starts_at_the_mean_and_ends_at_the_quantile():
    record = learn(MODEL, "ucb-bqrl", 0.3, 60, 3, window="centred")
    b = 4 * np.sqrt(0.3 * 0.7 / (np.arange(60) + 1))
    expected = np.minimum(1.0, 0.3 + b) - np.maximum(0.0, 0.3 - b)
    assert np.allclose(record.notes["beta"], expected)
    assert record.notes["beta"][0] == 1.0
    first = learner(MODEL, tau=0.3, window="centred", c_conf=0.0)
    assert evaluate(blank_model(MODEL), first.plan()).mean() == pytest.approx(best_mean(blank_model(MODEL))[0])


def test_counts_are_pooled_by_default_where_one_kernel_serves_all_stages():
    assert learner(MODEL).counts.M == 1
    assert learner(MODEL, stationary=False).counts.M == 10
    assert learner(bqrl.envs.make("AssetSelling", stop_at_end=True)).counts.M == 10


def test_pooled_counts_share_all_stages():
    ucb = learner(MODEL, c_conf=0.01)
    ucb.plan()
    ucb.observe(Episode(np.array([5, *range(1, 11)]), np.ones(10, np.int64), np.zeros(10)))
    assert ucb.counts.visits.shape == (1, 26, 2)
    assert ucb.counts.visits.sum() == 10
    assert ucb.plan().H == 10


@pytest.mark.parametrize(
    ("buffer", "values"),
    [
        ("log", [0.3, 0.3 / np.log(np.e + 1)]),
        ("power:0.5", [0.3, 0.3 / np.sqrt(2)]),
        (0.2, [0.2, 0.2]),
        ("point", [0.0, 0.0]),
    ],
)
def test_schedules(buffer, values):
    schedule, _ = read_buffer(buffer, 0.3)
    assert [schedule(0), schedule(1)] == pytest.approx(values)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"planner": "targit"}, "planner must be one of 'target', 'greedy', 'frontier'"),
        ({"window": "upper"}, "window must be one of 'lower', 'centred'"),
        ({"c_conf": -1.0}, "c_conf must be a number of at least 0"),
        ({"c_conf": "paper"}, "c_conf must be 'visits', 'theory' or a number, got 'paper'"),
        ({"buffer": "linear"}, "buffer must be 'log', 'adaptive', 'point'"),
        ({"buffer": 0.4}, "must be in (0, tau]"),
        ({"buffer": 10**400}, "beta must be a number in (0, 1]"),
        ({"buffer": lambda t: 0.1 + t / 100}, "must not increase"),
        ({"buffer": lambda t: -0.1}, "must be in (0, tau]"),
        ({"replan_factor": 0.5}, "replan_factor must be a number of at least 1"),
    ],
)
def test_bad_parameters_get_one_line(params, message):
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        learn(MODEL, "ucb-bqrl", 0.3, 5, 1, **params)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("buffer", ["power:20", "power:400", lambda t: max(0.0, 0.3 - t / 10), 1e-12])
def test_a_buffer_that_falls_below_the_smallest_possible_one_stays_there(buffer):
    mdp = random_mdp(np.random.default_rng(3), plain=True, horizon=2)
    for planner in ("frontier", "greedy", "target"):
        record = learn(mdp, "ucb-bqrl", 0.3, 8, 1, planner=planner, buffer=buffer)
        assert record.notes["beta"][-1] == 1e-9
        assert np.all(np.diff(record.notes["beta"]) <= 0)


def test_the_adaptive_buffer_never_grows_and_stays_above_what_the_counts_resolve():
    record = learn(MODEL, "ucb-bqrl", 0.5, 120, 5, buffer="adaptive")
    beta = record.notes["beta"]
    assert np.all(np.diff(beta) <= 0)
    assert np.all((beta > 0) & (beta <= 0.5))
    assert np.all(beta <= 0.5 / np.log(np.e + np.arange(120)) + 1e-12)


@pytest.mark.parametrize(
    ("below", "above", "t", "narrowed"),
    [(0.03, 0.05, 2000, True), (0.03, 0.05, 100, False), (0.002, 0.2, 2000, False), (0.03, 0.002, 2000, False)],
)
def test_the_adaptive_buffer_narrows_once_both_margins_are_clear(below, above, t, narrowed):
    ucb = learner(MODEL, tau=0.5, buffer="adaptive")
    ucb.t = t - t % 50
    ucb._margins = lambda: Margin(below, above)
    log = 0.5 / np.log(np.e + ucb.t)
    assert ucb._next_beta() == pytest.approx(below if narrowed else log)


@pytest.mark.parametrize("buffer", ["log", "point"])
def test_the_recorded_gap_is_the_bound_minus_what_the_plan_attains_under_the_empirical_kernel(buffer):
    ucb = learner(MODEL, tau=0.3, c_conf=0.05, buffer=buffer)
    world = ModelWorld(MODEL, np.random.default_rng(3))
    for _ in range(25):
        policy = ucb.plan()
        notes = ucb.notes()
        empirical = evaluate(ucb.model.with_probability(ucb.counts.probability.copy()), policy)
        attained = empirical.buffered_quantile(0.3, notes["beta"])
        assert notes["nominal"] == pytest.approx(attained, abs=1e-12)
        assert notes["planner_gap"] == pytest.approx(notes["bound"] - attained, abs=1e-9)
        ucb.observe(world.play(policy, np.random.default_rng(0)))


def test_rewards_by_outcome_are_learned_with_the_target_planner():
    mdp = MDP(
        [(0, 0, 0, 0.5, 1.0), (0, 0, 1, 0.5, 2.0), (0, 1, 1, 1.0, 1.0), (1, 0, 0, 1.0, 0.0), (1, 1, 1, 1.0, 1.0)],
        horizon=3,
    )
    record = learn(mdp, "ucb-bqrl", 0.3, 40, 2)
    assert record.gap().tolist()[-1] == pytest.approx(0.0)


# -- runs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"planner": "greedy"},
        {"replan_factor": 2.0},
        {"stationary": False},
        {"buffer": "adaptive"},
        {"window": "centred"},
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(params, tmp_path):
    whole = Run(MODEL, "ucb-bqrl", 0.3, 40, 9, **params)
    for _ in range(40):
        whole.step()
    first = Run(MODEL, "ucb-bqrl", 0.3, 40, 9, **params)
    for _ in range(17):
        first.step()
    write_arrays(tmp_path / "run.npz", first.state())
    second = Run(MODEL, "ucb-bqrl", 0.3, 40, 9, **params)
    second.restore(read_arrays(tmp_path / "run.npz"))
    for _ in range(23):
        second.step()
    a, b = whole.record(), second.record()
    assert np.array_equal(a.returns, b.returns)
    assert np.array_equal(a.pmf[a.law_of], b.pmf[b.law_of])
    for name, values in a.notes.items():
        assert np.array_equal(values, b.notes[name], equal_nan=True)


def test_frontier_planning_on_a_tiny_problem_follows_its_labels():
    mdp = MDP([[[0.5, 0.5], [0.9, 0.1]], [[0.3, 0.7], [1.0, 0.0]]], [[0.0, 1.0], [2.0, 0.0]], horizon=2)
    record = learn(mdp, "ucb-bqrl", 0.4, 12, 3, planner="frontier")
    assert record.final_policy.kind == "label"
    assert np.all(np.isin(record.notes["candidate"], range(6)))


def test_learning_closes_the_gap_and_replanning_less_often_plans_less():
    record = learn(MODEL, "ucb-bqrl", 0.5, 400, 77)
    assert record.gap(0.5)[-50:].mean() < 0.02
    assert record.gap(0.5).shape == (400,)
    assert np.all(record.gap(0.5) >= -1e-12)
    assert record.expected_regret().min() > -1e-9
    seldom = learn(MODEL, "ucb-bqrl", 0.5, 400, 77, replan_factor=2.0, stationary=False)
    always = learn(MODEL, "ucb-bqrl", 0.5, 400, 77, stationary=False)
    assert np.count_nonzero(np.diff(seldom.notes["optimistic"])) < np.count_nonzero(np.diff(always.notes["optimistic"]))


@pytest.mark.parametrize("beta", [0.0, 0.2, np.nan])
def test_a_buffer_outside_the_schedule_is_refused_when_a_run_is_restored(beta):
    run, again = (Run(MODEL, "ucb-bqrl", 0.1, 5, 1) for _ in range(2))
    for _ in range(3):
        run.step()
    again.restore(run.state())
    with pytest.raises(FileFormatError, match="beta must be"):
        again.restore(run.state() | {"learner_beta": np.array(beta)})


def test_the_values_of_a_large_problem_are_followed_as_those_of_a_small_one(monkeypatch):
    """CVaR on a problem too large for one compiled call ended in an AssertionError."""
    records = []
    for work in (None, 0):
        if work is not None:
            monkeypatch.setattr("bqrl.planners.sweep.SMALL_WORK", work)
            monkeypatch.setattr("bqrl.planners.sweep.Layout.in_one_call", lambda self, columns: False)
        mdp = bqrl.envs.make("SafeOrRisky", horizon=3)
        records.append(learn(mdp, "ucb-bqrl", objective=bqrl.CVaR(0.2), episodes=8, seed=1, progress=False))
    assert records[0].value() == pytest.approx(records[1].value())
    np.testing.assert_array_equal(records[0].returns, records[1].returns)
