import inspect
import json
import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from learner_problems import alternating, bits, chain, finished, two_arms
from oracles import random_mdp

import bqrl.learners
import bqrl.loops
from bqrl.envs import asset_selling
from bqrl.errors import ArgumentError, ArgumentTypeError, FileFormatError, GridError, ModelWarning
from bqrl.learners import score
from bqrl.learners.protocol import Learner, Task, blank_model
from bqrl.learners.run import LEARNERS, Run, learn
from bqrl.mdp.files import read_arrays, write_arrays
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import evaluate
from bqrl.planners.expected import best_mean
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.study.simulate import simulate

NAMES = tuple(LEARNERS)
MODEL_FREE = ("q-learning", "sarsa", "ppo", "trpo", "qr-q")
FOR_THE_MEAN = ("ucbvi", "q-learning", "sarsa", "thompson", "ppo", "trpo", "qr-q")
SMALL = asset_selling(offers=6, start=1)


class First(Learner):
    """Plays the first action; only the two compulsory methods."""

    def plan(self):
        return MarkovPolicy(np.zeros((self.task.H, self.task.S), int))

    def observe(self, episode):
        pass


# -- what each must learn ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOR_THE_MEAN)
@pytest.mark.parametrize(("problem", "episodes"), [(two_arms, 400), (chain, 800), (alternating, 300)])
def test_each_baseline_solves_the_small_problems(name, problem, episodes):
    mdp = problem()
    record = learn(mdp, name, 0.5, episodes, 3)
    assert record.means()[-1] > 0.97 * best_mean(mdp)[0]
    assert record.final_policy is not None
    assert evaluate(mdp, record.final_policy).mean() > 0.97 * best_mean(mdp)[0]


# -- streams and bits -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(name):
    assert bits(finished(SMALL, name, 60)) == bits(finished(SMALL, name, 60))
    assert bits(finished(SMALL, name, 60))["returns"] != bits(finished(SMALL, name, 60, seed=6))["returns"]


def test_the_world_does_not_depend_on_the_learner():
    states = [finished(SMALL, name, 30).world.state() for name in NAMES]
    assert all(state == states[0] for state in states)


@pytest.mark.parametrize("name", NAMES)
def test_no_learner_uses_a_global_stream(name, monkeypatch):
    before = bits(finished(SMALL, name, 45))

    def refuse(*_, **__):
        raise AssertionError("a global stream was used")

    for method in ("seed", "random", "rand", "randn", "randint", "choice", "normal", "gamma", "permutation", "shuffle"):
        monkeypatch.setattr(np.random, method, refuse)
    assert bits(finished(SMALL, name, 45)) == before


def test_no_compiled_loop_draws():
    loops = list(Path(next(iter(bqrl.loops.__path__))).glob("*.py"))
    assert len(loops) >= 15
    for path in loops:
        assert not re.search(r"\brandom\.|default_rng|Generator", path.read_text())


def test_seed_none_draws_fresh_entropy_and_the_record_holds_it():
    one, other = learn(SMALL, "q-learning", 0.5, 20), learn(SMALL, "q-learning", 0.5, 20)
    assert one.settings["seed"] != other.settings["seed"]
    again = learn(SMALL, "q-learning", 0.5, 20, one.settings["seed"])
    assert again.returns.tobytes() == one.returns.tobytes()


