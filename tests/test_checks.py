"""Argument checks: valid values come back plain, others raise one line that names the argument and the value."""

import math

import numpy as np
import pytest

from bqrl.checks import bad_type, bad_value, choice, flag, nearest, number, numbers, one_line, random_seed, whole
from bqrl.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5), np.array(0.5)])
def test_numbers_come_back_as_floats(value):
    assert number(value, "tau", 0.0, 1.0) == 0.5
    assert type(number(value, "tau")) is float


@pytest.mark.parametrize(
    ("value", "ends", "valid"),
    [
        (0.0, "[]", True),
        (0.0, "(]", False),
        (1.0, "[]", True),
        (1.0, "[)", False),
        (-0.1, "[]", False),
        (1.1, "[]", False),
    ],
)
def test_ends_of_an_interval_belong_to_it_as_stated(value, ends, valid):
    if valid:
        assert number(value, "tau", 0.0, 1.0, ends) == value
        return
    with pytest.raises(ArgumentError) as caught:
        number(value, "tau", 0.0, 1.0, ends)
    assert (caught.value.name, caught.value.value) == ("tau", value)
    assert f"in {ends[0]}0, 1{ends[1]}" in str(caught.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_must_be_finite(value):
    with pytest.raises(ArgumentError, match="gap must be a number"):
        number(value, "gap")


def test_a_number_just_outside_its_range_is_shown_with_all_its_digits():
    with pytest.raises(ArgumentError, match=r"discount must be a number in \(0, 1\], got 1\.0000001$"):
        number(1.0000001, "discount", 0.0, 1.0, "(]")


@pytest.mark.parametrize("value", ["0.5", b"1", None, True, np.True_, [0.5], np.array([0.5]), 10**400, 1j, object()])
def test_other_types_are_no_numbers(value):
    with pytest.raises((ArgumentTypeError, ArgumentError)) as caught:
        number(value, "tau")
    assert "tau must be a number" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("value", [3, np.int16(3), np.uint8(3)])
def test_whole_numbers_come_back_as_ints(value):
    assert whole(value, "episodes", 1) == 3
    assert type(whole(value, "episodes", 1)) is int


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ArgumentError),
        (6, ArgumentError),
        (2.0, ArgumentTypeError),
        (True, ArgumentTypeError),
        ("2", ArgumentTypeError),
    ],
)
def test_whole_numbers_outside_their_range_are_refused(value, error):
    with pytest.raises(error, match="episodes must be a whole number from 1 to 5") as caught:
        whole(value, "episodes", 1, 5)
    assert caught.value.name == "episodes"


def test_whole_numbers_beyond_floats_are_refused_unless_they_are_seeds():
    with pytest.raises(ArgumentError, match=r"episodes must be at most 1e\+300, got 1000"):
        whole(10**400, "episodes", 1)
    assert whole(10**300, "episodes", 1) == 10**300
    assert random_seed(10**400) == 10**400


def test_a_choice_names_the_nearest_option():
    assert choice("target", "planner", ["target", "greedy"]) == "target"
    with pytest.raises(ArgumentError, match="did you mean 'target'"):
        choice("targit", "planner", ["target", "greedy"])
    with pytest.raises(ArgumentTypeError, match="planner must be one of 'target', 'greedy', got 3"):
        choice(3, "planner", ["target", "greedy"])
    assert nearest("zzz", ["a", "b"]) == "; choose from a, b"
    assert nearest("zzz", ["a", "b"], listed=False) == ""
    assert nearest("zzz", [f"a{i}" for i in range(1000)]).endswith(", a23, ...")
    assert len(nearest("zzz", ["9" * 5000])) < 60
    assert (
        nearest("tau", ["beta", "gap"]) == "; choose from beta, gap"
    )  # short names that share some letters are not near


def test_a_seed_is_used_as_given_or_drawn():
    assert random_seed(7) == 7
    assert random_seed(None) != random_seed(None)
    with pytest.raises(ArgumentError, match="seed must be a whole number of at least 0"):
        random_seed(-1)


def test_long_values_are_shown_on_one_short_line():
    assert len(one_line("x\n" * 10_000)) < 60
    assert "\n" not in one_line(np.zeros((50, 50)))


@pytest.mark.parametrize(
    "value",
    [
        True,
        [True, False],
        np.array([0.1, True], dtype=object),
        [[0.1], [0.2, 0.3]],
        "0.1",
        ["0.1"],
        [None],
        object(),
        {"a": 1},
        1j,
        10**400,
    ],
)
def test_other_types_are_no_arrays_of_numbers(value):
    with pytest.raises(ArgumentTypeError, match="radius must be a number or an array of numbers"):
        numbers(value, "radius")


def test_a_flag_is_true_or_false_and_not_a_number():
    assert flag(np.True_, "monotone") is True
    assert flag(None, "stationary", optional=True) is None
    with pytest.raises(ArgumentTypeError, match="monotone must be True or False, got None"):
        flag(None, "monotone")
    with pytest.raises(ArgumentTypeError, match="stationary must be True, False or None, got 1"):
        flag(1, "stationary", optional=True)


@pytest.mark.parametrize(("kind", "error"), [(bad_value, ArgumentError), (bad_type, ArgumentTypeError)])
def test_errors_carry_name_and_value(kind, error):
    found = kind("rho", 3, "be small", remedy="choose less")
    assert isinstance(found, error)
    assert (found.name, found.value, str(found)) == ("rho", 3, "rho must be small, got 3; choose less")
    assert str(kind("rho", [3.0], "be small", "3")) == "rho must be small, got 3"
