import numpy as np
import pytest
from continuous_problems import EVENTS, OnTuples, grid_of, monotone_problems, truth
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import bqrl
from bqrl.errors import ArgumentError, ArgumentTypeError, PolicyError
from bqrl.planners.facts import StoppedRefining

LEVELS = st.sampled_from([0.1, 0.25, 0.3, 0.5, 0.9])


def on_grid(problem, points=9, **options):
    step, actions, H, start, signs = problem
    return bqrl.from_step(step, actions, EVENTS, H, start, grid=grid_of(signs, points), monotone=signs, **options)


@settings(max_examples=15)
@given(monotone_problems(), LEVELS, st.sampled_from([3, 9, 21]))
def test_the_bracket_holds_the_optimum_and_the_policy_attains_its_lower_end(problem, tau, points):
    exact = truth(problem)
    plan, best = bqrl.solve(on_grid(problem, points), tau=tau), bqrl.solve(exact, tau=tau).value
    assert plan.value <= best + 1e-9
    assert best <= plan.upper + 1e-9
    law = bqrl.evaluate(exact, OnTuples(plan.policy, exact))
    assert law.quantile(tau) >= plan.value - 1e-9


@settings(max_examples=15)
@given(monotone_problems(), st.sampled_from([bqrl.Mean(), bqrl.CVaR(0.25), bqrl.MeanCVaR(0.5, 0.5), bqrl.Chance(0.4)]))
def test_other_objectives_are_bracketed_and_attained(problem, goal):
    exact = truth(problem)
    plan = bqrl.solve(on_grid(problem, reward_range=(-9.0, 9.0)), goal)
    finite = bqrl.MeanCVaR(0.25, 1.0) if goal == bqrl.CVaR(0.25) else goal
    best = bqrl.solve(exact, finite)
    assert plan.value <= best.upper + 1e-9
    assert best.value <= plan.upper + 1e-9
    law = bqrl.evaluate(exact, OnTuples(plan.policy, exact))
    assert goal(law) >= plan.value - 1e-9
    assert plan.objective == goal


@st.composite
def rough_problems(draw):
    """A step function without an order: its constants, and a function that finds the event."""
    A, H = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    slope = draw(st.lists(st.sampled_from([-0.9, -0.5, 0.3, 0.8]), min_size=A, max_size=A))
    price = draw(st.lists(st.sampled_from([-1.0, -0.5, 0.5]), min_size=A, max_size=A))
    moves = [-0.61, 0.07, 0.83]

    def step(state, action, event):
        (x,) = state
        return (round(slope[action] * x + moves[event], 9),), round(price[action] * abs(x) + 0.25 * event, 9)

    def invert(state, action, after):
        return int(np.argmin(np.abs(slope[action] * state[0] + np.array(moves) - after[0])))

    constants = max(map(abs, slope)), max(map(abs, price))
    return (step, list(range(A)), H, (0.1,), None), constants, invert


@settings(max_examples=10)
@given(rough_problems(), LEVELS, st.sampled_from([30, 120]))
def test_without_an_order_the_bracket_holds_and_the_policy_follows_the_events(rough, tau, points):
    problem, constants, invert = rough
    step, actions, H, start, _ = problem
    grid, exact = {"x": np.linspace(-9.0, 9.0, points)}, truth(problem)
    model = bqrl.from_step(step, actions, EVENTS, H, start, grid=grid, lipschitz=constants, invert=invert)
    assert model.upper is model.lower
    plan, best = bqrl.solve(model, tau=tau), bqrl.solve(exact, tau=tau).value
    assert plan.value - 1e-9 <= best <= plan.upper + 1e-9
    assert plan.upper - plan.value <= 2.0 * model.total_error + 1e-9 or not plan.certain  # a tie widens the bracket
    law = bqrl.evaluate(exact, OnTuples(plan.policy, exact))
    assert law.quantile(tau) >= plan.value - 1e-9
    for goal in (bqrl.Mean(), bqrl.CVaR(0.5), bqrl.Chance(0.3)):
        plan = bqrl.solve(model, goal)
        assert goal(bqrl.evaluate(exact, OnTuples(plan.policy, exact))) >= plan.value - 1e-9
        assert bqrl.solve(exact, bqrl.MeanCVaR(0.5, 1.0) if goal == bqrl.CVaR(0.5) else goal).value <= plan.upper + 1e-9


def walk(states, actions, events):
    """A bounded walk: wealth is paid out at every stage."""
    return np.clip(states + actions[:, None] * events[:, None], 0.0, 3.0), 0.1 * states[:, 0]


def continuous_walk(points=31, cells=16, **options):
    options = {"grid": {"wealth": np.linspace(0.0, 3.0, points)}, "monotone": {"wealth": 1, "event": 1}} | options
    return bqrl.from_step(
        walk, [0.0, 0.5, 1.0], stats.norm(0.1, 0.5), 5, (1.0,), vectorized=True, cells=cells, **options
    )


