import numpy as np
import pytest
from learner_problems import two_arms

import bqrl
from bqrl import evaluate
from bqrl.envs import asset_selling
from bqrl.errors import ArgumentError
from bqrl.learners.protocol import Task, blank_model
from bqrl.learners.psrl import PSRL
from bqrl.learners.run import Run, learn
from bqrl.planners.expected import best_mean
from bqrl.policies.shares import uniform

SMALL = asset_selling(offers=6, start=1, distribution="geometric")


def learner(mdp, tau=0.3, seed=0, **params):
    task = Task(
        structure=mdp.structure,
        model=blank_model(mdp),
        discount=1.0,
        objective=bqrl.Quantile(tau),
        episodes=50,
        delta=0.05,
    )
    return PSRL(task, np.random.default_rng(seed), **params)


def test_psrl_is_the_default_learner():
    assert learn(SMALL, tau=0.3, episodes=3, seed=1).settings["learner"] == "psrl"


def test_draws_are_kernels_on_the_known_support_and_known_rows_stay():
    psrl = learner(SMALL)
    known = np.repeat(psrl.counts.known.reshape(-1), np.diff(psrl.counts.row_start))
    for _ in range(20):
        kernel = psrl.draw()
        SMALL.with_probability(kernel)  # checks that rows are laws
        assert np.array_equal(kernel[known], SMALL.probability[known])


def test_rows_drawn_together_have_the_moments_of_a_posterior_that_doubts_early_counts():
    psrl = learner(two_arms(), seed=3)
    psrl.counts.seen[:] = [6, 2, 30, 10]
    psrl.counts.visits[:] = [[[8, 40]]]
    draws = np.array([psrl.draw() for _ in range(20_000)])
    for row, weight in ((slice(0, 2), 8 / 18), (slice(2, 4), 40 / 50)):
        shapes = 0.5 + weight * psrl.counts.seen[row]
        total = shapes.sum()
        mean = shapes / total
        assert draws[:, row].mean(axis=0) == pytest.approx(mean, abs=5e-3)
        assert draws[:, row].var(axis=0) == pytest.approx(mean * (1 - mean) / (total + 1), rel=0.1)


def test_in_other_episodes_some_rows_are_drawn_and_the_others_keep_their_mean():
    psrl = learner(two_arms(), seed=3)
    psrl.t = 1
    psrl.counts.seen[:] = [6, 2, 30, 10]
    psrl.counts.visits[:] = [[[8, 40]]]
    draws, mean = np.array([psrl.draw() for _ in range(5000)]), psrl.mean()
    drawn = draws[:, ::2] != mean[::2]
    assert drawn.any(axis=1).all()
    assert drawn.mean(axis=0) == pytest.approx(0.5 + 0.5 * 2**-0.5, abs=0.03)  # chosen, or by its own chance


@pytest.mark.parametrize("episode", [0, 1])
def test_good_draws_of_different_rows_coincide_in_every_third_episode(episode):
    rows = [(s, 0, s + 1, 0.5, 1.0) for s in range(3)] + [(s, 0, 3, 0.5, 0.0) for s in range(3)] + [(3, 0, 3, 1.0, 0.0)]
    psrl = learner(bqrl.MDP(rows, horizon=3), seed=1)
    psrl.t = episode
    better = [
        int(np.flatnonzero(psrl._worth[2 * i : 2 * i + 2] == psrl._worth[2 * i : 2 * i + 2].max())[0]) for i in range(3)
    ]
    draws = np.array([psrl.draw()[psrl._units.outcomes] for _ in range(4000)])
    first, second = (draws[:, 2 * i + better[i]] for i in range(2))
    correlation = np.corrcoef(first, second)[0, 1]
    assert correlation > 0.3 if episode == 0 else abs(correlation) < 0.1
    assert first.mean() == pytest.approx(0.5, abs=0.03)  # the mean of each row alone does not change


def test_a_row_whose_draws_underflow_keeps_its_posterior_mean():
    psrl = learner(SMALL, prior=1e-12)
    assert np.isfinite(psrl.draw()).all()
    SMALL.with_probability(psrl.draw())


def test_the_first_plan_is_risk_neutral_and_later_ones_aim_at_the_quantile():
    psrl = learner(SMALL)
    drawn = []
    draw = psrl.draw
    psrl.draw = lambda: drawn.append(draw()) or drawn[-1]
    psrl.mean = lambda: drawn[-1]  # a draw at the mean is always played
    policy = psrl.plan()
    model = SMALL.with_probability(drawn[0])
    assert evaluate(model, policy).mean() == pytest.approx(best_mean(model)[0])
    assert psrl.notes()["planned_value"] == pytest.approx(best_mean(model)[0])
    psrl.t = 10**9
    policy = psrl.plan()
    model = SMALL.with_probability(drawn[1])
    assert evaluate(model, policy).quantile(0.3) == bqrl.solve(model, 0.3).value


@pytest.mark.parametrize(
    ("waited", "chance", "explores"), [(0, 0.79, False), (0, 0.81, True), (64, 0.74, False), (64, 0.76, True)]
)
def test_a_draw_is_played_if_its_gain_outweighs_its_cost(monkeypatch, waited, chance, explores):
    """Success has the posterior mean 0.7 for one arm and 0.6 for the other, whose draw must exceed 0.8, and 0.75 after a wait."""
    monkeypatch.setattr("bqrl.learners.psrl.centred_window", lambda tau, t, beta: (1.0, 1.0))  # the mean
    psrl = learner(two_arms(), prior=1e-9)
    psrl.t, psrl._explored = 100, 100 - waited
    pays = psrl.replanner.model.reward[0] == 1.0
    psrl.counts.seen[:] = np.where(pays, [70, 70, 60, 60], [30, 30, 40, 40])
    psrl.counts.visits[:] = 100
    rate = np.array([0.7, 0.7, chance, chance])
    psrl.draw = lambda: np.where(pays, rate, 1.0 - rate)
    policy = psrl.plan()
    assert policy.act(0, 0, policy.start()) == int(explores)
    assert psrl.notes()["explores"] == explores
    assert psrl._explored == (100 if explores else 100 - waited)


