"""Items of a JSON file: valid ones become indices and numbers, others get one line with their place."""

import numpy as np
import pytest

from bqrl.errors import FileFormatError
from bqrl.mdp.build import Table
from bqrl.mdp.files.json_items import dumps, index_of, number_of, row_of

NAMES = {"low": 0, "high": 1}


def table(K):
    return Table(
        S=2, A=1, K=K, row_start=np.arange(2 * K + 1), successor=np.zeros(2 * K, np.int32), probability=np.ones(2 * K)
    )


def test_names_and_numbers_are_indices():
    assert [index_of(given, NAMES, 2, "x") for given in ("high", 0)] == [1, 0]
    assert row_of(["high", 0], table(1), NAMES, None, "x") == 1
    assert row_of([2, "low", 0], table(3), NAMES, None, "x") == 4
    assert number_of(3, "x") == 3.0
    assert dumps({"größer": 0.1}) == '{"größer": 0.1}'


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: index_of("hgh", NAMES, 2, "x"), "x: expected a number from 0 to 1 or a name of the list, got 'hgh'"),
        (lambda: index_of(2, None, 2, "x"), "x: expected a number from 0 to 1, got 2"),
        (lambda: index_of(True, None, 2, "x"), "x: expected a number from 0 to 1, got True"),
        (lambda: number_of("1", "x"), "x: expected a finite number, got '1'"),
        (lambda: number_of(float("inf"), "x"), "x: expected a finite number, got inf"),
        (lambda: row_of([3, "low", 0], table(3), NAMES, None, "x"), "x, stage: expected a number from 0 to 2, got 3"),
        (lambda: row_of(["low", 1], table(1), NAMES, None, "x"), "x, action: expected a number from 0 to 0, got 1"),
    ],
)
def test_other_items_get_one_line(call, message):
    with pytest.raises(FileFormatError) as caught:
        call()
    assert str(caught.value) == message
