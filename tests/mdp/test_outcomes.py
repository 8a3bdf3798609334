"""Terminal values and further outcomes of models: building, variants and files."""

import numpy as np
import pytest
from helpers import assert_one_line
from outcome_models import shop, with_an_extra_stage

import bqrl
from bqrl.mdp.outcomes import Outcomes

P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # (S, A, S)
R = np.array([[0.0, 1.0], [2.0, -1.0]])
COST = np.array([[3.0, 1.0], [0.5, 2.0]])


def same(one, other):
    """Two models are equal, bit for bit."""
    arrays = [("reward", "reward"), ("probability", "probability"), ("successor", "successor"), ("mu", "mu")]
    assert all(np.array_equal(getattr(one, x), getattr(other, y)) for x, y in arrays)
    assert (one.H, one.discount, one.words, one.outcome_names) == (
        other.H,
        other.discount,
        other.words,
        other.outcome_names,
    )
    assert (one.terminal is None) == (other.terminal is None)
    assert one.terminal is None or np.array_equal(one.terminal, other.terminal)
    if one.further is not None:
        assert np.array_equal(one.further.start, other.further.start)
        assert np.array_equal(one.further.joint(one.probability), other.further.joint(other.probability))
        assert all(np.array_equal(one.further.values[name], other.further.values[name]) for name in one.outcome_names)


@pytest.mark.parametrize("discount", [1.0, 0.5])
@pytest.mark.parametrize("by_stage", [False, True])
def test_terminal_values_equal_an_extra_stage_that_pays_them(discount, by_stage):
    kernel = np.stack([P, P[::-1], P]) if by_stage else P
    mdp = bqrl.MDP(kernel, R, horizon=3, start=[0.5, 0.5], discount=discount, terminal=[4.0, -2.0])
    oracle = with_an_extra_stage(mdp)
    for tau in (0.1, 0.3, 0.5, 0.9):
        assert bqrl.solve(mdp, tau=tau).value == pytest.approx(bqrl.solve(oracle, tau=tau).value, abs=1e-12)
    for rule in ([0, 0], [1, 0], [0, 1], [1, 1]):
        law, other = bqrl.evaluate(mdp, rule), bqrl.evaluate(oracle, rule)
        assert law.wasserstein(other) == pytest.approx(0.0, abs=1e-12)
    best = [bqrl.solve(model, tau=0.5, planner="expected").law.mean() for model in (mdp, oracle)]
    assert best[0] == pytest.approx(best[1])


def test_a_terminal_value_is_worth_discount_to_the_power_of_the_horizon():
    mdp = bqrl.MDP(P, 0.0 * R, horizon=3, discount=0.5, terminal={1: 8.0}, start=1)
    assert bqrl.evaluate(mdp, [0, 0]).mean() == 8.0 * 0.5**3
    assert mdp.reward.shape == (3, 6)
    assert mdp.own_reward.shape[0] == 1


def test_terminal_values_move_with_the_horizon_and_the_discount():
    mdp = bqrl.MDP(P, R, horizon=3, terminal=[4.0, -2.0])
    other = mdp.replace(horizon=5, discount=0.9)
    same(other, bqrl.MDP(P, R, horizon=5, discount=0.9, terminal=[4.0, -2.0]))
    assert bqrl.evaluate(mdp.staged(), [0, 1]).wasserstein(bqrl.evaluate(mdp, [0, 1])) == 0.0
    uniform = mdp.with_probability(np.where(np.isin(mdp.probability, [1.0]), 1.0, 0.5))
    assert np.array_equal(uniform.reward, mdp.reward)


def test_terminal_values_on_dense_rows_of_many_states_equal_an_extra_stage():
    rng = np.random.default_rng(1)
    kernel = rng.dirichlet(np.ones(30), size=(30, 2))
    mdp = bqrl.MDP(kernel, rng.integers(0, 4, (30, 2)), horizon=4, terminal=rng.integers(0, 5, 30))
    oracle = with_an_extra_stage(mdp)
    plan = bqrl.solve(mdp, tau=0.2)
    assert plan.value == bqrl.solve(oracle, tau=0.2).value
    assert bqrl.evaluate(mdp, plan.policy).mean() == pytest.approx(plan.law.mean())


def test_an_environment_pays_the_terminal_value_with_the_last_reward():
    env = bqrl.MDP(P, R, horizon=2, discount=0.5, terminal=[4.0, 4.0]).as_env()
    env.reset(seed=1)
    first, last = env.step(1)[1], env.step(1)[1]
    assert (first, last) == (1.0, 1.0 + 0.5 * 4.0)


def test_states_of_a_step_function_have_terminal_values_by_function_or_by_state():
    by_state = shop()
    by_function = bqrl.from_step(
        lambda s, a, e: (s, 0.0), [0], {0: 1.0}, 1, {0: 0.5, 2: 0.5}, terminal=lambda stock: 1.5 * stock
    )
    assert by_state.terminal.tolist() == [0.0, 1.5, 3.0]
    assert by_function.terminal.tolist() == [0.0, 3.0]
    arrays = bqrl.from_step(
        lambda s, a, e: (s, 0.0 * s, {"cost": 1.0 * s}), [0], {0: 1.0}, 2, {0: 0.5, 2: 0.5}, vectorized=True,
        terminal=lambda stock: 1.5 * stock,
    )  # fmt: skip
    assert arrays.terminal.tolist() == [0.0, 3.0]
    assert arrays.further.values["cost"].tolist() == [[0.0, 2.0]]