def test_refining_closes_the_bracket_around_what_the_policy_earns():
    plan = bqrl.solve(continuous_walk(reward_range=(0.0, 0.3)), bqrl.Mean(), refine=True, gap=0.02)
    rows = plan.details["refinement"].rows()
    widths = [row["upper"] - row["value"] for row in rows]
    assert widths == sorted(widths, reverse=True)
    assert plan.gap <= 0.02
    returns = bqrl.simulate(plan.policy.model, plan.policy, 20_000, seed=1)
    error = 4.0 * returns.std() / np.sqrt(returns.size)
    assert plan.value - error <= returns.mean() <= plan.upper + error
    assert {"points", "value", "upper"} <= set(rows[0])
    chart = plan.details["refinement"].chart().to_dict()
    assert chart["title"]


def test_refining_stops_at_the_largest_size():
    plan = bqrl.solve(continuous_walk(), tau=0.2, refine=True, max_transitions=20_000)
    assert any(isinstance(note, StoppedRefining) for note in plan.notes)


def test_the_quantile_of_continuous_noise_is_attained_in_simulation():
    model = continuous_walk(points=121, cells=64)
    plan = bqrl.solve(model, tau=0.2)
    returns = bqrl.simulate(model, plan.policy, 20_000, seed=2)
    short = np.mean(returns < plan.value)
    assert short <= 0.2 + 4.0 * np.sqrt(0.2 * 0.8 / returns.size)
    assert plan.value <= np.quantile(returns, 0.2, method="lower") + 0.01
    assert plan.upper - plan.value < 0.06


def test_leaving_the_grid_is_a_miss_below_and_a_win_above():
    def step(state, action, event):
        return (state[0] + event,), state[0]

    noise = {-1.0: 0.2, 0.0: 0.6, 1.0: 0.2}
    grid = {"x": np.linspace(0.0, 2.0, 3)}
    model = bqrl.from_step(step, ["go"], noise, 4, (1.0,), grid=grid, monotone={"x": 1})
    exact = bqrl.solve(bqrl.from_step(step, ["go"], noise, 4, (1.0,)), tau=0.5).value
    plan = bqrl.solve(model, tau=0.5)
    assert plan.value <= exact <= plan.upper
    assert bqrl.solve(model, tau=0.01).value == -np.inf  # more than 1 % of the runs leave the grid below
    assert bqrl.solve(model, tau=0.99).upper == np.inf
    assert plan.notes[0].may_leave == (True, True)
    with pytest.raises(ArgumentError, match=r"^reward_range must be given to from_step for mean if states can leave"):
        bqrl.solve(model, bqrl.Mean())
    bounded = bqrl.from_step(step, ["go"], noise, 4, (1.0,), grid=grid, monotone={"x": 1}, reward_range=(-3.0, 5.0))
    plan = bqrl.solve(bounded, bqrl.Mean())
    assert plan.value <= 4.0 <= plan.upper  # a walk without drift


def test_objectives_and_options_that_do_not_apply():
    model = continuous_walk()
    with pytest.raises(ArgumentError, match=r"^objective must be a quantile, Chance, Mean, CVaR or MeanCVaR for cont"):
        bqrl.solve(model, bqrl.Entropic(0.5))
    for name, value in (("rule", "state"), ("attitude", "robust"), ("arithmetic", "rational")):  # two were ignored
        said = f"expected a parameter of solve for continuous states, got {name!r}"
        with pytest.raises(ArgumentTypeError, match=said):
            bqrl.solve(model, tau=0.1, **{name: value})
    with pytest.raises(
        ArgumentTypeError, match=r"^mdp must be an MDP: no law over continuous states is exact, got a GridModel"
    ):
        bqrl.evaluate(model, bqrl.solve(model, tau=0.1).policy)


@st.composite
def affine_problems(draw):
    """A coordinate x that moves and pays by affine rules, which depend on a side, the action and the event."""

    def table(*values):
        return np.array(draw(st.lists(st.sampled_from(values), min_size=8, max_size=8))).reshape(2, 2, 2)

    scale, move, slope, paid = table(0.5, 1.0, -0.5), table(-0.7, 0.0, 0.31), table(-1.0, 0.0, 0.5), table(-1.0, 0.25)
    turned = table(0, 1)

    def step(state, action, event):
        x, side = state[0], int(state[1])
        k = side, action, event
        return (float(scale[0, action, event] * x + move[k]), float(turned[k])), float(slope[k] * x + paid[k])

    return step, draw(st.sampled_from([0.9, 1.0]))


def law_in(policy, step, chances, H, discount, start):
    """The law of the return of a policy that follows the events, over all of their sequences."""
    found = []

    def onward(h, state, memory, p, total):
        if h == H:
            found.append((total, p))
            return
        a = policy.act(h, state, memory)
        for event, q in chances.items():
            after, reward = step(state, a, event)
            memory_after = policy.next(memory, h, state, a, reward, after, event=event)
            onward(h + 1, after, memory_after, p * q, total + discount**h * reward)

    onward(0, start, policy.start(), 1.0, 0.0)
    return bqrl.Law(*zip(*found, strict=True))


