import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from hypothesis import given
from hypothesis import strategies as st

from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.mdp.observations import Observations

SPACES = {
    "discrete": Discrete(4, start=3),
    "multi": MultiDiscrete([2, 3], start=[1, 5]),
    "matrix": MultiDiscrete(np.array([[2, 2], [3, 2]])),
    "binary": MultiBinary(3),
    "tuple": Tuple([Discrete(3), MultiBinary(2), Tuple([Discrete(2)])]),
    "dict": Dict({"agent": Discrete(3, start=1), "goal": MultiDiscrete([2, 2])}),
}


@pytest.mark.parametrize("name", SPACES)
def test_numbers_and_names_are_one_to_one_with_the_observations(name):
    space = SPACES[name]
    space.seed(1)
    found = Observations(space)
    drawn = [space.sample() for _ in range(400)]
    digits = [found.digits(each) for each in drawn]
    assert set(map(found.index, digits)) == set(range(found.size))  # all are drawn: sizes are at most 24
    assert len({found.name(each) for each in digits}) == len(set(digits)) == found.size
    assert [found.name(each) for each in np.ndindex(found.sizes)] == list(found.names())
    assert found.names().index(found.name(digits[0])) == found.index(digits[0])


def test_names_are_the_observations():
    assert Observations(SPACES["discrete"]).names() == ("3", "4", "5", "6")
    assert Observations(SPACES["multi"]).name((1, 0)) == "(2, 5)"
    assert Observations(SPACES["dict"]).name((2, 0, 1)) == "agent=3, goal=(0, 1)"
    assert Observations(Tuple([Discrete(32), Discrete(11), Discrete(2)])).name((14, 10, 0)) == "(14, 10, 0)"
    assert Observations(Box(0, 1, (1,)), bins=3).names() == ("0", "1", "2")


@given(st.lists(st.floats(-2, 2), min_size=2, max_size=2))
def test_cells_are_half_open(point):
    found = Observations(Box(-1, 1, (2,)), bins=[4, [-0.5, 0.0]])
    x, y = np.float64(np.asarray(point, np.float32))
    expected = sum(x >= cut for cut in (-0.5, 0.0, 0.5)), sum(y >= cut for cut in (-0.5, 0.0))
    assert found.digits(np.array(point, np.float32)) == expected
    assert found.sizes == (4, 3)


@pytest.mark.parametrize(
    ("name", "observation"),
    [
        ("discrete", 7), ("discrete", 3.0), ("discrete", True), ("discrete", None), ("multi", [1, 5, 5]), ("multi", [0, 5]),
        ("binary", [0, 1, 2]), ("tuple", (1, [0, 1])), ("dict", {"agent": 1}), ("dict", 3),
    ],
)  # fmt: skip
def test_what_is_not_in_the_space_has_no_digits(name, observation):
    assert Observations(SPACES[name]).digits(observation) is None


def test_no_number_has_no_cell():
    assert Observations(Box(0, 1, (1,)), bins=3).digits(np.array([np.nan])) is None


def test_a_box_within_a_tuple_takes_its_bins():
    found = Observations(Tuple([Discrete(2), Box(0, 1, (2,)), Box(0, 1)]), bins=[2, 2, [0.1]])
    assert found.digits((1, [0.4, 0.6], [0.05])) == (1, 0, 1, 0)


@pytest.mark.parametrize(
    ("space", "bins", "error", "message"),
    [
        (Box(0, 1), None, ArgumentError, "Tuple or Dict observations, got Box in Pole; pass bins= or wrap it in DiscretizeO"),
        (Text(3), None, ArgumentError, "observations, got Text in Pole; use a wrapper that numbers them"),
        (Box(-np.inf, 1), 3, ArgumentError, r"bins\[0\] must be cut points, because the coordinate is unbounded, got 3; give"),
        (Box(0, 1, (2,)), [3], ArgumentError, r"bins must have one entry per coordinate \(2\), got 1"),
        (Box(0, 1), [[1, 0]], ArgumentError, r"bins\[0\] must be increasing cut points, got \[1, 0\]"),
        (Box(0, 1), [0], ArgumentError, r"bins\[0\] must be a whole number of at least 1, got 0"),
        (Box(0, 1), "many", ArgumentTypeError, "bins must be a number of cells or a list with one entry per coordinate, got"),
        (Discrete(2), 3, ArgumentError, "bins must be None for Pole, whose observations have no Box, got 3"),
    ],
)  # fmt: skip
def test_bad_spaces_and_bins_get_one_line(space, bins, error, message):
    with pytest.raises(error, match=message) as caught:
        Observations(space, bins, "Pole")
    assert "\n" not in str(caught.value)