def test_outcomes_have_the_shapes_of_rewards():
    by_row = bqrl.MDP(P, R, horizon=3, outcomes={"cost": COST}).further
    by_stage = bqrl.MDP(P, R, horizon=3, outcomes={"cost": np.stack([COST, 2 * COST, COST])}).further
    by_outcome = bqrl.MDP(P, R, horizon=3, outcomes={"cost": np.repeat(COST[:, :, None], 2, axis=2)}).further
    assert by_row.values["cost"].tolist() == [[3.0, 3.0, 1.0, 0.5, 2.0, 2.0]] == by_outcome.values["cost"].tolist()
    assert by_stage.values["cost"][1].tolist() == [6.0, 6.0, 2.0, 1.0, 4.0, 4.0]
    kernels = bqrl.MDP(np.stack([P, P, P]), R, outcomes={"cost": np.stack([COST, 2 * COST, COST])}).further
    assert kernels.values["cost"].tolist() == [by_stage.values["cost"].reshape(-1).tolist()]


def test_listed_lines_are_the_cases_of_their_transition():
    lines = [(0, 0, 0, 0.25, 1.0), (0, 0, 0, 0.25, 1.0), (0, 0, 0, 0.5, 2.0)]
    further = bqrl.MDP(lines, horizon=2, outcomes={"cost": [7.0, 3.0, 0.0]}).further
    assert further.start.tolist() == [0, 2, 3]
    assert further.means("cost").tolist() == [[5.0, 0.0]]
    assert further.share().tolist() == [0.5, 0.5, 1.0]


def test_unavailable_actions_lose_their_outcomes():
    kernel, cost = P.copy(), COST.copy()
    mdp = bqrl.MDP(kernel, R, horizon=2, available=[[True, False], [True, True]], outcomes={"cost": cost})
    assert mdp.further.values["cost"].tolist() == [[3.0, 3.0, 0.5, 2.0, 2.0]]


@pytest.mark.parametrize("ending", ["npz", "json", "csv"])
def test_files_keep_terminal_values_outcomes_and_words(tmp_path, ending):
    words = {"run": "season", "stage": "week"}
    by_stage = bqrl.MDP(
        P, R, horizon=3, terminal=[0.0, 0.3], outcomes={"cost": np.stack([COST, 2 * COST, COST])}, words=words,
        state_names=["a", "b"],
    )  # fmt: skip
    kernels = bqrl.MDP(np.stack([P, P]), R, outcomes={"cost": COST, "qaly": R}, terminal={1: 2.5})
    for mdp in (by_stage, kernels, shop(words=words), shop(events_observed=False)):
        if ending == "csv" and mdp is by_stage:
            with pytest.raises(ValueError, match="outcomes that differ by stage on a stationary kernel"):
                mdp.save(tmp_path / "model.csv")
            continue
        path = tmp_path / f"model.{ending}"
        mdp.save(path)
        loaded = bqrl.load(path)
        same(loaded, mdp)
        assert (loaded.noise is None) == (mdp.noise is None)


def test_bad_outcomes_get_one_clear_line():
    for call, error, message in (
        (lambda: bqrl.MDP(P, R, horizon=2, outcomes=[1]), TypeError, "outcomes must be a dict such as {'cost': array}"),
        (
            lambda: bqrl.MDP(P, R, horizon=2, outcomes={"cost": [1.0]}),
            ValueError,
            "outcomes['cost'] must have shape (2, 2)",
        ),
        (lambda: bqrl.MDP(P, R, horizon=2, outcomes={"reward": R}), ValueError, "'reward' is the model's own reward"),
        (
            lambda: bqrl.MDP(P, R, horizon=2, outcomes={"cost": R * np.nan}),
            ValueError,
            "outcomes['cost'] must be finite",
        ),
        (lambda: bqrl.MDP(P, R, horizon=2, terminal=[1.0]), ValueError, "terminal must be 2 numbers or {state: value}"),
        (
            lambda: bqrl.MDP(P, R, horizon=2, terminal={5: 1.0}),
            ValueError,
            "terminal must be a whole number from 0 to 1",
        ),
        (
            lambda: bqrl.MDP(P, R, horizon=2, terminal=[np.inf, 0]),
            ValueError,
            "terminal must be finite numbers, got inf",
        ),
        (lambda: bqrl.MDP(P, R, horizon=2, words={"ran": "x"}), ValueError, "did you mean 'run'?"),
        (lambda: bqrl.MDP(P, R, horizon=2, words={"run": 3}), TypeError, "words['run'] must be one line of text"),
        (lambda: bqrl.from_step(lambda s, a, e: (s, 0.0, 3), [0], {0: 1.0}, 1, 0), ValueError, "a third value, a dict"),
        (
            lambda: bqrl.from_step(lambda s, a, e: (s, 0.0, {f"c{e}": 1}), [0], {0: 0.5, 1: 0.5}, 1, 0),
            ValueError,
            "with the same names always",
        ),
        (
            lambda: bqrl.from_step(lambda s, a, e: (s, 0.0, {"c": None}), [0], {0: 1.0}, 1, 0),
            ValueError,
            "step(0, 0, 0) must return a finite outcome 'c', got None",
        ),
        (
            lambda: bqrl.from_step(lambda s, a, e: (s, 0.0), [0], {0: 1.0}, 1, 0, terminal={7: 1.0}),
            ValueError,
            "terminal must name states that the step function reaches, got 7",
        ),
    ):
        assert_one_line(call, error, message)


