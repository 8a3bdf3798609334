"""The types of options carry their checks."""

from typing import get_args

import pytest

from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.planners import options


@pytest.mark.parametrize(
    ("kind", "valid", "wrong"),
    [
        (options.Points, 2, 1),
        (options.Gap, 0.5, 0.0),
        (options.MaxBytes, 1e9, -1.0),
        (options.Precision, "float32", "float16"),
        (options.Folder, ".", "no such folder"),
    ],
)
def test_a_value_is_checked_by_its_type(kind, valid, wrong):
    check = get_args(kind)[1]
    check(valid, "option", None)
    with pytest.raises(ArgumentError, match=r"^option must be"):
        check(wrong, "option", None)


@pytest.mark.parametrize(("kind", "wrong"), [(options.Pairs, "yes"), (options.Tick, 3)])
def test_a_value_of_another_type_is_refused(kind, wrong):
    with pytest.raises(ArgumentTypeError, match=r"^option must be"):
        get_args(kind)[1](wrong, "option", None)
