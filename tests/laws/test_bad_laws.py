"""Every bad argument of a law gets an error of one line that names field, value and remedy."""

import numpy as np
import pytest

from bqrl.laws.law import Law

LAW = Law([0, 1], [0.5, 0.5])
nan, inf = float("nan"), float("inf")
LEVEL = "; give a probability such as 0.1"

BAD_VALUES = {
    "sum below one": (
        lambda: Law([0, 1], [0.5, 0.48]),
        "probabilities sum to 0.98; they must sum to 1 (tolerance 1e-9)",
    ),
    "sum just off": (
        lambda: Law([0, 1], [0.5, 0.500000002]),
        "probabilities sum to 1.000000002; they must sum to 1 (tolerance 1e-9)",
    ),
    "no mass": (lambda: Law([0, 1], [0, 0]), "probabilities sum to 0; they must sum to 1 (tolerance 1e-9)"),
    "negative": (lambda: Law([0, 1], [1.1, -0.1]), "probabilities[1] is -0.1; probabilities must be >= 0"),
    "barely negative": (lambda: Law([0, 1], [1, -2e-12]), "probabilities[1] is -2e-12; probabilities must be >= 0"),
    "nan mass": (lambda: Law([0, 1], [nan, 0.5]), "probabilities[0] is nan; every entry must be finite"),
    "infinite mass": (lambda: Law([0, 1], [0.5, inf]), "probabilities[1] is inf; every entry must be finite"),
    "nan value": (lambda: Law([0, nan], [0.5, 0.5]), "values[1] is nan; every entry must be finite"),
    "nothing": (lambda: Law([None], [1.0]), "values[0] is nan; every entry must be finite"),
    "infinite value": (lambda: Law([-inf, 0], [0.5, 0.5]), "values[0] is -inf; every entry must be finite"),
    "lengths": (
        lambda: Law([0, 1, 2], [0.5, 0.5]),
        "values has 3 entries and probabilities 2; give one probability per value",
    ),
    "empty": (lambda: Law([], []), "values is empty; give at least one entry"),
    "matrix": (lambda: Law([[0, 1]], [[0.5, 0.5]]), "values has shape (1, 2); give a one-dimensional array"),
    "number": (lambda: Law(3.0, [1.0]), "values has shape (); give a one-dimensional array"),
    "point at nan": (lambda: Law.point(nan), "values[0] is nan; every entry must be finite"),
    "tau above one": (lambda: LAW.quantile(1.5), "tau must lie in [0, 1], got 1.5" + LEVEL),
    "tau below zero": (lambda: LAW.upper_quantile(-0.1), "tau must lie in [0, 1], got -0.1" + LEVEL),
    "tau nan": (lambda: LAW.cvar(nan), "tau must lie in [0, 1], got nan" + LEVEL),
    "tau of the margin": (lambda: LAW.margin(2), "tau must lie in [0, 1], got 2" + LEVEL),
    "beta negative": (lambda: LAW.buffered_quantile(0.5, -0.1), "beta must lie in [0, 1], got -0.1" + LEVEL),
    "beta above one": (lambda: LAW.buffered_quantile(0.5, 1.01), "beta must lie in [0, 1], got 1.01" + LEVEL),
    "cdf at nan": (lambda: LAW.cdf(nan), "x is nan; give a number to compare the return with"),
    "shortfall at nan": (
        lambda: LAW.shortfall(np.array([0, nan])),
        "x is nan; give a number to compare the return with",
    ),
    "shift by nan": (lambda: LAW + nan, "shift must be a finite number, got nan"),
    "scale by infinity": (lambda: LAW.scale(inf), "scale must be a finite number, got inf"),
    "scale overflows": (lambda: LAW.scale(1e200).scale(1e200), "values[1] is inf; every entry must be finite"),
    "mixture weights": (
        lambda: Law.mixture([LAW, LAW], [0.5, 0.4]),
        "weights sum to 0.9; they must sum to 1 (tolerance 1e-9)",
    ),
    "mixture lengths": (
        lambda: Law.mixture([LAW], [0.5, 0.5]),
        "laws has 1 entries and weights 2; give one weight per law",
    ),
    "undefined f": (lambda: LAW.expect(lambda x: nan), "f(0) is nan; f must be defined on every value of the law"),
    "fewer than no draws": (
        lambda: LAW.sample(-1, np.random.default_rng(0)),
        "n is -1; the number of draws must be >= 0",
    ),
    "unknown keys": (
        lambda: Law.from_dict({"values": [0]}),
        "a law is stored under the keys values and probabilities, got {'values': [0]}",
    ),
}

BAD_TYPES = {
    "text values": (lambda: Law(["a", "b"], [0.5, 0.5]), "values must be a flat list of numbers, got ['a', 'b']"),
    "text masses": (lambda: Law([0], ["1.0"]), "probabilities must be a flat list of numbers, got ['1.0']"),
    "complex": (lambda: Law([1j], [1.0]), "values must be a flat list of numbers, got [1j]"),
    "ragged": (lambda: Law([[0], [1, 2]], [0.5, 0.5]), "values must be a flat list of numbers, got [[0], [1, 2]]"),
    "tau as text": (lambda: LAW.quantile("0.5"), "tau must be a number in [0, 1], got '0.5'"),
    "tau as array": (lambda: LAW.quantile(np.array([0.5])), "tau must be a number in [0, 1], got array([0.5])"),
    "beta missing": (lambda: LAW.buffered_quantile(0.5, None), "beta must be a number in [0, 1], got None"),
    "shift by text": (lambda: LAW + "a", "shift must be a finite number, got 'a'"),
    "shift by an array": (lambda: np.ones(2) + LAW, "shift must be a finite number, got array([1., 1.])"),
    "sum of laws": (lambda: LAW + LAW, "unsupported operand type(s) for +: 'Law' and 'Law'"),
    "seed as rng": (
        lambda: LAW.sample(3, 0),
        "rng must be a Generator such as np.random.default_rng(0), got 0",
    ),
    "distance to a number": (
        lambda: LAW.wasserstein(1.0),
        "other must be a Law, got float; make one with Law(values, probabilities)",
    ),
    "mixture of lists": (
        lambda: Law.mixture([[0, 1]], [1.0]),
        "laws must be a Law, got list; make one with Law(values, probabilities)",
    ),
}


@pytest.mark.parametrize("case", BAD_VALUES)
def test_bad_value_gets_one_clear_line(case):
    call, message = BAD_VALUES[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the whole message is checked below
        call()
    assert str(caught.value) == message


@pytest.mark.parametrize("case", BAD_TYPES)
def test_bad_type_gets_one_clear_line(case):
    call, message = BAD_TYPES[case]
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == message