# -- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_equals_an_uninterrupted_one(name, tmp_path):
    middle = int(np.random.default_rng(NAMES.index(name)).integers(1, 89))
    whole = finished(SMALL, name, 90)
    first = Run(SMALL, name, 0.5, 90, 5)
    for _ in range(middle):
        first.step()
    write_arrays(tmp_path / "middle.npz", first.state())
    second = Run(SMALL, name, 0.5, 90, 5)
    second.restore(read_arrays(tmp_path / "middle.npz"))
    while second.t < second.total:
        second.step()
    assert bits(whole) == bits(second)
    one, other = whole.record().final_policy.arrays(), second.record().final_policy.arrays()
    assert all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    ("name", "params"),
    [*((name, {}) for name in NAMES), ("ucb-bqrl", {"planner": "greedy"}), ("ucb-bqrl", {"replan_factor": 2.0})],
)
def test_fault_10_a_checkpoint_after_every_episode_resumes_the_last_included(name, params, tmp_path):
    mdp, T = asset_selling(offers=4, start=1, horizon=3), 22  # beyond one batch of the policy-gradient learners
    whole, states = Run(mdp, name, 0.5, T, 3, **params), []
    states.append(whole.state())
    for _ in range(T):
        whole.step()
        states.append({key: np.array(value) for key, value in whole.state().items()})
    for t in (*range(0, T, 5), T - 1, T):
        run = Run(mdp, name, 0.5, T, 3, **params)
        run.restore(states[t])
        assert run.t == t
        while run.t < T:
            run.step()
        assert run.record().returns.tobytes() == whole.record().returns.tobytes()
        assert run.record().gap().tobytes() == whole.record().gap().tobytes()


def test_fault_10_a_finished_checkpoint_is_opened_again(tmp_path):
    path = tmp_path / "run.npz"
    one = learn(SMALL, "ucb-bqrl", 0.3, 12, 3, checkpoint=path, checkpoint_every=5)
    other = learn(SMALL, "ucb-bqrl", 0.3, 12, 3, checkpoint=path, checkpoint_every=5)
    assert one.returns.tobytes() == other.returns.tobytes()
    assert other.final_policy.kind == one.final_policy.kind


def test_fault_3_a_checkpoint_of_another_problem_of_the_same_size_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    learn(asset_selling(), "ucbvi", 0.3, 5, 1, checkpoint=path)
    with pytest.raises(FileFormatError, match="expected a checkpoint of this run, got one of other settings"):
        learn(asset_selling(distribution="geometric"), "ucbvi", 0.3, 5, 1, checkpoint=path)
    with pytest.raises(FileFormatError, match="expected a checkpoint of this run, got one of other settings"):
        learn(asset_selling(start=6), "ucbvi", 0.3, 5, 1, checkpoint=path)
    with pytest.raises(FileFormatError, match="expected a checkpoint of this run, got one of other settings"):
        learn(asset_selling(), "ucbvi", 0.3, 5, 2, checkpoint=path)
    assert learn(asset_selling(), "ucbvi", 0.3, 5, 1, checkpoint=path).returns.size == 5


@pytest.mark.parametrize("name", NAMES)
def test_fault_15_a_checkpoint_that_lacks_an_array_is_one_line(name):
    state = finished(SMALL, name, 3).state()
    for missing in state:
        if missing.startswith(("note_", "final_")):
            continue
        with pytest.raises(FileFormatError) as caught:
            Run(SMALL, name, 0.5, 3, 5).restore({key: value for key, value in state.items() if key != missing})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_fault_15_arrays_of_another_shape_are_one_line(name):
    state = finished(SMALL, name, 3).state()
    for key in state:
        if np.asarray(state[key]).ndim and not key.startswith("final_"):
            with pytest.raises(FileFormatError) as caught:
                Run(SMALL, name, 0.5, 3, 5).restore(state | {key: np.zeros((7, 7, 7, 7))})
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow_with_the_run(name):
    run = Run(SMALL, name, 0.5, 150, 0)
    sizes = []
    for t in range(150):
        run.step()
        if t in (5, 149):
            sizes.append(sum(np.asarray(value).nbytes for value in run.learner.state().values()))
    assert sizes[1] <= sizes[0]  # the table of a plan has as many columns as its width needs


