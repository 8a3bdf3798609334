import numpy as np
import pytest

import bqrl
from bqrl.errors import PolicyError
from bqrl.policies.on_grid import GridPolicy

GRID = {"x": np.linspace(0.0, 4.0, 17)}


def step(state, action, event):
    (x,) = state
    return (min(4.0, max(0.0, x + action * event - 0.1)),), 0.25 * (x >= 1.0)


def monotone():
    return bqrl.from_step(step, [0.0, 0.5], {-1: 0.4, 1: 0.6}, 4, (1.3,), grid=GRID, monotone={"x": 1})


def rough(**options):
    def move(state, action, event):
        return (0.5 * state[0] + 2.0 + action * event,), -abs(state[0] - 3.0)

    grid = {"x": np.linspace(-1.0, 7.0, 81)}
    return bqrl.from_step(
        move, [0.0, 1.0], {-1: 0.5, 1: 0.5}, 4, (1.03,), grid=grid, lipschitz=(0.5, 1.0), **options
    ), move


def play(policy, move, events, state, told):
    """Play one episode through the public protocol; return its return and the actions."""
    memory, total, played = policy.start(), 0.0, []
    for h, event in enumerate(events):
        a = policy.act(h, state, memory)
        after, reward = move(state, policy.model.actions[a], event)
        memory = policy.next(memory, h, state, a, reward, after, **({"event": event} if told else {}))
        total, state = total + reward, after
        played.append(a)
    return total, played


@pytest.mark.parametrize("kind", ["monotone", "rough"])
def test_one_episode_equals_the_same_episode_in_a_batch(kind):
    model, move = (monotone(), step) if kind == "monotone" else rough()
    policy = bqrl.solve(model, tau=0.3).policy
    rng = np.random.default_rng(0)
    batch = bqrl.simulate(model, policy, 30, seed=5)
    u = np.random.default_rng(5).random((30, model.H + 2))[:, 2:]
    first = next(iter(model.start))
    for i in rng.integers(0, 30, 8):
        events = [model.law(h).draw(u[i, h : h + 1])[0] for h in range(model.H)]
        assert play(policy, move, events, first, told=True)[0] == pytest.approx(batch[i])


def test_the_state_is_rounded_towards_the_worse_side():
    model = monotone()
    policy = bqrl.solve(model, tau=0.3).policy
    memory = policy.start()
    for x in (1.25, 1.3, 1.49):
        assert policy.act(0, (x,), memory) == policy.inner.act(0, int(model.locate([(1.25,)])[0]), memory)
    assert model.locate([(-0.5,)]).tolist() == [-1]
    assert policy.act(0, (-0.5,), memory) == 0  # the first action that exists
    assert repr(policy).startswith("GridPolicy(TargetPolicy(")


def test_events_are_required_or_inverted():
    model, move = rough()
    policy = bqrl.solve(model, tau=0.3).policy
    with pytest.raises(
        PolicyError, match=r"^this policy follows the events: expected next\(..., event=info\['event'\]\)"
    ):
        play(policy, move, [1, 1, -1, 1], (1.03,), told=False)

    def invert(state, action, after):
        return 1 if after[0] >= 0.5 * state[0] + 2.0 else -1

    policy = bqrl.solve(rough(invert=invert)[0], tau=0.3).policy
    told = play(policy, move, [1, 1, -1, 1], (1.03,), told=True)
    assert play(policy, move, [1, 1, -1, 1], (1.03,), told=False) == told


def test_the_policy_follows_the_chain_and_not_the_state():
    model, move = rough()
    policy = GridPolicy(bqrl.solve(model, tau=0.3).policy.inner, model)
    a = policy.act(0, (1.03,), policy.start())
    after, reward = move((1.03,), model.actions[a], 1)
    chain, need = policy.next(policy.start(), 0, (1.03,), a, reward, after, event=1)
    value = float(model.lower.state_names[chain].strip("()"))
    assert abs(value - after[0]) <= 0.5 * 0.03 + 0.05 + 1e-9
    assert policy.act(1, (99.0,), (chain, need)) == policy.act(1, after, (chain, need))


def test_it_cannot_be_stored(tmp_path):
    policy = bqrl.solve(monotone(), tau=0.3).policy
    with pytest.raises(PolicyError, match=r"^a policy for continuous states cannot be stored; save policy.inner"):
        policy.save(tmp_path / "policy.npz")


def test_true_rewards_between_the_points_of_a_lattice_are_rounded_down():
    def pay(state, action, event):
        return (state[0] + 0.5 * event,), state[0]  # the true rewards lie between those of the grid

    grid = {"x": np.linspace(-2.0, 2.0, 9)}
    model = bqrl.from_step(pay, ["go"], {-1: 0.5, 1: 0.5}, 2, (0.3,), grid=grid, monotone={"x": 1})
    policy = bqrl.solve(model, tau=0.4).policy
    need = policy.start()
    assert policy.next(need, 0, (0.3,), 0, 0.3, (0.8,)) == need
    assert policy.next(need, 0, (0.3,), 0, 0.5, (0.8,)) == need - 0.5
