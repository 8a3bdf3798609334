"""The learner "envelope": small runs, judged by exact answers."""

import gymnasium as gym
import numpy as np
import pytest
from box_envs import Walk

import bqrl
from bqrl.laws.law import Law
from bqrl.laws.objectives import Buffered, CVaR, Quantile
from bqrl.learners import envelope
from bqrl.learners.envelope import Envelope, Exploring
from bqrl.learners.network import Batch
from bqrl.learners.run import Run, learn
from bqrl.mdp.files import write_arrays
from bqrl.mdp.model import MDP
from bqrl.policies.envelope import EnvelopePolicy, costs
from bqrl.policies.target import TargetPolicy

pytest.importorskip("torch", reason="PyTorch is not installed")


def gamble(discount=1.0):
    """Two stages. Action 0 pays 2; action 1 pays 5, or 0 with probability 1/4: the need decides the second action."""
    P = np.zeros((2, 3, 2, 3))
    P[:, :, 0, 0] = 1.0
    P[:, :, 1, 1], P[:, :, 1, 2] = 0.75, 0.25
    R = np.zeros((2, 3, 2, 3))
    R[..., 0], R[..., 1] = 2.0, 5.0
    return MDP(P, R, start=0, discount=discount)


@pytest.mark.parametrize("goal", [Quantile(0.1), Quantile(0.9), CVaR(0.1)], ids=str)
def test_the_optimum_of_a_small_problem_is_learned(goal):
    record = learn(gamble(), "envelope", objective=goal, episodes=400, seed=1)
    assert record.scores == "exact"
    assert isinstance(record.final_policy, TargetPolicy)
    assert record.gap()[-1] == pytest.approx(0.0, abs=1e-9)


def test_the_same_seed_gives_the_same_bits_and_another_one_others():
    one, same, other = (learn(gamble(), "envelope", 0.3, 80, seed) for seed in (1, 1, 2))
    assert one.returns.tobytes() == same.returns.tobytes()
    assert one.law_of.tobytes() == same.law_of.tobytes()
    assert one.notes["target"].tobytes() == same.notes["target"].tobytes()
    assert one.returns.tobytes() != other.returns.tobytes()


def rare(mdp):
    """Add a rare high reward and two first states, so that ranges and first states change between trainings."""
    P = np.concatenate([mdp.dense(h).reshape(1, 3, 2, 3) for h in range(2)])
    P, R = np.concatenate([0.99 * P, np.full((2, 3, 2, 1), 0.01)], axis=3), np.zeros((2, 4, 2, 4))
    R[..., 0], R[..., 1], R[..., 3] = 2.0, 5.0, 9.0
    return MDP(np.concatenate([P, P[:, :1]], axis=1), R, start=[0.5, 0.5, 0.0, 0.0])


@pytest.mark.parametrize(
    ("goal", "episodes", "times"), [(Quantile(0.9), 120, (5, 70, 90, 110)), (CVaR(0.9), 800, (650, 750))]
)
def test_a_run_continues_from_its_checkpoint_with_the_same_bits(tmp_path, goal, episodes, times):
    mdp = rare(gamble())
    work = Run(mdp, "envelope", goal, episodes, 3, updates=0.25)
    for t in range(episodes):
        if t in times:  # at random play, in training between two blocks, and in the final trials
            write_arrays(tmp_path / f"{t}.npz", work.state())
        work.step()
    whole = work.record()
    for t in times:
        again = learn(
            mdp, "envelope", objective=goal, episodes=episodes, seed=3, checkpoint=tmp_path / f"{t}.npz", updates=0.25
        )
        assert again.returns.tobytes() == whole.returns.tobytes()
        assert again.law_of.tobytes() == whole.law_of.tobytes()
        assert again.notes["promised"].tobytes() == whole.notes["promised"].tobytes()


def test_the_final_trials_of_cvar_choose_among_targets(monkeypatch):
    monkeypatch.setattr(envelope, "FEW", 20)
    goal = CVaR(0.9)
    run = Run(rare(gamble()), "envelope", goal, 995, 3, updates=0.25)  # the last episode ends a block
    for _ in range(995):
        run.step()
    learner = run.learner
    assert learner.last == 796
    tried = {k: learner.returns[learner.aimed == k] for k in np.unique(learner.aimed)}
    assert len(tried) > 1
    values = {
        k: goal(Law(found, np.full(found.size, 1 / found.size))) for k, found in tried.items() if found.size >= 20
    }
    best = max(values, key=values.get)
    assert learner.value == values[best]
    assert learner.target == learner.targets[best]
    assert tried[best].size > min(found.size for found in tried.values())