# -- every kind of problem --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_actions_that_do_not_exist_are_never_played(name):
    problems = [asset_selling(offers=4, start=1, horizon=4, stop_at_end=True)]
    problems += [random_mdp(np.random.default_rng(seed)) for seed in range(12)]
    masked = 0
    for mdp in problems:
        run = Run(mdp, name, 0.5, 45, 1)
        available = np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A))
        masked += not available.all()
        for _ in range(45):
            behaviour = run.learner.plan()
            episode = run.world.play(behaviour, run.chance)
            policy = run.learner.evaluated()
            run.learner.observe(episode)
            for h in range(mdp.H):
                s = episode.states[h]
                assert available[h, s, episode.actions[h]]
                assert policy is None or available[h, s, policy.act(h, s, policy.start())]
    assert masked > 1


@pytest.mark.parametrize("name", ["ucbvi", "thompson", "ucb-bqrl"])
def test_a_discount_counts_in_the_plan(name):
    rewards = [[0.0, 0.9], [1.0, 1.0], [0.0, 0.0]]  # wait for 1 in the next stage, or take 0.9 now
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 1] = transitions[0, 1, 2] = transitions[1, :, 2] = transitions[2, :, 2] = 1.0
    for discount, action in ((1.0, 0), (0.5, 1)):
        run = Run(MDP(transitions, rewards, horizon=2, discount=discount), name, 0.5, 1, 0)
        assert run.world.play(run.learner.plan(), run.chance).actions[0] == action


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MODEL_FREE])
def test_the_kernel_is_hidden_from_learners_that_plan(name):
    run = Run(asset_selling(distribution="geometric"), name, 0.5, 5, 0)
    assert set(np.unique(run.learner.task.model.probability)) == {1 / 25, 1.0}
    assert not np.isfinite(run.learner.task.structure.probability).all()


def test_model_free_learners_do_not_get_the_rewards():
    for name in NAMES:
        granted = Run(SMALL, name, 0.5, 5, 0).learner.task.model is not None
        assert granted == LEARNERS[name].needs_rewards == (name not in MODEL_FREE)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["discount", "irrational"])
def test_learning_works_where_no_exact_grid_fits(name, kind):
    rng = np.random.default_rng(1)
    kernel = rng.dirichlet(np.ones(4), (4, 2))
    if kind == "discount":
        mdp = MDP(kernel, rng.integers(0, 4, (4, 2)), horizon=20, discount=0.97)
    else:
        mdp = MDP(kernel, rng.random((4, 2)) * np.sqrt(2), horizon=20)
    record = learn(mdp, name, 0.3, 15, 2)
    assert record.scores == "bracket"
    assert record.score_error > 0.0
    curve = bqrl.guarantee_curve(mdp)
    assert record.optimum.quantile(0.3) <= curve.upper(0.3) + 1e-9
    assert record.optimum.quantile(0.3) >= curve(0.3) - record.score_error - 1e-9
    assert np.all(record.gap() >= -record.score_error - 1e-9)
    sample = bqrl.simulate(mdp, record.final_policy, 40_000, seed=3)
    noise = 4.5 * sample.std() / np.sqrt(sample.size)
    assert record.means()[-1] - noise <= sample.mean() <= record.means()[-1] + record.score_error + noise


def without_grid():
    rng = np.random.default_rng(1)
    return MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.normal(size=(4, 2)), horizon=12, discount=0.97)


@pytest.mark.parametrize("learner", ["psrl", "ucb-bqrl"])
@pytest.mark.parametrize("seed", range(2))
def test_the_score_error_covers_the_rounding_of_the_learner_s_own_grid(learner, seed, tmp_path):
    mdp = without_grid()
    record = learn(mdp, learner, 0.3, 10, seed)
    assert record.final_policy.grid.error > record.optimum.error
    assert record.score_error >= record.final_policy.grid.error
    sample = np.sort(bqrl.simulate(mdp, record.final_policy, 40_000, seed=3))
    low, high = sample[[int(40_000 * (0.3 - 0.012)), int(40_000 * (0.3 + 0.012))]]  # five standard errors
    assert low - record.score_error <= record.quantile(0.3)[-1] <= high
    record.save(tmp_path / "record.npz")
    loaded = bqrl.Record.load(tmp_path / "record.npz")
    assert (loaded.scores, loaded.score_error) == ("bracket", record.score_error)


