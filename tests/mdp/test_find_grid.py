"""Which grid fits a problem: a lattice, a set of returns, or a rounded grid."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, best_objective, small_mdps

import bqrl
from bqrl import MDP
from bqrl.mdp.find_grid import lattice, refit_grid, return_set, returns_grid, reward_step, rounded_grid


def chain(rewards, horizon=3, discount=1.0):
    """One state; every reward is possible at every stage."""
    p = 1 / len(rewards)
    return MDP([(0, 0, 0, p, float(r)) for r in rewards], horizon=horizon, discount=discount)


@pytest.mark.parametrize(
    ("rewards", "base", "step"),
    [
        (np.arange(25) / 24, 0, Fraction(1, 24)),
        ([-0.1, 0.2, 0.5], Fraction(-1, 10), Fraction(3, 10)),
        ([0.01, 0.03, 4.99], Fraction(1, 100), Fraction(2, 100)),
        ([-2420.0000000002, 1000.0000000001], -2420, 3420),
        ([5.0], 5, 1),
        ([1 / 3, 0.5, 2.0], Fraction(1, 3), Fraction(1, 6)),
    ],
)
def test_the_exact_step_is_found(rewards, base, step):
    assert reward_step(np.unique(rewards)) == (base, step)


@pytest.mark.parametrize("rewards", [[0.0, 1.0, np.sqrt(2)], [0.0, 5.0, 86.2971023227292], [0.0, np.pi, 1.0]])
def test_rewards_without_a_step_have_none(rewards):
    assert reward_step(np.unique(rewards)) is None
    assert lattice(chain(rewards)) is None
    assert returns_grid(chain(rewards)).kind == "set"


def test_an_offset_without_a_fraction_is_no_obstacle():
    found = lattice(chain([np.pi, np.pi + 1], horizon=4))
    assert found.kind == "lattice"
    assert found.points(0) == pytest.approx(4 * np.pi + np.arange(5))


def test_decimals_are_correctly_rounded_points():
    found = lattice(chain([-0.1, 0.2], horizon=10))
    assert found.points(0).tolist() == [float(Fraction(-1) + i * Fraction(3, 10)) for i in range(11)]


@given(small_mdps())
def test_every_achievable_return_is_a_point_of_every_grid(mdp):
    laws = achievable_laws(mdp, 100)
    assume(laws is not None)
    for found in (lattice(mdp), return_set(mdp), returns_grid(mdp)):
        points = found.points(0)
        for law in laws:
            for x, _ in law:
                column = int(found.column(0, float(x)))
                assert points[column] == pytest.approx(float(x), abs=1e-9)


def test_a_set_replaces_a_lattice_that_is_much_larger():
    swim = chain([0.0, 5.0, 86.2971], horizon=100)
    assert lattice(swim, max_points=10**8) is not None  # 86 million points
    found = returns_grid(swim)
    assert (found.kind, found.size[0]) == ("set", 5151)


def test_nothing_fits_a_size_that_is_too_small():
    assert returns_grid(chain(np.sqrt(np.arange(2.0, 40.0)), horizon=50), max_points=10, max_set=100) is None
    assert lattice(chain(np.arange(10.0), horizon=50), max_points=100) is None


def test_sums_that_no_state_can_have_take_no_room():
    mdp = bqrl.envs.make("AssetSelling")
    assert returns_grid(mdp).size.tolist() == [25] * 10 + [1]
    discounted = returns_grid(mdp.replace(discount=0.9))
    assert discounted.kind == "set"
    assert discounted.size[0] < 250


@given(small_mdps(), st.floats(0.5, 1.0), st.booleans())
def test_rounding_moves_returns_in_one_direction_by_at_most_its_error(mdp, discount, up):
    mdp = mdp.replace(discount=discount)
    found = rounded_grid(mdp, 50, up=up)
    worth = mdp.discount ** np.arange(mdp.H)
    for h in range(mdp.H):
        reward = worth[h] * mdp.stage(h).reward
        as_counted = (found.offset[h] - found.offset[h + 1]) + found.stage_units(mdp, h) * found.step
        moved = (reward - as_counted)[np.repeat(mdp.reachable[h], np.diff(mdp.stage(h).row_start[:: mdp.A]))]
        assert np.all(moved <= 1e-9) if up else np.all(moved >= -1e-9)
    assert found.error <= mdp.H * found.step + 1e-9


def test_a_set_that_fills_the_lattice_is_given_up_early():
    mdp = MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=600)
    assert return_set(mdp).size[0] == 601
    assert return_set(mdp, fewer_than=lattice(mdp).size // 4) is None
    assert returns_grid(mdp.replace(horizon=5000)).kind == "lattice"


def test_huge_rewards_that_no_policy_meets_do_not_overflow():
    rows = [(0, 0, 0, 1.0, 0.0), (0, 1, 0, 1.0, 1.0), (1, 0, 1, 1.0, 1e290)]
    mdp = MDP(rows, horizon=3, discount=0.9, start=0)
    found = bqrl.solve(mdp, 0.5, points=200)
    assert found.value <= 2.71 <= found.upper + 1e-9


GAME = [(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 2.0), (0, 1, 0, 0.5, 0.3), (0, 1, 0, 0.5, 5.0)]


@pytest.mark.parametrize("reward", [1e7, -1e12, -1e15, -1e16, 1e290])
@pytest.mark.parametrize("options", [{}, {"points": 50}, {"beta": 0.1}])
@pytest.mark.parametrize("discount", [1.0, 0.95])
def test_rewards_of_unreachable_states_change_no_plan(reward, options, discount):
    alone = bqrl.solve(MDP(GAME, horizon=3, discount=discount), 0.3, **options)
    beside = bqrl.solve(MDP([*GAME, (1, 0, 1, 1.0, reward)], horizon=3, discount=discount), 0.3, **options)
    assert (beside.value, beside.upper, beside.exact) == (alone.value, alone.upper, alone.exact)
    assert beside.law.equals(alone.law, tol=0.0)


def test_an_unreachable_state_changes_no_stage_of_a_staged_problem():
    rows = [(0, 0, 0, 0, 0.6, 3e-9), (0, 0, 0, 0, 0.4, 1e-9), (1, 0, 0, 0, 1.0, 1e9)]  # stage, state, action, ...
    beside = MDP([*rows, (0, 1, 0, 1, 1.0, 0.0), (1, 1, 0, 1, 1.0, 0.0)], discount=0.5)
    for mdp in (MDP(rows, discount=0.5), beside):
        assert bqrl.solve(mdp, 0.5).value == pytest.approx(5e8, rel=1e-12)


def test_a_policy_beside_an_unreachable_state_can_be_saved(tmp_path):
    mdp = MDP([(0, 0, 0, 1.0, 1.0), (1, 0, 1, 1.0, 5.0)], horizon=2)
    policy = bqrl.solve(mdp, 0.3, points=9).policy
    bqrl.save(policy, tmp_path / "policy.npz")
    assert bqrl.evaluate(mdp, bqrl.load(tmp_path / "policy.npz")).quantile(0.3) == 2.0


@pytest.mark.parametrize("loss", [-1e10, -1e12, -1e14])
def test_a_rare_huge_loss_leaves_every_bracket_valid(loss):
    rows = [(0, 0, 0, 0.499, 1.0), (0, 0, 0, 0.5, 2.0), (0, 0, 0, 0.001, loss), *GAME[2:]]
    plan = bqrl.solve(MDP(rows, horizon=1), 0.3)
    assert plan.value <= 1.0 <= plan.upper


def test_an_action_that_is_never_worth_it_blurs_no_other_return():
    rewards = np.random.default_rng(6).random(4).tolist()
    rows = [(0, a, 0, 0.5, rewards[2 * a + i]) for a in (0, 1) for i in (0, 1)]
    laws = achievable_laws(MDP(rows, horizon=3, discount=0.95))
    expected = float(best_objective(laws, Fraction(3, 10)))
    plan = bqrl.solve(MDP([*rows, (0, 2, 0, 1.0, -1e10)], horizon=3, discount=0.95), 0.3)
    assert plan.value == pytest.approx(expected, abs=1e-4)  # 1e-14 of the largest reward


def test_a_large_constant_in_every_reward_shifts_the_plan_alone():
    rows = [(0, 0, 0, 0.5, -1.0), (0, 0, 0, 0.5, 2.0), (0, 1, 0, 0.5, 0.0), (0, 1, 0, 0.5, 1.0)]
    plan = bqrl.solve(MDP(rows, horizon=15), 0.4)
    for c in (1e9, 1e11):
        moved = bqrl.solve(MDP([(*row[:4], row[4] + c) for row in rows], horizon=15), 0.4)
        assert (moved.value - 15 * c, moved.upper - 15 * c) == (plan.value, plan.upper)
        assert len(moved.law) == len(plan.law)


def test_rewards_of_too_many_steps_do_not_overflow_a_grid_of_another_problem():
    """A decision table once said that -1,314,330 is earned after a reward of 1e12."""
    small, large = chain([1e-9, 2.5e-9], 2, 0.9), chain([1e12, 3e12], 2, 0.9)
    policy = bqrl.solve(small, 0.4, points=20_000).policy
    assert refit_grid(policy.grid, small).error == policy.grid.error
    assert refit_grid(policy.grid, large) is None
    assert [row["reward"] for row in policy.table(large, rewards="this model")] == [1e12, 3e12, None, None]
