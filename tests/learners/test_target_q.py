"""Q-learning on the augmented state: exact where nothing is random, near the optimum where something is."""

import numpy as np
import pytest
from learner_problems import bits, chain

import bqrl
from bqrl.errors import SizeError
from bqrl.learners.run import Run, learn

RANDOM_PLAY = {"epsilon": (1.0, 1.0), "learning_rate": 1e-4}  # visits everything, and averages


def deterministic(rng, H=3, S=3, A=2):
    """A problem without randomness and with whole rewards, so with many ties."""
    P = np.zeros((H, S, A, S))
    np.put_along_axis(P, rng.integers(S, size=(H, S, A, 1)), 1.0, axis=3)
    return bqrl.MDP(P, rng.integers(0, 4, (H, S, A)).astype(float))


def coins():
    """Bet 0, 1 or 2 on each of three coins that favour the player; what is lost is lost."""
    rows = [(0, a, 0, p, float(sign * a)) for a in (1, 2) for sign, p in ((1, 0.7), (-1, 0.3))]
    return bqrl.MDP([(0, 0, 0, 1.0, 0.0), *rows], horizon=3)


@pytest.mark.parametrize("name", ["target-q", "var-q"])
@pytest.mark.parametrize("seed", range(5))
def test_without_randomness_the_best_return_is_found(name, seed):
    mdp = deterministic(np.random.default_rng(seed))
    record = learn(mdp, name, 0.3, 150, seed, **RANDOM_PLAY)
    assert record.gap()[-1] == 0.0


@pytest.mark.parametrize(("problem", "tau", "episodes"), [(coins, 0.2, 4000), (coins, 0.5, 16000), (chain, 0.5, 4000)])
def test_cvar_reaches_its_optimum(problem, tau, episodes):
    mdp, goal = problem(), bqrl.CVaR(tau)
    record = learn(mdp, "target-q", objective=goal, episodes=episodes, seed=1, **RANDOM_PLAY)
    assert record.value()[-1] == pytest.approx(bqrl.solve(mdp, goal).value, abs=1e-12)


@pytest.mark.parametrize("tau", [0.1, 0.4, 0.8])
def test_a_quantile_reaches_its_optimum(tau):
    mdp = coins()  # the nearest shortfalls are at least 0.02 away from these levels
    record = learn(mdp, "target-q", tau, 4000, 1, **RANDOM_PLAY)
    assert record.gap()[-1] == 0.0
    assert record.notes["target"][-1] == record.value()[-1]


def test_the_costs_converge_to_those_of_the_exact_recursion():
    mdp = coins()
    run = Run(mdp, "target-q", bqrl.CVaR(0.3), 8000, 3, **RANDOM_PLAY)
    for _ in range(run.total):
        run.step()
    z = run.learner.grid.points(0)
    W = {n: max(n, 0.0) for n in range(-12, 13)}  # expected shortage with no coin left, then with one more
    for _ in range(3):
        W = {n: min(sum(p * W[n - g] for g, p in row) for row in ([(0, 1.0)], [(1, 0.7), (-1, 0.3)], [(2, 0.7), (-2, 0.3)]))
             for n in W if n - 2 in W and n + 2 in W}  # fmt: skip
    # The rate c / (c + n - 1), c = H + 1, gives the variance c^2 / (2 c - 1) / n of one draw; the three stages share their draws.
    n, c, deviation = run.learner.visits[0, 0].min(), 4.0, 4.0 * np.sqrt(0.7 * 0.3)
    bound = 4.0 * 3 * deviation * np.sqrt(c * c / (2.0 * c - 1.0) / n)
    assert run.learner.J[0, 0].min(axis=0)[: z.size] == pytest.approx([W[round(n)] for n in z], abs=bound)


@pytest.mark.parametrize("name", ["target-q", "var-q"])
def test_a_restored_run_keeps_the_target_of_its_policy(name):
    """Once, the target was chosen anew from the costs learned since the policy was made."""
    whole, first, second = (Run(coins(), name, 0.4, 400, 5) for _ in range(3))
    for t in range(400):
        whole.step()
        if t < 205:
            first.step()
    assert first.learner.made < first.learner.t
    second.restore(first.state())
    assert second.learner.evaluated().target == first.learner.evaluated().target
    for _ in range(195):
        second.step()
    assert bits(whole) == bits(second)


def test_stages_are_pooled_only_if_kernel_and_rewards_are_the_same():
    P, R = np.ones((1, 1, 2, 1)), np.array([[[0.0, 1.0]]])
    same = bqrl.MDP(P[0], R[0], horizon=3)
    other = bqrl.MDP(np.repeat(P, 3, axis=0), R * np.arange(1.0, 4.0)[:, None, None])
    for mdp, counts in ((same, 3), (other, 1)):
        run = Run(mdp, "target-q", 0.5, 1, 1)
        run.step()
        assert run.learner.visits.sum(axis=(1, 2)).tolist() == [counts] * 3


def test_the_costs_of_states_at_the_end_are_known():
    mdp = bqrl.MDP([(0, 0, 1, 1.0, 2.0), (1, 0, 1, 1.0, 0.0)], horizon=3)
    run = Run(mdp, "target-q", bqrl.CVaR(0.5), 1, 1)
    z = run.learner.grid.points(1)
    assert run.learner.V[1, 1, : z.size].tolist() == np.maximum(z, 0.0).tolist()
    run.step()
    assert run.learner.notes()["target"] == 2.0


def test_a_fine_lattice_is_replaced_by_a_coarser_grid():
    mdp = bqrl.MDP(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]) + np.array([[0.123, 0.456]]), horizon=5)
    run = Run(mdp, "target-q", 0.5, 5, 1, needs=10)
    assert run.learner.grid.size.max() <= 11
    assert learn(mdp, "target-q", 0.5, 60, 1, needs=10).gap()[-1] == pytest.approx(0.0, abs=1.0)


def test_a_table_that_is_too_large_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr("bqrl.learners.target_q.MAX_NUMBERS", 1000)
    for name, option in (("target-q", "needs"), ("var-q", "levels")):
        match = f"the learner {name} must have at most 1000 numbers in its table, got .* lower {option}, or choose psrl"
        with pytest.raises(SizeError, match=match) as caught:
            learn("AssetSelling", name, episodes=1)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "params", "match"),
    [
        ("target-q", {"learning_rate": 0.0}, "learning_rate must be a number in"),
        ("target-q", {"needs": 1}, "needs must be a whole number of at least 2"),
        ("target-q", {"epsilon": 0.3}, "epsilon must be a pair"),
        ("var-q", {"levels": 1}, "levels must be a whole number of at least 2"),
        ("qr-q", {"levels": 0}, "levels must be a whole number of at least 1"),
        ("qr-q", {"needs": 5}, "needs"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(name, params, match):
    with pytest.raises((ValueError, TypeError), match=match) as caught:
        learn("SafeOrRisky", name, 0.3, 5, 1, **params)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["target-q", "var-q", "qr-q"])
def test_an_environment_without_a_table_is_learned_from_what_is_seen(name):
    record = learn("Blackjack-v1", name, 0.6, 300, 1, horizon=12)
    assert record.returns.size == 300
    assert np.mean(record.returns[-100:]) > np.mean(record.returns[:100]) - 0.2