@settings(max_examples=25)
@given(affine_problems(), st.sampled_from([5, 9]), st.sampled_from([1.0, 3.0]))
def test_affine_coordinates_bracket_the_best_mean_also_beyond_the_grid(problem, points, reach):
    step, discount = problem
    chances, start, H = {0: 0.375, 1: 0.625}, (0.0, 0.0), 3
    truth = bqrl.solve(bqrl.from_step(step, [0, 1], chances, H, start, discount=discount), bqrl.Mean()).value
    model = bqrl.from_step(
        step, [0, 1], chances, H, start, grid={"x": np.linspace(-reach, reach, points), "side": [0.0, 1.0]}, affine=["x"],
        lipschitz=([[1.0, 0.0], [0.0, 0.0]], [1.0, 0.0]), discount=discount,
    )  # fmt: skip
    plan = bqrl.solve(model, bqrl.Mean())
    assert plan.value - 1e-9 <= truth <= plan.upper + 1e-9
    assert law_in(plan.policy, step, chances, H, discount, start).mean() >= plan.value - 1e-9


@settings(max_examples=6)
@given(
    affine_problems(), st.sampled_from([5, 17]), st.sampled_from([1.0, 3.0]),
    st.sampled_from([bqrl.CVaR(0.25), bqrl.CVaR(0.7), bqrl.MeanCVaR(0.5, 0.4)]),
)  # fmt: skip
def test_affine_coordinates_bracket_cvar_also_beyond_the_grid(problem, points, reach, goal):
    step, discount = problem
    chances, start, H = {0: 0.375, 1: 0.625}, (0.0, 0.0), 3
    weighted = goal if isinstance(goal, bqrl.MeanCVaR) else bqrl.MeanCVaR(goal.tau, 1.0)
    truth = bqrl.solve(bqrl.from_step(step, [0, 1], chances, H, start, discount=discount), weighted)
    model = bqrl.from_step(
        step, [0, 1], chances, H, start, grid={"x": np.linspace(-reach, reach, points), "side": [0.0, 1.0]}, affine=["x"],
        lipschitz=([[1.0, 0.0], [0.0, 0.0]], [1.0, 0.0]), discount=discount,
    )  # fmt: skip
    plan = bqrl.solve(model, goal, points=200)
    assert plan.value - 1e-9 <= truth.upper
    assert truth.value <= plan.upper + 1e-9
    assert weighted(law_in(plan.policy, step, chances, H, discount, start)) >= plan.value - 1e-9


class Cautious(bqrl.Policy):
    """A policy of a user, which sees tuples."""

    def start(self, u=None):
        return 0

    def act(self, h, s, memory):
        assert memory == h
        assert len(s) == 1
        return int(s[0] > 1.0)

    def next(self, memory, h, s, action, reward, s_next):
        return memory + 1


def step(state, action, event):
    return (state[0] + action * event,), action * event


def model():
    grid = {"x": np.linspace(-5.0, 5.0, 21)}
    return bqrl.from_step(
        step, [0.0, 0.3], {-1.0: 0.5, 1.0: 0.5}, 3, (1.2,), grid=grid, monotone={"x": 1}, discount=0.5
    )


def test_episodes_are_played_in_the_continuous_problem():
    returns = bqrl.simulate(model(), Cautious(), 4_000, seed=3)
    expected = set()
    for events in np.ndindex(2, 2, 2):  # every path by hand
        x, total = 1.2, 0.0
        for h, e in enumerate(events):
            action = 0.3 * (x > 1.0)
            reward = action * (2 * e - 1)
            x, total = x + reward, total + 0.5**h * reward
        expected.add(round(total, 9))
    assert set(np.round(returns, 9).tolist()) == expected
    assert np.array_equal(returns, bqrl.simulate(model(), Cautious(), 4_000, seed=3))


def test_a_policy_for_finite_models_is_refused():
    with pytest.raises(
        ArgumentTypeError, match=r"^policy must be a Policy for continuous states, got str; pass plan.policy$"
    ):
        bqrl.simulate(model(), "always:0.3", 10)


class Answers(bqrl.Policy):
    """A policy of a user that answers from a function of the state."""

    def __init__(self, answer):
        self.answer = answer

    def act(self, h, s, memory):
        return self.answer(s)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda s: -1, "an available action from 0 to 1, got -1"),
        (lambda s: 2, "an available action from 0 to 1, got 2"),
        (lambda s: [1.0], "must have 2 entries, got 1"),
        (lambda s: [0.2, 0.2, 0.6], "must have 2 entries, got 3"),
        (lambda s: [1.5, -0.5], "must not be negative"),
    ],
)
def test_wrong_answers_in_continuous_states_are_refused(answer, message):
    with pytest.raises(PolicyError, match=message):
        bqrl.simulate(model(), Answers(answer), 10, seed=0)


def test_a_policy_for_continuous_states_may_mix_actions_and_probabilities():
    mixed, plain = (Answers(lambda s, x=x: x if s[0] > 1.0 else 0) for x in ([0.0, 1.0], 1))
    returns = bqrl.simulate(model(), mixed, 50, seed=0)
    assert np.array_equal(returns, bqrl.simulate(model(), plain, 50, seed=0))
