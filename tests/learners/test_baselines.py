import inspect

import numpy as np
import pytest
from oracles import random_mdp

import bqrl.kernels
from bqrl.envs import asset_selling
from bqrl.learners.protocol import Task, blank_model
from bqrl.learners.run import LEARNERS, Run, learn
from bqrl.mdp.files import read_arrays, write_arrays
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import evaluate
from bqrl.planners.expected import best_mean

NAMES = ("ucbvi", "q-learning", "sarsa", "thompson", "ppo", "trpo")
MODEL_BASED = ("ucbvi", "thompson")


def run(mdp, name, episodes, seed=5, **params):
    work = Run(mdp, name, 0.5, episodes, seed, **params)
    for _ in range(episodes):
        work.step()
    return work


def bits(work):
    arrays = work.memory()
    return {name: np.asarray(value).tobytes() for name, value in arrays.items()}


# -- what each must learn -------------------------------------------------------------------------------------------


def two_arms():
    """The second arm pays 1 with probability 0.7, the first with 0.3."""
    return MDP([(0, a, 0, p, float(r)) for a, q in ((0, 0.3), (1, 0.7)) for r, p in ((1, q), (0, 1 - q))], horizon=1)


def chain():
    """Three states: a small reward for staying at the left end, a large one at the right end, three steps away."""
    rows = []
    for s in range(3):
        rows.append((s, 0, max(s - 1, 0), 1.0, 0.1 if s == 0 else 0.0))
        rows += [(s, 1, min(s + 1, 2), 0.9, 1.0 if s == 2 else 0.0), (s, 1, s, 0.1, 0.0)] if s < 2 else []
    rows += [(2, 1, 2, 0.8, 1.0), (2, 1, 0, 0.2, 0.0)]
    return MDP(rows, horizon=6)


def alternating():
    """One state in which action h mod 2 pays at stage h: a policy that ignores the stage gets half of it."""
    rewards = np.zeros((4, 1, 2))
    rewards[[0, 1, 2, 3], 0, [0, 1, 0, 1]] = 1.0
    return MDP(np.ones((1, 2, 1)), rewards, horizon=4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("problem", "episodes"), [(two_arms, 400), (chain, 800), (alternating, 300)])
def test_each_baseline_solves_the_small_problems(name, problem, episodes):
    mdp = problem()
    record = learn(mdp, name, 0.5, episodes, 3)
    assert record.means()[-1] > 0.97 * best_mean(mdp)[0]
    assert record.final_policy is not None
    assert evaluate(mdp, record.final_policy).mean() > 0.97 * best_mean(mdp)[0]


@pytest.mark.parametrize(("name", "least"), [("ucbvi", 0.86), ("thompson", 0.855), ("ppo", 0.83), ("trpo", 0.82)])
def test_the_shipped_defaults_learn_asset_selling(name, least):
    assert learn(asset_selling(), name, 0.5, 2000, 77).means()[-1] > least


@pytest.mark.parametrize("name", ["q-learning", "sarsa"])
def test_an_optimistic_start_learns_to_wait(name):
    mdp = asset_selling()
    plain = learn(mdp, name, 0.5, 2000, 77).means()[-1]
    hopeful = learn(mdp, name, 0.5, 2000, 77, optimistic_start=1.0).means()[-1]
    assert plain < 0.75 < 0.82 < hopeful


@pytest.mark.parametrize("name", ["q-learning", "sarsa"])
def test_a_fresh_table_takes_the_lowest_action(name):
    assert not Run(asset_selling(), name, 0.5, 10, 0).learner.evaluated().actions.any()


@pytest.mark.parametrize(
    "params", [{"bonus": "hoeffding"}, {"stationary": False, "scale": 0.01}, {"monotone": True, "scale": 0.01}]
)
def test_every_form_of_ucbvi_learns(params):
    assert learn(chain(), "ucbvi", 0.5, 500, 1, **params).means()[-1] == pytest.approx(best_mean(chain())[0])


def test_thompson_with_one_kernel_for_all_stages_learns():
    assert learn(chain(), "thompson", 0.5, 300, 1, stationary=True).means()[-1] == pytest.approx(best_mean(chain())[0])


# -- temporal differences by hand -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["q-learning", "sarsa"])
def test_updates_by_hand(name):
    mdp = alternating()
    work = Run(mdp, name, 0.5, 40, 1, learning_rate=0.25)
    Q, n = np.zeros((mdp.H + 1, 1, 2)), np.zeros((mdp.H, 1, 2))
    for _ in range(40):
        episode = work.world.play(work.learner.plan(), work.chance)
        work.learner.observe(episode)
        for h, (s, a, r, s_next) in enumerate(
            zip(episode.states[:-1], episode.actions, episode.rewards, episode.states[1:], strict=True)
        ):
            n[h, s, a] += 1
            after = Q[h + 1, s_next]
            later = after.max() if name == "q-learning" or h == mdp.H - 1 else after[episode.actions[h + 1]]
            Q[h, s, a] += max(0.25, 1 / n[h, s, a]) * (r + 0.99 * later - Q[h, s, a])
        assert np.allclose(work.learner.Q, Q[:-1], atol=1e-14)


