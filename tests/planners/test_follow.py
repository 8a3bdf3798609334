"""Following a policy forward: compiled loops against the general forward pass and against single steps."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import small_mdps
from policy_kinds import followed

import bqrl
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.planners.follow import Follower, law_on_points
from bqrl.planners.sweep import Layout, sweep
from bqrl.policies.forward import push_forward


def follower(mdp):
    return Follower(Layout(mdp, lattice(mdp)))


@given(small_mdps(), st.floats(0.05, 0.95))
def test_the_compiled_pass_equals_the_general_one(mdp, tau):
    columns, policy = lattice(mdp), bqrl.guarantee_curve(mdp).policy(tau)
    assume(policy.grid.uniform)
    np.testing.assert_allclose(follower(mdp).law(policy), law_on_points(mdp, policy, columns), atol=1e-14)
    law = bqrl.Law(*push_forward(mdp, policy, columns))
    assert law.equals(bqrl.evaluate(mdp, policy))


@given(small_mdps(), st.floats(0.05, 0.95), st.integers(0, 10**6))
def test_an_episode_takes_the_actions_of_the_policy_and_outcomes_of_the_model(mdp, tau, seed):
    policy = bqrl.guarantee_curve(mdp).policy(tau)
    here = follower(mdp)
    assert here.fits(policy) == here.grid.same_columns(policy.grid)
    states, actions, rewards = np.empty(mdp.H + 1, np.int64), np.empty(mdp.H, np.int64), np.empty(mdp.H)
    assume(here.fits(policy))
    here.play(policy, np.random.default_rng(seed).random(mdp.H + 1), states, actions, rewards)
    memory = policy.start()
    assert mdp.mu[states[0]] > 0.0
    for h in range(mdp.H):
        s, a, s_next, r = int(states[h]), int(actions[h]), int(states[h + 1]), float(rewards[h])
        assert a == policy.act(h, s, memory)
        successors, probabilities, paid = mdp.outcomes(h, s, a)
        possible = (successors == s_next) & (paid == r) & (probabilities > 0.0)
        assert possible.any()
        memory = policy.next(memory, h, s, a, r, s_next)


def test_another_kernel_on_the_same_outcomes_changes_the_law():
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=2)
    policy = bqrl.MarkovPolicy(np.zeros((2, 1), int))
    here = follower(mdp)
    assert here.law(policy).tolist() == [0.25, 0.5, 0.25]
    assert here.law(policy, np.array([0.1, 0.9])) == pytest.approx([0.01, 0.18, 0.81])


def test_in_large_stages_only_reached_states_are_visited_and_laws_stay_equal():
    mdp = bqrl.envs.make("BettingGame", stakes="eighths", bets=3)
    columns, rng = rounded_grid(mdp, 3000), np.random.default_rng(0)
    here = Follower(Layout(mdp, columns))
    met = np.broadcast_to(mdp.reachable[:-1], (3, mdp.S))
    drawn = [
        bqrl.MarkovPolicy(np.where(met, rng.integers(mdp.A, size=met.shape), 99)) for _ in range(5)
    ]  # no action 99
    aimed = sweep(mdp, columns).policy(0.2)
    for policy in (*drawn, aimed, drawn[0]):
        assert here.fits(policy)
        sums, mass = push_forward(mdp, policy, columns)
        law = here.law(policy)
        assert law.sum() == pytest.approx(1.0, abs=1e-12)
        first = int(np.searchsorted(columns.points(0), sums[0] - 1e-9))
        np.testing.assert_allclose(law[first : first + mass.size], mass, atol=1e-15)


def test_stages_may_be_small_and_then_large():
    mdp = bqrl.envs.make("AmericanPut")  # 98 states: the sums of the first stages are few, later ones are many
    columns = rounded_grid(mdp, 2000)
    layout = Layout(mdp, columns, met_only=True)
    here, done = Follower(layout), sweep(mdp, columns, layout=layout)
    for target in columns.points(0)[::500].tolist():
        policy = done.policy(target)
        np.testing.assert_allclose(here.law(policy), law_on_points(mdp, policy, columns), atol=1e-15)


def test_a_grid_that_rounds_up_does_not_fit_one_that_rounds_down():
    rows = [(0, 0, 0, 0.5, 0.35), (0, 0, 0, 0.5, 0.0), (0, 1, 0, 0.7, 0.0), (0, 1, 0, 0.3, 1.0)]
    mdp = bqrl.MDP(rows, horizon=3)
    down, up = (rounded_grid(mdp, 12, up=up) for up in (False, True))
    assert np.array_equal(down.size, up.size)
    here, policies = Follower(Layout(mdp, down)), [sweep(mdp, columns).policy(0.5) for columns in (down, up)]
    laws = [bqrl.Law(down.points(0), here.law(policy)) for policy in policies]
    off = [law.wasserstein(followed(mdp, policy)[0]) for law, policy in zip(laws, policies, strict=True)]
    assert off[0] <= down.error < off[1]  # needs that are rounded up do not follow from sums rounded down
    assert [here.fits(policy) for policy in policies] == [True, False]