def test_counts_per_stage_work_where_no_exact_grid_fits():
    record = learn(without_grid(), "ucb-bqrl", 0.3, 4, 1, stationary=False)
    assert record.score_error >= record.final_policy.grid.error > 0.0


class Labels(First):
    """Plays as First, with a policy of another kind."""

    needs_rewards = True

    def plan(self):
        return super().plan().to_labels(self.task.model)

    def state(self):
        return {}

    def restore(self, state):
        pass


def test_policies_that_cannot_be_bracketed_are_scored_by_simulation(tmp_path, monkeypatch):
    monkeypatch.setattr(score, "SIMULATED_EPISODES", 2000)
    mdp, path = without_grid(), tmp_path / "run.npz"
    record, plain = learn(mdp, Labels, 0.3, 6, 2), learn(mdp, First, 0.3, 6, 2)
    assert (plain.scores, plain.simulated) == ("bracket", 0)
    assert (record.scores, record.simulated, record.score_error) == ("simulated", 2000, np.inf)
    assert record.returns.tobytes() == plain.returns.tobytes()  # scoring does not disturb the run
    np.testing.assert_allclose(record.means(), plain.means(), atol=0.1)
    again = Run(mdp, Labels, 0.3, 6, 2)
    for _ in range(3):
        again.step()
    write_arrays(path, again.state())
    resumed = learn(mdp, Labels, 0.3, 6, 2, checkpoint=path)
    for one in (resumed, learn(mdp, Labels, 0.3, 6, 2)):
        assert one.pmf.tobytes() == record.pmf.tobytes()
        assert (one.scores, one.law_error) == (record.scores, record.law_error)
    assert learn(mdp, Labels, 0.3, 6, 3).pmf.tobytes() != record.pmf.tobytes()
    record.save(path)
    loaded = bqrl.Record.load(path)
    assert (loaded.scores, loaded.simulated, loaded.law_error) == ("simulated", 2000, record.law_error)


def test_a_checkpoint_keeps_the_error_of_earlier_scores():
    run, other = (Run(without_grid(), "psrl", 0.3, 6, 2) for _ in range(2))
    run.step()
    other.restore(run.state())
    assert other.record().score_error == run.record().score_error > run.record().optimum.error


def test_the_message_on_a_missing_grid_names_planners_that_the_learner_has():
    with pytest.raises(GridError, match="requires an exact grid of returns") as refused:
        learn(without_grid(), "ucb-bqrl", 0.3, 4, 1, planner="greedy")
    assert set(re.findall(r"planner='([\w-]+)'", str(refused.value))) == {"target"}


class Repeating(Policy):
    """A custom policy: it repeats action 0 until a reward above 0, and then plays action 1; its start() takes no argument."""

    def start(self):
        return False

    def act(self, h, s, memory):
        return int(memory)

    def next(self, memory, h, s, action, reward, s_next):
        return memory or reward > 0.0


class Forgetful(Repeating):
    """A custom policy whose memory cannot be compared, so that it has no graph of labels."""

    def start(self):
        return []

    def act(self, h, s, memory):
        return 0

    def next(self, memory, h, s, action, reward, s_next):
        return [*memory, reward]


def plays(policy):
    """A learner that plays one policy, and can be checkpointed."""

    class Plays(First):
        stored, t = ("t",), 0

        def plan(self):
            return policy()

    return Plays