def test_epsilon_falls_in_a_straight_line():
    work = Run(asset_selling(), "q-learning", 0.5, 11, 0)
    seen = []
    for _ in range(11):
        seen.append(work.learner.epsilon)
        chances = work.learner.plan().probabilities
        assert np.allclose(chances.sum(axis=2), 1.0)
        assert chances.min() == pytest.approx(seen[-1] / 2)
        work.step()
    assert np.allclose(seen, np.linspace(1.0, 0.05, 11))


# -- optimism -------------------------------------------------------------------------------------------------------


def optimal_values(mdp):
    V = np.zeros((mdp.H + 1, mdp.S))
    for h in range(mdp.H - 1, -1, -1):
        for s in range(mdp.S):
            rows = [mdp.outcomes(h, s, a) for a in range(mdp.A)]
            V[h, s] = max((p @ (r + mdp.discount * V[h + 1, after]) for after, p, r in rows if after.size), default=0.0)
    return V


def test_ucbvi_is_optimistic_whenever_the_kernel_lies_within_the_bonus():
    inside = outside = 0
    for seed in range(30):
        mdp = random_mdp(np.random.default_rng(seed))
        work = Run(mdp, "ucbvi", 0.5, 25, seed, scale=0.004, bonus="hoeffding", stationary=False)
        learner, V = work.learner, optimal_values(mdp)
        for _ in range(25):
            learner.plan()
            counts, within = learner.counts, True
            for h, s, a in np.argwhere(counts.available & ~counts.known & (counts.visits > 0)):
                q = (h * mdp.S + s) * mdp.A + a
                after, p, r = mdp.outcomes(h, s, a)
                p_hat = counts.probability[counts.row_start[q] : counts.row_start[q + 1]]
                width = learner.ceiling[h, s, a] - learner.floor[h, s, a]
                bonus = 0.004 * 7 * width * learner.L / np.sqrt(counts.visits[h, s, a])
                within &= bool((p - p_hat) @ (r + mdp.discount * V[h + 1, after]) <= bonus)
            if within:
                assert np.all(learner.V >= V - 1e-9)
            inside, outside = inside + within, outside + (not within)
            work.step()
    assert inside > 100
    assert outside > 20


@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
def test_ucbvi_with_the_constants_of_its_source_is_always_optimistic(bonus):
    for seed in range(15):
        mdp = random_mdp(np.random.default_rng(seed))
        record = learn(mdp, "ucbvi", 0.5, 40, seed, scale=1.0, bonus=bonus, stationary=False)
        assert np.all(record.notes["planned_value"] >= best_mean(mdp)[0] - 1e-9)


def test_bounds_hold_the_values_of_every_kernel():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        mdp = random_mdp(rng)
        learner = Run(mdp, "ucbvi", 0.5, 5, 0).learner
        for _ in range(5):
            weights = rng.random(mdp.successor.size) + 1e-3
            rows = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
            drawn = weights / np.bincount(rows, weights, mdp.row_start.size - 1)[rows]
            known = np.repeat(mdp.known.reshape(-1), np.diff(mdp.row_start))
            other = mdp.with_probability(np.where(known, mdp.probability, drawn))
            V = optimal_values(other)
            for h, s, a in np.argwhere(np.isfinite(learner.ceiling)):
                after, p, r = other.outcomes(h, s, a)
                value = p @ (r + other.discount * V[h + 1, after])
                assert learner.floor[h, s, a] - 1e-9 <= value <= learner.ceiling[h, s, a] + 1e-9


# -- streams, bits, memory ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(name):
    mdp = asset_selling(offers=6, start=1)
    assert bits(run(mdp, name, 60)) == bits(run(mdp, name, 60))
    assert bits(run(mdp, name, 60))["returns"] != bits(run(mdp, name, 60, seed=6))["returns"]


def test_all_learners_meet_the_same_chance():
    mdp = asset_selling(offers=6, start=1)
    states = [run(mdp, name, 30).world.memory() for name in NAMES]
    assert all(state == states[0] for state in states)


@pytest.mark.parametrize("name", NAMES)
def test_a_resumed_run_equals_an_uninterrupted_one(name, tmp_path):
    mdp = asset_selling(offers=6, start=1)
    middle = int(np.random.default_rng(NAMES.index(name)).integers(1, 89))
    whole = run(mdp, name, 90)
    first = Run(mdp, name, 0.5, 90, 5)
    for _ in range(middle):
        first.step()
    write_arrays(tmp_path / "middle.npz", first.memory())
    second = Run(mdp, name, 0.5, 90, 5)
    second.recall(read_arrays(tmp_path / "middle.npz"))
    while second.t < second.total:
        second.step()
    assert bits(whole) == bits(second)
    assert np.array_equal(whole.record().final_policy.actions, second.record().final_policy.actions)


