"""Every ending: numbers come back bit for bit."""

import pytest
from hypothesis import given
from mdp_strategies import assert_same, models

from bqrl import load, save


@pytest.mark.parametrize("ending", [".npz", ".json"])
@given(mdp=models())
def test_npz_and_json_hold_everything(tmp_path_factory, ending, mdp):
    path = tmp_path_factory.mktemp("files") / f"model{ending}"
    save(mdp, path)
    assert_same(mdp, load(path))