@pytest.mark.parametrize("grid", [True, False])
def test_a_run_with_a_custom_policy_is_saved_resumed_and_loaded(tmp_path, grid):
    mdp, path, record_path = chain() if grid else without_grid(), tmp_path / "run.npz", tmp_path / "record.npz"
    whole = learn(mdp, plays(Repeating), 0.5, 6, 1)
    assert whole.scores == ("exact" if grid else "simulated")
    half = Run(mdp, plays(Repeating), 0.5, 6, 1)
    for _ in range(3):
        half.step()
    write_arrays(path, half.state())
    for _ in range(2):  # in the middle, and at the end
        again = learn(mdp, plays(Repeating), 0.5, 6, 1, checkpoint=path)
        assert again.returns.tobytes() == whole.returns.tobytes()
        assert again.pmf.tobytes() == whole.pmf.tobytes()
    again.save(record_path)
    loaded = bqrl.load(record_path)
    assert isinstance(loaded.final_policy, bqrl.LabelPolicy)
    assert loaded.returns.tobytes() == whole.returns.tobytes()
    assert np.array_equal(simulate(mdp, loaded.final_policy, 500, 3), simulate(mdp, Repeating(), 500, 3))


def test_a_record_whose_last_policy_cannot_be_stored_is_loaded_without_it(tmp_path):
    path = tmp_path / "record.npz"
    chance = Run(without_grid(), plays(Forgetful), 0.5, 3, 1)
    chance.step()
    record = chance.record()
    record.save(path)
    with pytest.warns(
        ModelWarning, match="the record holds no final policy: Forgetful: .*must be hashable, got 'list'"
    ):
        loaded = bqrl.load(path)
    assert loaded.final_policy is None
    assert loaded.pmf.tobytes() == record.pmf.tobytes()
    other = Run(without_grid(), plays(Forgetful), 0.5, 3, 1)
    with pytest.warns(ModelWarning, match="holds no final policy"):
        other.restore(chance.state())
    assert other.t == 1


@pytest.mark.parametrize(
    ("method", "returned", "match"),
    [
        ("evaluated", 3, r"Own\.evaluated\(\) must return a bqrl\.Policy, or an array .* or None, got 3"),
        ("notes", None, r"Own\.notes\(\) must return a dict of numbers by name, got None"),
        ("notes", {1: 2.0}, r"got \{1: 2\.0\}"),
        ("notes", {"a": "x"}, r"got \{'a': 'x'\}"),
        ("notes", {"a": [1.0, 2.0]}, r"got \{'a': \[1\.0, 2\.0\]\}"),
    ],
)
def test_what_methods_of_a_custom_learner_return_is_checked(method, returned, match):
    own = type("Own", (First,), {method: lambda self: returned})
    with pytest.raises(ArgumentTypeError, match=match) as caught:
        learn(SMALL, own, 0.5, 3, 1)
    assert "\n" not in str(caught.value)


def test_a_note_without_a_value_is_not_a_number():
    own = type("Own", (First,), {"notes": lambda self: {"a": None, "b": np.inf}})
    notes = learn(SMALL, own, 0.5, 3, 1).notes
    assert np.isnan(notes["a"]).all()
    assert np.isinf(notes["b"]).all()


def test_a_rounded_grid_costs_memory_only_where_laws_have_mass():
    run = Run(without_grid(), "psrl", 0.3, 30, 2)
    rows = []
    while run.t < run.total:
        run.step()
        rows.append(run.scorer.law(run._policy))
    record, points = run.record(), run.scorer.points
    assert record.points.size < points.size / 2
    assert np.all(np.isin(record.points, points))
    dense = np.zeros((30, points.size))
    dense[:, np.isin(points, record.points)] = record.pmf[record.law_of]
    assert np.array_equal(dense, rows)
    assert run.state()["pmf"].shape == record.pmf.shape
    with pytest.raises(FileFormatError, match="the array 'columns' must rise"):
        run.restore(run.state() | {"columns": record.law_of[::-1]})


# -- arguments --------------------------------------------------------------------------------------------------------


