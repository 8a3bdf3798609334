"""Stored policies are validated like models: one line, never an index error in a compiled loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps
from policy_kinds import COINS, Alternating, six_kinds

import bqrl
from bqrl import MarkovPolicy, MixturePolicy, evaluate, load
from bqrl.errors import FileFormatError, PolicyError, SizeError
from bqrl.mdp.files import write_arrays
from bqrl.planners.curve import guarantee_curve
from bqrl.policies.files import policy_from_arrays, to_storable
from bqrl.policies.shares import uniform

MODEL = bqrl.envs.make("AssetSelling", offers=4, start=1, horizon=3)
CURVE = guarantee_curve(MODEL, keep=True)
TARGET = CURVE.policy(0.3)
MARKOV = bqrl.solve(MODEL, 0.3, planner="expected").policy
POLICIES = {
    "markov": MARKOV,
    "stochastic": bqrl.StochasticPolicy(uniform(MODEL)),
    "target": TARGET,
    "rounded": bqrl.solve(MODEL.replace(discount=0.9), 0.3, points=50).policy,
    "label": TARGET.to_labels(MODEL),
    "quantile-level": CURVE.level_policy(0.3),
    "mixture": MixturePolicy([MARKOV, TARGET], [0.25, 0.75]),
}


def stored(name):
    policy = POLICIES[name]
    return {"bqrl_policy": np.array(policy.kind), **policy.arrays()}


def changed(array, value, at=-1):
    array = np.array(array)
    array = array.astype(np.float64) if isinstance(value, float) and array.dtype.kind in "iu" else array
    array.reshape(-1)[at] = value
    return array


FAULTS = [
    ("a negative action", "markov", "actions", lambda x: changed(x, -1), "numbers from 0 to"),
    ("half an action", "markov", "actions", lambda x: x + 0.5, "must hold whole numbers"),
    ("a flat table", "markov", "actions", lambda x: x[0], "must have shape (any, any)"),
    ("no states", "markov", "actions", lambda x: x[:, :0], "at least one stage and state"),
    ("an action of 40 bits", "markov", "actions", lambda x: changed(x.astype(np.int64), 2**40), "numbers from 0 to"),
    ("a flat table of probabilities", "stochastic", "probabilities", lambda x: x[0], "must have shape (any, any, any)"),
    ("no actions", "stochastic", "probabilities", lambda x: x[:, :, :0], "at least one stage, state and action"),
    ("a NaN probability", "stochastic", "probabilities", lambda x: changed(x, np.nan), "finite numbers"),
    ("probabilities that sum to 2", "stochastic", "probabilities", lambda x: 2 * x, "must sum to 1, got 2"),
    ("a NaN target", "target", "target", lambda x: np.array(np.nan), "must hold finite numbers"),
    ("an infinite target", "target", "target", lambda x: np.array(np.inf), "must hold finite numbers"),
    ("two targets", "target", "target", lambda x: np.zeros(2), "must have shape ()"),
    ("no extra column", "target", "extra", lambda x: np.array(0), "must be 1"),
    ("a negative action in a table", "target", "actions_1", lambda x: changed(x, -3), "numbers from 0 to"),
    ("a narrow table", "target", "actions_1", lambda x: x[:, 1:], "must have shape"),
    ("a table of other states", "target", "actions_2", lambda x: x[1:], "must have shape"),
    ("a grid of other sizes", "target", "size", lambda x: x + 1, "must end with 1"),
    ("a huge last stage", "target", "size", lambda x: changed(x, 2**39), "must end with 1"),
    ("an unknown grid", "target", "kind", lambda x: np.array("tree"), "expected a grid of kind"),
    ("negative units", "rounded", "units", lambda x: changed(x, -1), "numbers from 0 to"),
    ("a root outside the graph", "label", "root", lambda x: changed(x, 10**6, 1), "numbers from -1 to"),
    ("a child outside the graph", "label", "child", lambda x: changed(x, 10**6, 0), "numbers from -1 to"),
    ("a child of an earlier stage", "label", "child", lambda x: changed(x, 0, 0), "must lead through 3 stages"),
    ("a child that is missing", "label", "child", lambda x: changed(x, -1, 0), "must lead through 3 stages"),
    ("starts that fall", "label", "child_start", lambda x: changed(x, 10**6, 1), "must rise from 0"),
    ("a successor outside", "label", "successor", lambda x: changed(x, 99, 0), "numbers from 0 to 4"),
    ("a NaN reward", "label", "reward", lambda x: changed(x, np.nan, 0), "finite numbers"),
    ("too many stages", "label", "H", lambda x: np.array(10**9), "must be from 1 to 1000000"),
    ("levels of the wrong shape", "quantile-level", "shortfall_1", lambda x: x[:, 1:], "must have shape"),
    ("a NaN level", "quantile-level", "shortfall_0", lambda x: changed(x, np.nan), "finite numbers"),
    ("a level above 1", "quantile-level", "tau", lambda x: np.array(1.5), "must be a number in (0, 1], got 1.5"),
    ("an inner table of the wrong shape", "quantile-level", "target_actions_0", lambda x: x[:, 1:], "must have shape"),
    ("weights that sum to 2", "mixture", "weights", lambda x: 2 * x, "probabilities that sum to 1"),
    ("a NaN weight", "mixture", "weights", lambda x: x * np.nan, "finite numbers"),
    ("a negative action in a part", "mixture", "part0_actions", lambda x: changed(x, -1), "numbers from 0 to"),
    ("an unknown part", "mixture", "part1_bqrl_policy", lambda x: np.array("x"), "must be one of markov"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "change", "phrase"), [row[1:] for row in FAULTS], ids=[row[0] for row in FAULTS]
)
def test_a_damaged_policy_gets_one_line(tmp_path, kind, name, change, phrase):
    arrays = stored(kind)
    write_arrays(tmp_path / "p.npz", arrays | {name: change(arrays[name])})
    with pytest.raises(FileFormatError) as caught:
        load(tmp_path / "p.npz")
    assert phrase in str(caught.value)
    assert str(caught.value).startswith("p.npz: ")
    assert len(str(caught.value).splitlines()) == 1
    assert caught.value.file == str(tmp_path / "p.npz")


@pytest.mark.parametrize("kind", list(POLICIES))
def test_every_array_is_needed(tmp_path, kind):
    arrays = stored(kind)
    needed = {"scale", "exact_offset"}  # a rational step is optional
    for name in arrays:
        if name.rpartition("target_")[2].rpartition("part1_")[2] in needed:
            continue
        write_arrays(tmp_path / "p.npz", {key: value for key, value in arrays.items() if key != name})
        with pytest.raises(ValueError, match=r"^p\.npz: [^\n]*$"):
            load(tmp_path / "p.npz")


def test_actions_beyond_the_problem_are_refused_when_played():
    policy = MarkovPolicy(np.full((MODEL.H, MODEL.S), 7))
    with pytest.raises(ValueError, match="action"):
        bqrl.evaluate(MODEL, policy)


def test_a_missing_array_is_named_in_the_error():
    with pytest.raises(
        FileFormatError, match="expected a markov policy, got damaged arrays: no array 'actions'"
    ) as caught:
        policy_from_arrays({"bqrl_policy": "markov"})
    assert caught.value.column == "actions"


@given(small_mdps(), st.floats(0.05, 0.95))
def test_every_kind_survives_saving(tmp_path_factory, mdp, tau):
    path = tmp_path_factory.mktemp("policies") / "policy.npz"
    for policy in six_kinds(mdp, tau):
        policy.save(path)
        again = load(path)
        assert type(again) is type(policy)
        assert evaluate(mdp, again).equals(evaluate(mdp, policy), tol=1e-15)


def test_a_rounded_policy_survives_saving(tmp_path):
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.9, horizon=20)
    plan = bqrl.solve(mdp, 0.2, points=200)
    plan.policy.save(tmp_path / "p.npz")
    again = load(tmp_path / "p.npz")
    assert np.array_equal(bqrl.simulate(mdp, again, 500, seed=3), bqrl.simulate(mdp, plan.policy, 500, seed=3))
    assert evaluate(mdp, again, max_atoms=0).equals(evaluate(mdp, plan.policy, max_atoms=0))


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04broken"])
def test_damaged_files_get_one_line(tmp_path, content):
    path = tmp_path / "p.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"p\.npz"):
        load(path)


def test_files_that_hold_something_else(tmp_path):
    np.savez(tmp_path / "other.npz", bqrl_policy=np.array("neural"))
    with pytest.raises(FileFormatError, match="expected a policy of the kind markov, stochastic, target"):
        load(tmp_path / "other.npz")
    np.savez(tmp_path / "half.npz", bqrl_policy=np.array("target"))
    with pytest.raises(FileFormatError, match=r"half\.npz: expected a target policy, got damaged arrays"):
        load(tmp_path / "half.npz")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        MarkovPolicy([[0]]).save(tmp_path / "p.csv")


def test_files_hold_a_custom_policy_as_a_graph_of_labels_or_refuse_it(tmp_path):
    policy, path = Alternating(), tmp_path / "policy.npz"
    for one in (policy, MixturePolicy([policy, policy], [0.5, 0.5])):
        with pytest.raises(
            PolicyError, match=r"to be stored, got Alternating, a custom policy; use policy\.to_labels"
        ) as caught:
            one.save(path)
        assert "\n" not in str(caught.value)
        assert not path.exists()
        to_storable(one, COINS).save(path)
        assert evaluate(COINS, load(path)).equals(evaluate(COINS, policy))
        path.unlink()
    plain = six_kinds(MODEL)[0]
    assert to_storable(plain, MODEL) is plain


def test_a_custom_policy_with_too_many_memories_is_not_unrolled_for_a_file(monkeypatch):
    class Historian(Alternating):
        def start(self, u=None):
            return ()

        def act(self, h, s, memory):
            return 0

        def next(self, memory, h, s, action, reward, s_next):
            return (*memory, reward)

    assert to_storable(Historian(), COINS).action.size == 1 + 2 + 4
    monkeypatch.setattr("bqrl.policies.files.MAX_STORED_MOVES", 7)
    with pytest.raises(SizeError, match="at most 7 moves per stage, got 8") as caught:
        to_storable(Historian(), COINS)
    assert (caught.value.needed, caught.value.limit) == (8, 7)
