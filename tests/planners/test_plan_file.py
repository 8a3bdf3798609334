"""Plans in files come back bit for bit; damaged files are refused in one line."""

import numpy as np
import pytest

import bqrl
from bqrl.errors import FileFormatError
from bqrl.planners.plan_file import plan_arrays, plan_from_arrays


def plans():
    mdp = bqrl.envs.make("SafeOrRisky")
    return [
        bqrl.solve(mdp, 0.1),
        bqrl.solve(mdp, 0.1, pairs=True),
        bqrl.solve(mdp, 0.1, at_least=11, randomized=True),
        bqrl.solve(mdp, 0.1, points=50),
        bqrl.solve(mdp, bqrl.CVaR(0.1)),
        bqrl.solve(mdp, bqrl.Mean()),
        bqrl.solve(mdp, bqrl.Chance(12.0)),
        bqrl.solve(mdp, bqrl.Entropic(0.5)),
        bqrl.solve(mdp, bqrl.MeanCVaR(0.1, 0.5)),
        bqrl.solve(mdp, 0.1, radius=0.1, attitude="robust"),
        bqrl.solve(mdp.replace(discount=0.9), 0.1, margin=0.5),
        bqrl.solve(bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=1), 0.5, arithmetic="rational"),
    ]


@pytest.mark.parametrize(
    "plan", plans(), ids=lambda plan: f"{plan.objective.label}, {plan.policy.kind}, {plan.attitude}"
)
def test_a_plan_comes_back_bit_for_bit(plan, tmp_path):
    path = tmp_path / "plan.npz"
    bqrl.save(plan, path)
    back = bqrl.load(path)
    for name in "objective planner value upper nominal mean_upper certain exact attitude seconds units notes".split():
        assert getattr(back, name) == getattr(plan, name), name
    for one, other in ((plan.law, back.law), (plan.law_upper, back.law_upper)):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.values.tobytes() == other.values.tobytes()
            assert one.probabilities.tobytes() == other.probabilities.tobytes()
            assert one.exact_mean == other.exact_mean
    assert back.remarks == plan.remarks
    assert back.policy.kind == plan.policy.kind
    again = plan_arrays(back)
    assert all(np.array_equal(array, again[name]) for name, array in plan_arrays(plan).items())


def test_a_loaded_plan_has_an_outlook_and_a_stress(tmp_path):
    mdp = bqrl.envs.make("SafeOrRisky")
    plan = bqrl.solve(mdp, 0.1)
    bqrl.save(plan, tmp_path / "plan.npz")
    back = bqrl.load(tmp_path / "plan.npz")
    assert (
        back.outlook(mdp, stage=3, state=0, earned=2.0).rows() == plan.outlook(mdp, stage=3, state=0, earned=2.0).rows()
    )
    assert bqrl.stress(mdp, back).rows() == bqrl.stress(mdp, plan).rows()


@pytest.mark.parametrize(
    "change",
    [
        {"facts": np.array("{}")},
        {"facts": np.array("not json")},
        {"bqrl_plan": np.array(99)},
        {"law_values": np.array(["a"])},
        {"policy_bqrl_policy": np.array("other")},
    ],
)
def test_damaged_files_are_refused(change):
    with pytest.raises(FileFormatError) as caught:
        plan_from_arrays(plan_arrays(bqrl.solve("SafeOrRisky", 0.1)) | change)
    assert "\n" not in str(caught.value)


def test_a_plan_for_a_function_is_refused():
    plan = bqrl.solve("SafeOrRisky", bqrl.Utility(np.sqrt))
    with pytest.raises(ValueError, match=r"got Utility; save plan\.policy"):
        plan_arrays(plan)


def test_the_file_of_a_plan_is_a_strategy(tmp_path):
    """`--policy plan.npz` once refused what `bqrl.save(plan, ...)` wrote."""
    plan = bqrl.solve("SafeOrRisky", tau=0.1)
    bqrl.save(plan, tmp_path / "plan.npz")
    assert bqrl.evaluate(bqrl.envs.make("SafeOrRisky"), str(tmp_path / "plan.npz")).equals(plan.law)