def test_a_damaged_archive_of_outcomes_is_refused(tmp_path):
    mdp = shop()
    broken = Outcomes(start=mdp.further.start[:-1], mass=mdp.further.mass, values=mdp.further.values)
    mdp._twin(further=broken).save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="outcomes must describe the transitions of this model"):
        bqrl.load(tmp_path / "model.npz")


def test_the_same_plans_with_and_without_outcomes():
    """Further outcomes split no transition: planners, noise and learners see the same model."""
    plain = bqrl.from_step(
        lambda stock, order, demand: (max(0, stock + order - demand), 5 * min(stock + order, demand) - 2 * order),
        lambda s: range(3 - s), {0: 0.2, 1: 0.5, 3: 0.1, 4: 0.2}, 4, 0, terminal={1: 1.5, 2: 3.0},
    )  # fmt: skip
    mdp = shop()
    assert mdp.further.split
    for name in ("row_start", "successor", "probability", "reward"):
        assert np.array_equal(getattr(mdp, name), getattr(plain, name))
    assert np.array_equal(mdp.noise.pair_outcome, plain.noise.pair_outcome)


TABLE = """# horizon: 3
# terminal: Well=500, Sick=-20.5
# words: run=patient, return=net benefit
state,action,next_state,probability,reward,outcome:cost
Well,wait,Well,0.5,1,10
Well,wait,Well,0.25,1,30
Well,wait,Sick,0.25,0,5
Sick,wait,Sick,1,0,7.5
"""


def test_a_table_states_terminal_values_words_and_outcomes(tmp_path):
    path = tmp_path / "model.csv"
    path.write_text(TABLE)
    mdp = bqrl.load(path)
    assert mdp.terminal.tolist() == [500.0, -20.5]
    assert mdp.words == {"run": "patient", "return": "net benefit"}
    assert mdp.further.start.tolist() == [0, 2, 3, 4]
    assert mdp.further.means("cost")[0].tolist() == pytest.approx([50 / 3, 5.0, 7.5])
    law = bqrl.outcome_law(mdp.replace(horizon=1), "always:wait", "cost")
    assert dict(zip(law.values.tolist(), law.probabilities.tolist(), strict=True)) == {5.0: 0.25, 10.0: 0.5, 30.0: 0.25}


def test_frames_name_the_columns_of_outcomes_or_bring_their_own():
    rows = [
        {
            "state": "a",
            "action": "go",
            "next_state": "a",
            "probability": 0.5,
            "reward": 1.0,
            "EUR": 3.0,
            "outcome:qaly": 0.5,
        },
        {
            "state": "a",
            "action": "go",
            "next_state": "a",
            "probability": 0.5,
            "reward": 2.0,
            "EUR": 4.0,
            "outcome:qaly": 0.0,
        },
    ]
    mdp = bqrl.MDP(rows, horizon=2, outcomes={"cost": "EUR", "time": [7.0, 8.0]})
    means = bqrl.expected_outcomes(mdp, "always:go")
    assert means == {"reward": 3.0, "cost": 7.0, "qaly": 0.5, "time": 15.0}
    again = bqrl.MDP(mdp.rows(), horizon=2)
    assert bqrl.expected_outcomes(again, "always:go") == means
    assert_one_line(
        lambda: bqrl.MDP(rows, horizon=2, outcomes={"cost": "USD"}), ValueError, "name headers of the table, got 'USD'"
    )
    assert_one_line(
        lambda: bqrl.MDP(rows, horizon=2, outcomes={"cost": "EUR", "time": [1.0]}),
        ValueError,
        "the header of a column or 2 numbers",
    )


def test_bad_lines_of_a_table_are_named(tmp_path):
    path = tmp_path / "model.csv"
    for old, new, message in (
        ("Well=500, Sick=-20.5", "Well", "line 2: terminal must be values of states such as Good=500"),
        ("Well=500", "Good=500", "terminal must name a state, got 'Good'"),
        ("run=patient", "patient", "line 3: words must be pairs such as run=patient"),
        ("run=patient", "ran=patient", "words must have keys among title, run"),
        ("0,7.5", "0,x", "expected a number, got 'x'"),
    ):
        path.write_text(TABLE.replace(old, new))
        assert_one_line(lambda: bqrl.load(path), ValueError, message)