def test_the_policy_is_saved_simulated_and_evaluated(tmp_path):
    record = learn(gamble(), "envelope", 0.3, 100, 1)
    bqrl.save(record.final_policy, tmp_path / "policy.npz")
    policy = bqrl.load(tmp_path / "policy.npz")
    assert bqrl.evaluate(gamble(), policy).quantile(0.3) == record.quantile(0.3)[-1]
    played = bqrl.simulate(gamble(), policy, episodes=2000, seed=1)
    assert np.mean(played) == pytest.approx(bqrl.evaluate(gamble(), policy).mean(), abs=0.3)


def test_a_discounted_problem_keeps_its_discount_in_the_file(tmp_path):
    mdp = gamble(discount=0.9)
    record = learn(mdp, "envelope", 0.3, 120, 1)
    bqrl.save(record.final_policy, tmp_path / "policy.npz")
    policy = bqrl.load(tmp_path / "policy.npz")
    assert policy.grid.discount == 0.9
    assert policy.next(4.0, 1, 0, 0, 2.0, 0) == pytest.approx(2.2)
    assert np.array_equal(bqrl.simulate(mdp, policy, 200, 1), bqrl.simulate(mdp, record.final_policy, 200, 1))


@pytest.mark.parametrize("goal", [Quantile(0.2), CVaR(0.2)], ids=str)
def test_the_targets_of_a_batch_are_the_exact_backup(goal):
    """With the exact costs of the next stage, position, above and known give the exact cost of every need."""
    work = Run(gamble(), "envelope", goal, 60, 1)
    for _ in range(30):
        work.step()
    learner: Envelope = work.learner
    batch = learner._batch()
    needs = learner.lo[batch.h][:, None] + learner.step * np.arange(learner.network.M)
    left = needs - batch.reward[:, None] * learner.scale
    most = np.inf if learner.cvar else 1.0
    for togo in np.unique(learner.hi[1]), np.unique(learner.lo[1]):  # the next stage pays exactly this
        grid = learner.lo[1] + learner.step * np.arange(learner.network.M)
        after = np.clip((grid - togo - 1e-3 * learner.step) / learner.d, 0.0, most)
        position, above, known = (part.numpy() for part in learner.network.backup(batch))
        found = np.minimum(np.interp(position, np.arange(learner.network.M), after) + above, most)
        found = np.where(np.isnan(known), found, known)
        exact = np.clip((left - np.where(batch.ended, 0.0, togo)[:, None]) / learner.d, 0.0, most)
        near = (
            np.abs(left - np.where(batch.ended, 0.0, togo)[:, None]) < 1e-2 * learner.step
        )  # where an indicator jumps
        settled = ~batch.ended[:, None] & (left <= learner.lo[1] + 1e-2) & (togo < learner.hi[1] + 1)
        compare = ~near & (settled | batch.ended[:, None] | (left <= learner.hi[1]) | (togo == learner.hi[1]))
        assert np.abs(found - exact)[compare].max() < 5e-3


def test_losses_beyond_the_grid_of_cvar_are_told_apart():
    """They once counted as the width of the grid, so that a position was held although it lost ever more."""
    raw = np.array([[[-30.0, 0.0, 0.0]], [[10.0, 0.0, 0.0]], [[14.0, 0.0, 0.0]]], np.float32)
    cost = costs(np, raw, 0.25)
    assert np.all(np.diff(cost[:, 0], axis=0) > 1.0)  # in widths of the grid
    assert cost[0, 0, 0] == pytest.approx(0.0, abs=1e-6)
    learner = Run(gamble(), "envelope", CVaR(0.2), 60, 1).learner
    learner.network.ratio = 0.25
    batch = Batch(
        *np.zeros((4, 1), np.int64),
        *np.ones((1, 1), bool),
        *np.zeros((3, 1), np.int64),
        *np.full((1, 1), 40.0),
        *np.zeros((4, 1)),
    )
    assert learner.network.backup(batch)[2][0, 0] == pytest.approx(10.0, abs=1e-2)


def test_a_batch_has_the_shares_of_the_replay_memory():
    work = Run(rare(gamble()), "envelope", 0.9, 60, 1)
    for _ in range(60):
        work.step()
    learner: Envelope = work.learner
    learner.sorted = 0  # sort again
    batch, n = learner._batch(), learner.seen
    stored = (learner.h[:n] * 4 + learner.x[:n]) * 2 + learner.a[:n]
    share = np.bincount(stored, minlength=16) / n
    found = np.bincount((batch.h * 4 + batch.x) * 2 + batch.action, minlength=16)
    assert np.abs(found - share * batch.h.size).max() < 1.0 + 1e-9  # a random batch would be off by about 20