def test_a_learner_is_a_name_a_class_or_a_function():
    assert learn(SMALL, "sarsa", 0.5, 5, 1).settings["learner"] == "sarsa"
    by_class = learn(SMALL, First, 0.5, 5, 1)
    by_function = learn(SMALL, lambda task, rng: First(task, rng), 0.5, 5, 1)
    assert by_class.settings["learner"] == "First"
    assert by_class.returns.tobytes() == by_function.returns.tobytes()
    assert np.all(by_class.law_of == 0)


def test_only_plan_and_observe_are_compulsory(tmp_path):
    assert learn(SMALL, First, 0.5, 5, 1).notes == {}
    with pytest.raises(NotImplementedError, match="First has no state"):
        learn(SMALL, First, 0.5, 5, 1, checkpoint=tmp_path / "run.npz")
    assert not (tmp_path / "run.npz").exists()


@pytest.mark.parametrize(
    ("checkpoint", "error", "message"),
    [
        ("run.txt", ArgumentError, "checkpoint must end in .npz, got 'run.txt'"),
        ("missing/run.npz", FileNotFoundError, "does not exist; create it first"),
        ("", IsADirectoryError, "is a folder; give the name of a file"),
    ],
)
def test_a_checkpoint_that_cannot_be_written_is_refused_before_any_episode(checkpoint, error, message, tmp_path):
    played = []
    with pytest.raises(error, match=re.escape(message)):
        learn(SMALL, episodes=5, seed=1, checkpoint=tmp_path / checkpoint, callback=lambda t, _: played.append(t))
    assert not played


def test_a_checkpoint_may_be_any_path_as_in_save_and_load(tmp_path):
    place = type("Place", (), {"__fspath__": lambda self: str(tmp_path / "run.npz")})()
    assert learn(SMALL, "sarsa", 0.5, 5, 1, checkpoint=place).returns.size == 5
    assert (tmp_path / "run.npz").exists()


def test_a_checkpoint_must_be_a_name_and_a_callback_a_function():
    with pytest.raises(ArgumentTypeError, match=r"^checkpoint must be the name of an \.npz file, got 5$"):
        learn(SMALL, episodes=5, checkpoint=5)
    with pytest.raises(ArgumentTypeError, match=r"^callback must be a function of the episode and its numbers, got 5$"):
        learn(SMALL, episodes=5, callback=5)


def test_a_learner_that_cannot_be_checkpointed_is_refused_before_any_episode(tmp_path):
    played = []
    with pytest.raises(NotImplementedError, match="First has no state"):
        learn(SMALL, First, 0.5, 5, 1, checkpoint=tmp_path / "run.npz", callback=lambda t, _: played.append(t))
    assert played == []


def test_a_function_is_granted_the_rewards():
    seen = []

    def make(task, rng):
        seen.append(task)
        return First(task, rng)

    learn(SMALL, make, 0.5, 2, 1)
    assert seen[0].model is not None
    assert set(np.unique(seen[0].model.probability)) == {1 / 6, 1.0}


@pytest.mark.parametrize("learner", [3, None, MDP, SMALL])
def test_what_is_not_a_learner_is_refused(learner):
    with pytest.raises(ArgumentTypeError, match="learner must be a name"):
        learn(SMALL, learner, 0.5, 5, 1)


def test_what_a_function_returns_must_be_a_learner():
    with pytest.raises(ArgumentTypeError, match=r"learner must return a bqrl\.Learner, got int"):
        learn(SMALL, lambda task, rng: 3, 0.5, 5, 1)


def test_what_plan_returns_must_be_a_policy():
    class Wrong(First):
        def plan(self):
            return 3

    with pytest.raises(
        ArgumentTypeError, match=r"Wrong\.plan\(\) must return a bqrl\.Policy, or an array of actions .*, got 3"
    ):
        learn(SMALL, Wrong, 0.5, 5, 1)


