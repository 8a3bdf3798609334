"""Errors carry their facts as fields, also across processes."""

import pickle

import pytest

import bqrl
from bqrl import errors

FIELDS = [
    (errors.ArgumentError, ValueError, {"name": "tau", "value": 2.0}),
    (errors.ArgumentTypeError, TypeError, {"name": "tau", "value": "x"}),
    (
        errors.ModelError,
        ValueError,
        {"row": (None, 1, 2), "file": "m.csv", "line": 3, "column": "reward", "name": "columns"},
    ),
    (errors.FileFormatError, errors.ModelError, {"row": None, "file": "m.npz", "line": None, "column": None}),
    (errors.PolicyError, ValueError, {"stage": 1, "state": 2, "action": 3}),
    (errors.SizeError, ValueError, {"needed": 2.0, "limit": 1.0, "name": "max_bytes"}),
    (errors.GridError, ValueError, {"name": "planner"}),
    (errors.EpisodeError, ValueError, {"episode": 4, "step": 5, "value": -1}),
]


@pytest.mark.parametrize(("kind", "parent", "fields"), FIELDS, ids=[kind.__name__ for kind, _, _ in FIELDS])
def test_fields_and_message_survive_pickling(kind, parent, fields):
    fault = pickle.loads(pickle.dumps(kind("one line", **fields)))
    assert isinstance(fault, parent)
    assert str(fault) == "one line"
    assert {name: getattr(fault, name) for name in fields} == fields


def test_a_bad_argument_names_itself():
    with pytest.raises(errors.ArgumentError) as caught:
        bqrl.solve(bqrl.envs.make("Bandit"), tau=2.0)
    assert (caught.value.name, caught.value.value) == ("tau", 2.0)


def test_a_bad_row_is_named():
    with pytest.raises(errors.ModelError) as caught:
        bqrl.MDP([(0, 0, 0, 1.0, 0.0), (0, 1, 0, 0.5, 0.0)], horizon=1)
    assert caught.value.row == (None, 0, 1)