def test_box_observations_with_masks(tmp_path):
    record = learn(Walk(), "envelope", 0.5, 300, 1, horizon=4)  # Walk asserts that masked actions are not played
    policy = record.final_policy
    assert isinstance(policy, EnvelopePolicy)
    assert record.scores == "none"
    record.save(tmp_path / "record.npz")
    again = bqrl.Record.load(tmp_path / "record.npz").final_policy
    env, total = Walk(), 0.0
    seen, info = env.reset()
    need, over, h = again.start(), False, 0
    while not over and h < 4:
        action = again.act(h, seen, need, info["action_mask"].astype(bool))
        assert action == policy.act(h, seen, need, info["action_mask"].astype(bool))
        after, reward, over, _, info = env.step(action)
        need, seen, total, h = again.next(need, h, seen, action, reward, after), after, total + reward, h + 1
    assert total == 4.0  # up, down, up, up: the best of all returns


def test_a_policy_for_boxes_is_saved_simulated_and_promised(tmp_path):
    policy = learn(Walk(), "envelope", 0.5, 300, 1, horizon=4).final_policy
    bqrl.save(policy, tmp_path / "policy.npz")
    sample = bqrl.simulate(Walk(), bqrl.load(tmp_path / "policy.npz"), 100, 1)  # Walk asserts that masks are obeyed
    assert sample.promise(0.5) == 4.0
    with pytest.raises(ValueError, match="must have 3 Discrete actions for this policy"):
        bqrl.simulate("CartPole-v1", policy, 10, 1)


def test_copies_of_an_environment_are_played_side_by_side():
    copies = gym.vector.SyncVectorEnv([Walk] * 32)  # each asserts that masked actions are not played
    record = learn(copies, "envelope", 0.5, 300, 1, horizon=4)
    assert bqrl.simulate(Walk(), record.final_policy, 20, 1).promise(0.5) == 4.0
    assert set(record.returns) <= {-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0}
    few = [
        learn(gym.vector.SyncVectorEnv([Walk] * 5), "envelope", 0.5, 70, 1, horizon=4).returns.tobytes()
        for _ in range(2)
    ]
    assert few[0] == few[1]
    with pytest.raises(ValueError, match="problem must be a single environment, unless"):
        learn(copies, "sarsa", 0.5, 5, 1, horizon=4)


def test_a_vector_environment_with_one_stream_for_all_copies_runs():
    record = learn(gym.make_vec("CartPole-v1", num_envs=8), "envelope", 0.1, 12, 0, horizon=20)
    assert record.returns.min() >= 5.0


def test_an_environment_of_gymnasium_runs():
    record = learn("CartPole-v1", "envelope", 0.1, 12, 0, horizon=20)
    assert record.returns.size == 12
    assert record.final_policy.centre.size == 4


def test_learners_that_do_not_observe_numbers_are_refused_boxes():
    with pytest.raises(ValueError, match="Tuple or Dict observations, got Box in Walk; pass bins="):
        learn(Walk(), "sarsa", 0.5, 5, 1, horizon=4)


def test_random_actions_are_available_ones():
    mdp = bqrl.envs.make("AssetSelling")
    available = np.zeros((mdp.H, mdp.S, mdp.A), bool)
    available[..., 1] = True
    policy = bqrl.solve(mdp, 0.1).policy
    targets, needs = np.full(20, 0.5), np.full(20, 0.5)
    play = Exploring(policy, targets, np.ones(20), np.random.default_rng(0), available)
    assert np.array_equal(play.start_many(np.zeros(20)), targets)
    assert set(play.act_many(0, np.full(20, 5), needs)) == {1}
    play = Exploring(policy, targets, np.zeros(20), np.random.default_rng(0), available)
    assert (play.start(), play.act(0, 5, 0.5)) == (0.5, policy.act(0, 5, 0.5))


def test_a_random_action_is_repeated():
    mdp = bqrl.envs.make("Staffing")
    policy, everything = bqrl.solve(mdp, 0.1).policy, np.ones((mdp.H, mdp.S, mdp.A), bool)
    play = Exploring(policy, np.zeros(2000), np.ones(2000), np.random.default_rng(0), everything, mdp.H)
    need = play.start_many(np.zeros(2000))
    first, second = (play.act_many(h, np.zeros(2000, int), need) for h in (0, 1))
    assert np.mean(first == second) > 0.4  # 1/6 without repetition


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"needs": 1}, "needs must be a whole number of at least 4"),
        ({"updates": 0.0}, "updates must be a number above 0"),
        ({"device": "abacus"}, "device must be a device of PyTorch on this machine, got 'abacus'"),
        ({"colour": 1}, "colour"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(params, match):
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        learn(gamble(), "envelope", 0.3, 10, 1, **params)
    assert "\n" not in str(caught.value)


def test_other_objectives_are_refused():
    with pytest.raises(ValueError, match="be one of Quantile, CVaR for the learner envelope"):
        learn(gamble(), "envelope", objective=bqrl.Mean(), episodes=5)
    with pytest.raises(ValueError, match=r"be one of Quantile, CVaR for the learner envelope, got 0\.3-quantile"):
        learn(gamble(), "envelope", objective=Buffered(0.3, 0.2), episodes=5)
