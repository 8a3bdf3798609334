"""Checks of arrays from files: kind, shape and finite numbers, each with one line."""

import numpy as np
import pytest

from bqrl.errors import FileFormatError
from bqrl.mdp.arrays import damage_error, floats_of, number_of, read_only, require, whole_numbers_of


def test_valid_arrays_come_back_as_64_bit_copies():
    given = {"n": np.arange(3, dtype=np.int16), "x": np.ones((2, 1), np.float32), "c": np.array(4)}
    assert whole_numbers_of(given, "n", (None,)).dtype == np.int64
    assert floats_of(given, "x", (2, None)).dtype == np.float64
    assert number_of(given, "c") == 4.0
    floats_of(given, "x", (2, 1))[0] = 7.0
    assert given["x"][0, 0] == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: whole_numbers_of({"n": np.ones(2)}, "n", (2,)), "the array 'n' must hold whole numbers, got float64"),
        (lambda: whole_numbers_of({"n": np.ones(2, int)}, "n", (None, 2)), "must have shape (any, 2), got (2,)"),
        (lambda: whole_numbers_of({"n": np.array([2**64 - 1], np.uint64)}, "n", (1,)), "must hold numbers of 63 bits"),
        (lambda: floats_of({"x": np.array(["a"])}, "x", (1,)), "the array 'x' must hold numbers, got <U1"),
        (lambda: floats_of({"x": np.array([1.0, np.nan])}, "x", (2,)), "the array 'x' must hold finite numbers"),
        (lambda: number_of({"x": np.ones(1)}, "x"), "must have shape (), got (1,)"),
        (lambda: require(False, "y", "rise", [2, 1]), "the array 'y' must rise, got [2, 1]"),
    ],
)
def test_bad_arrays_get_one_line(call, message):
    with pytest.raises(FileFormatError) as caught:
        call()
    assert message in str(caught.value)
    assert caught.value.column in ("n", "x", "y")


def test_read_only_is_a_view():
    array = np.zeros(2)
    view = read_only(array)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1.0
    array[0] = 2.0
    assert view[0] == 2.0


def test_damaged_arrays_name_the_array():
    missing, other = (
        damage_error("a record", KeyError("pmf")),
        damage_error("a record", FileFormatError("two\nlines", column="x")),
    )
    assert (str(missing), missing.column) == ("expected a record, got damaged arrays: no array 'pmf'", "pmf")
    assert (str(other), other.column) == ("expected a record, got damaged arrays: two lines", "x")