def test_start_and_horizon_replace_those_of_the_problem():
    record = learn(SMALL, "ucbvi", 0.5, 5, 1, start=3, horizon=4)
    assert (record.mdp.H, int(record.mdp.mu.argmax())) == (4, 3)
    env = SMALL.as_env()
    assert learn(env, "ucbvi", 0.5, 5, 1, start=3, horizon=4).returns.tobytes() == record.returns.tobytes()
    lake = gym.make("FrozenLake-v1", is_slippery=False)
    record = learn(lake, "ucbvi", 0.5, 60, 1, horizon=3, start=14)
    assert int(record.mdp.mu.argmax()) == 14
    assert record.means()[-1] == 1.0  # one step from the goal


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"checkpoint_every": 0}, ArgumentError, "checkpoint_every must be a whole number of at least 1, got 0"),
        ({"checkpoint_every": "x"}, ArgumentTypeError, "checkpoint_every must be a whole number"),
        ({"delta": "x"}, ArgumentTypeError, r"delta must be a number in \(0, 1\), got 'x'"),
        ({"delta": 0.0}, ArgumentError, r"delta must be a number in \(0, 1\), got 0"),
        ({"replan_factor": "x"}, ArgumentTypeError, "replan_factor must be a number of at least 1, got 'x'"),
        ({"episodes": 0}, ArgumentError, "episodes must be a whole number"),
        ({"tau": "x"}, ArgumentTypeError, "tau must be a number"),
        ({"seed": 1.5}, ArgumentTypeError, "seed must be a whole number"),
        ({"learner": "ucb-bqlr"}, ArgumentError, "did you mean 'ucb-bqrl'"),
        ({"events_observed": "no"}, ArgumentTypeError, "events_observed must be True, False or None, got 'no'"),
        ({"bufer": "log"}, ArgumentTypeError, "a parameter of ucb-bqrl, got 'bufer'; did you mean 'buffer'"),
    ],
)
def test_fault_15_bad_arguments_are_one_line(arguments, error, match, tmp_path):
    given = {"learner": "ucb-bqrl", "tau": 0.3, "episodes": 5, "seed": 1} | arguments
    with pytest.raises(error, match=match) as caught:
        learn(SMALL, checkpoint=tmp_path / "run.npz", **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        ("ucbvi", {"scale": -1.0}, "scale must be a number of at least 0"),
        ("ucbvi", {"bonus": "none"}, "bonus must be one of"),
        ("ucbvi", {"stationary": True}, "one kernel per stage"),
        ("thompson", {"scale": 0.0}, "scale must be a number above 0"),
        ("thompson", {"prior": 0}, "prior must be a number above 0"),
        ("q-learning", {"learning_rate": 2.0}, r"learning_rate must be a number in \(0, 1\], got 2"),
        ("sarsa", {"epsilon": (0.5, 2.0)}, r"epsilon must be a number in \[0, 1\], got 2"),
        ("q-learning", {"discount": 1.5}, "discount must be a number in"),
        ("ppo", {"batch": 0}, "batch must be a whole number of at least 1"),
        ("ppo", {"learning_rate": float("nan")}, "learning_rate must be"),
        ("trpo", {"radius": 0.0}, "radius must be a number above 0"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(name, params, match):
    with pytest.raises(ArgumentError, match=match) as caught:
        Run(asset_selling(stop_at_end=True), name, 0.5, 5, 0, **params)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", FOR_THE_MEAN)
def test_the_tuned_parameter_exists(name):
    kind = LEARNERS[name]
    assert kind.tuned in inspect.signature(kind.__init__).parameters


@pytest.mark.parametrize("name", [name for name in NAMES if name not in MODEL_FREE])
def test_planning_without_rewards_is_refused(name):
    facts = {
        "structure": SMALL.structure,
        "discount": 1.0,
        "objective": bqrl.Quantile(0.5),
        "episodes": 10,
        "delta": 0.05,
    }
    with pytest.raises(ArgumentError, match="needs the rewards"):
        LEARNERS[name](Task(model=None, **facts), np.random.default_rng(0))
    LEARNERS[name](Task(model=blank_model(SMALL), **facts), np.random.default_rng(0))


def test_settings_hold_everything_that_fixes_the_run():
    settings = learn(SMALL, "ucb-bqrl", 0.3, 4, 7, c_conf=0.1).settings
    assert json.loads(json.dumps(settings)) == settings
    assert (settings["learner"], settings["objective"], settings["episodes"], settings["seed"]) == (
        "ucb-bqrl",
        "quantile:0.3",
        4,
        7,
    )
    assert settings["params"] == {"c_conf": 0.1}
    assert len(settings["digest"]) == 64


def test_a_named_problem_is_learned_by_its_name():
    by_name, by_model = learn("AssetSelling", "ucbvi", 0.3, 5, 4), learn(asset_selling(), "ucbvi", 0.3, 5, 4)
    assert np.array_equal(by_name.returns, by_model.returns)


SAFE_OR_RISKY = bqrl.envs.make("SafeOrRisky")
HALF = np.full((SAFE_OR_RISKY.H, 1, 2), 0.5)


@pytest.mark.parametrize("planned", [HALF, HALF[0], HALF.tolist(), StochasticPolicy(HALF)])
@pytest.mark.parametrize("method", ["plan", "evaluated"])
def test_a_stochastic_policy_is_scored_by_its_draws(method, planned):
    own = type("Own", (First,), {method: lambda self: planned})
    record = learn(SAFE_OR_RISKY, own, 0.1, 3, 1)
    assert record.scores == "exact"
    assert record.quantile(0.1).tolist() == [9.0] * 3  # the most probable actions would have 10
    assert record.means() == pytest.approx([13.25] * 3)
    assert isinstance(record.final_policy, StochasticPolicy)


def test_a_learner_may_plan_an_array_of_actions():
    own = type("Own", (First,), {"plan": lambda self: np.ones(1, int)})
    record = learn(SAFE_OR_RISKY, own, 0.1, 3, 1)
    assert record.quantile(0.1)[0] == evaluate(SAFE_OR_RISKY, "always:Risky").quantile(0.1)


def test_records_and_checkpoints_keep_a_stochastic_policy(tmp_path):
    def make(task, rng):
        return plays(lambda: StochasticPolicy(HALF))(task, rng)

    whole = learn(SAFE_OR_RISKY, make, 0.1, 6, 1)
    run = Run(SAFE_OR_RISKY, make, 0.1, 6, 1)
    for _ in range(3):
        run.step()
    other = Run(SAFE_OR_RISKY, make, 0.1, 6, 1)
    other.restore(run.state())
    for _ in range(3):
        other.step()
    assert other.record().returns.tobytes() == whole.returns.tobytes()
    bqrl.save(whole, tmp_path / "record.npz")
    again = bqrl.load(tmp_path / "record.npz")
    assert again.final_policy.probabilities.tobytes() == HALF.tobytes()


@pytest.mark.parametrize("name", ["q-learning", "sarsa", "ppo", "trpo"])
def test_built_in_learners_that_draw_are_scored_without_their_draws(name):
    run = Run(SMALL, name, 0.5, 4, 1)
    for _ in range(4):
        assert run.learner.plan().kind == "stochastic"
        run.step()
    assert run.record().final_policy.kind == "markov"


def test_an_array_of_another_shape_is_refused_with_the_shapes_that_fit():
    own = type("Own", (First,), {"plan": lambda self: np.zeros((7, 7), int)})
    with pytest.raises(
        ArgumentError, match=r"Own\.plan\(\) must have shape \(7,\) or .* \(probabilities\), got \(7, 7\)"
    ):
        learn(SMALL, own, 0.5, 3, 1)