@pytest.mark.parametrize("name", NAMES)
def test_no_learner_touches_a_global_stream(name, monkeypatch):
    mdp = asset_selling(offers=6, start=1)
    before = bits(run(mdp, name, 45))

    def poisoned(*_, **__):
        raise AssertionError("a global stream was used")

    for method in ("seed", "random", "rand", "randn", "randint", "choice", "normal", "gamma", "permutation", "shuffle"):
        monkeypatch.setattr(np.random, method, poisoned)
    assert bits(run(mdp, name, 45)) == before


def test_no_kernel_draws():
    folder = next(iter(bqrl.kernels.__path__))
    for module in ("induction", "temporal", "softmax", "ppo", "trpo", "tally"):
        with open(f"{folder}/{module}.py") as source:
            assert "random" not in source.read().replace("Random", "")


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_grow_with_the_run(name):
    work = Run(asset_selling(offers=6, start=1), name, 0.5, 150, 0)
    sizes = []
    for t in range(150):
        work.step()
        if t in (5, 149):
            sizes.append(sum(np.asarray(value).nbytes for value in work.learner.memory().values()))
    assert sizes[0] == sizes[1]


# -- every kind of problem ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_actions_that_do_not_exist_are_never_played(name):
    problems = [asset_selling(offers=4, start=1, horizon=4, stop_at_end=True)]
    problems += [random_mdp(np.random.default_rng(seed)) for seed in range(12)]
    masked = 0
    for mdp in problems:
        work = Run(mdp, name, 0.5, 45, 1)
        available = np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A))
        masked += not available.all()
        for _ in range(45):
            episode = work.world.play(work.learner.plan(), work.chance)
            policy = work.learner.evaluated()
            work.learner.observe(episode)
            for h in range(mdp.H):
                s = episode.states[h]
                assert available[h, s, episode.actions[h]]
                assert available[h, s, policy.act(h, s)]
    assert masked > 1


@pytest.mark.parametrize("name", MODEL_BASED)
def test_a_discount_counts_in_the_plan(name):
    rewards = [[0.0, 0.9], [1.0, 1.0], [0.0, 0.0]]  # wait for 1 in the next stage, or take 0.9 now
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 1] = transitions[0, 1, 2] = transitions[1, :, 2] = transitions[2, :, 2] = 1.0
    patient, hasty = MDP(transitions, rewards, horizon=2), MDP(transitions, rewards, horizon=2, discount=0.5)
    assert Run(patient, name, 0.5, 1, 0).learner.plan().act(0, 0) == 0
    assert Run(hasty, name, 0.5, 1, 0).learner.plan().act(0, 0) == 1


@pytest.mark.parametrize("name", MODEL_BASED)
def test_the_kernel_is_hidden_from_model_based_learners(name):
    work = Run(asset_selling(distribution="geometric"), name, 0.5, 5, 0)
    assert set(np.unique(work.learner.model.probability)) == {1 / 25, 1.0}


def test_model_free_learners_are_not_given_the_rewards():
    for name in NAMES:
        given = Run(asset_selling(), name, 0.5, 5, 0).learner.task.model is not None
        assert given == LEARNERS[name].needs_rewards == (name in MODEL_BASED)


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        ("ucbvi", {"scale": -1.0}, "scale must be at least 0"),
        ("ucbvi", {"bonus": "none"}, "bonus must be one of"),
        ("thompson", {"scale": 0.0}, "scale must be above 0"),
        ("thompson", {"prior": 0}, "prior must be above 0"),
        ("q-learning", {"learning_rate": 2.0}, r"learning_rate must lie in \(0, 1\], got 2"),
        ("sarsa", {"epsilon": (0.5, 2.0)}, r"epsilon must lie in \[0, 1\], got 2"),
        ("q-learning", {"discount": 1.5}, "discount must lie in"),
        ("ppo", {"batch": 0}, "batch must be at least 1"),
        ("ppo", {"learning_rate": float("nan")}, "learning_rate must be"),
        ("trpo", {"radius": 0.0}, "radius must be above 0"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(name, params, match):
    with pytest.raises(ValueError, match=match) as caught:
        Run(asset_selling(), name, 0.5, 5, 0, **params)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_the_tuned_parameter_exists(name):
    kind = LEARNERS[name]
    assert kind.tuned in inspect.signature(kind.__init__).parameters


@pytest.mark.parametrize("name", MODEL_BASED)
def test_planning_without_rewards_is_refused(name):
    mdp = asset_selling()
    task = Task(mdp.structure, None, 1.0, 0.5, 10, 0.05)
    with pytest.raises(ValueError, match="rewards"):
        LEARNERS[name](task, np.random.default_rng(0))
    LEARNERS[name](Task(mdp.structure, blank_model(mdp), 1.0, 0.5, 10, 0.05), np.random.default_rng(0))