def test_the_posterior_mean_is_the_share_of_successes():
    psrl = learner(two_arms(), prior=2.0)
    psrl.counts.seen[:] = [6, 2, 30, 10]
    psrl.counts.visits[:] = [[[8, 40]]]
    assert psrl.mean() == pytest.approx([7 / 10, 3 / 10, 31 / 42, 11 / 42])


@pytest.mark.parametrize("window", ["centred", "lower"])
def test_psrl_learns_the_quantile(window):
    record = learn(SMALL, "psrl", 0.3, 400, 5, window=window)
    assert record.gap()[-100:].mean() < 0.1 * record.gap()[:5].max() + 1e-9
    assert record.notes["beta"][-1] < record.notes["beta"][0]


def test_a_bad_first_draw_does_not_stick():
    """One stage: a safe arm pays 4, a risky one 8 with probability 0.62 and else 1, so its median is better."""
    mdp = bqrl.MDP([(0, 0, 0, 1.0, 4.0), (0, 1, 0, 0.62, 8.0), (0, 1, 0, 0.38, 1.0)], horizon=1)
    late = [learn(mdp, "psrl", 0.5, 400, seed).gap()[-100:].mean() for seed in range(10)]
    assert np.mean(late) < 1.0


def test_counts_are_pooled_by_default():
    assert learner(asset_selling()).counts.M == 1
    assert learner(asset_selling(), stationary=False).counts.M == 10
    assert learner(asset_selling(stop_at_end=True)).counts.M == 10


def test_bad_parameters_are_one_line():
    for params, match in (
        ({"prior": 0.0}, "prior must be a number above 0"),
        ({"window": "x"}, "window must be one of"),
    ):
        with pytest.raises(ArgumentError, match=match):
            Run(SMALL, "psrl", 0.3, 5, 0, **params)


def test_states_that_are_never_met_do_not_change_what_is_learned():
    rows = [(s, a, t, 0.5, float(s * a)) for s in (0, 1) for a in (0, 1) for t in (0, 1)]
    more = [(s, a, t, 0.5, 1.0) for s in range(2, 40) for a in (0, 1) for t in (0, s)]
    small, large = bqrl.MDP(rows, horizon=4), bqrl.MDP(rows + more, horizon=4)
    assert learner(large)._units.sizes.size == learner(small)._units.sizes.size == 4
    one, other = (learn(mdp, "psrl", 0.3, 60, 5) for mdp in (small, large))
    assert one.returns.tobytes() == other.returns.tobytes()
    assert one.notes["explores"].tolist() == other.notes["explores"].tolist()


@pytest.mark.parametrize("learner", ["psrl", "ucb-bqrl"])
@pytest.mark.parametrize(("problem", "goal"), [
    ("SafeOrRisky", bqrl.CVaR(0.1)), ("SafeOrRisky", bqrl.Buffered(0.5, 0.3)), ("SafeOrRisky", bqrl.Mean()),
    ("Bandit", bqrl.CVaR(0.5)),
])  # fmt: skip
def test_learning_for_an_averaged_objective_approaches_its_certified_value(learner, problem, goal):
    record = bqrl.learn(problem, learner, objective=goal, episodes=400, seed=3)
    plan, play = bqrl.solve(problem, goal), goal(bqrl.evaluate(problem, uniform(bqrl.envs.make(problem))))
    assert record.objective == goal
    assert record.gap().min() >= -1e-9 * max(1.0, abs(plan.value))  # no policy beats the certified optimum
    assert record.gap() == pytest.approx(plan.value - record.value())
    assert record.gap()[-100:].mean() <= 0.08 * (plan.value - play) + 1e-9


@pytest.mark.parametrize("learner", ["psrl", "ucb-bqrl"])
def test_a_mean_is_learned_with_the_window_of_all_levels(learner):
    record = bqrl.learn("SafeOrRisky", learner, objective=bqrl.Mean(), episodes=10, seed=1)
    assert record.notes["beta"].tolist() == [1.0] * 10
    assert record.gap().tolist() == record.expected_regret().tolist()


@pytest.mark.parametrize("learner", ["psrl", "ucb-bqrl"])
def test_a_run_for_cvar_continues_from_its_checkpoint_with_the_same_bits(learner, tmp_path):
    whole = bqrl.learn("SafeOrRisky", learner, objective=bqrl.CVaR(0.2), episodes=30, seed=2)
    first = Run(bqrl.envs.make("SafeOrRisky"), learner, bqrl.CVaR(0.2), 30, 2)
    for _ in range(11):
        first.step()
    second = Run(bqrl.envs.make("SafeOrRisky"), learner, bqrl.CVaR(0.2), 30, 2)
    second.restore({name: np.array(value) for name, value in first.state().items()})
    while second.t < second.total:
        second.step()
    assert second.record().returns.tolist() == whole.returns.tolist()
    bqrl.save(whole, tmp_path / "record.npz")
    again = bqrl.load(tmp_path / "record.npz")
    assert again.objective == bqrl.CVaR(0.2)
    assert again.gap().tolist() == whole.gap().tolist()  # the optimum of its objective is stored
