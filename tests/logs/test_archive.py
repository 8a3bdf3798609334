import numpy as np
import pytest
from logged_problems import coin, simulated, study

import bqrl
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.logs.archive import estimate_arrays, fields
from bqrl.logs.fit import fit


@pytest.mark.parametrize("way", study.WAYS)
def test_estimates_are_saved_and_loaded(tmp_path, way):
    mdp, log = simulated("machine", 300)
    estimate = study.fitted(mdp, log, way)
    bqrl.save(estimate, tmp_path / "estimate.npz")
    again = bqrl.load(tmp_path / "estimate.npz")
    assert str(again) == str(estimate)
    assert again.rows() == estimate.rows()
    assert again.solve(0.1).value == estimate.solve(0.1).value
    assert again.solve(0.1).notes == estimate.solve(0.1).notes
    assert again.logged(0.1) == estimate.logged(0.1)
    assert len(again.to_frame()) == len(estimate.rows())


def test_files_that_are_no_estimates_are_one_line(tmp_path):
    np.savez(tmp_path / "other.npz", bqrl_estimate=2)
    with pytest.raises(FileFormatError, match="got no array 'H'"):
        bqrl.load(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bqrl_estimate": np.array(9)}, "expected an estimate of format 2"),
        ({"visits": np.zeros(3, int)}, r"'visits' must have one entry .* shape \(1, 3, 1\), got \(3,\)"),
        ({"most": np.array([["x"]])}, r"'most' must have one entry .*, got \(1, 1\) of <U1"),
        ({"added": np.array([99])}, r"'added' must be a list of states below 3, got"),
        ({"whole": np.array([0, 0, 20, 20, 20, 1, 0])}, "'whole' must hold counts, got"),
        ({"numbers": np.array([0.1, 0.95, 0.0, 0.0])}, "'numbers' must have 5 entries"),
        ({"numbers": np.array([2.0, 0.95, 0.0, 0.0, 0.0])}, "'numbers' must begin with delta and the confidence"),
    ],
)
def test_damaged_arrays_are_one_line(changes, words):
    arrays = estimate_arrays(fit(coin(20, 20), reward_range=(0, 1)))
    assert fields(arrays)["episodes"] == 20
    with pytest.raises(FileFormatError, match=words) as caught:
        fields(arrays | changes)
    assert "\n" not in str(caught.value)


def test_an_estimate_is_written_to_an_npz_file_only(tmp_path):
    """The arrays were once written under any ending, and no file with another one can be loaded."""
    with pytest.raises(ArgumentError, match=r"path must end in \.npz, got 'estimate\.csv'"):
        fit(coin(10, 5), reward_range=(0, 1)).save(tmp_path / "estimate.csv")
    assert not any(tmp_path.iterdir())


def test_a_loaded_estimate_speaks_of_the_same_unit(tmp_path):
    """The unit of the model was once lost."""
    model = bqrl.MDP([(0, 0, 0, 1.0, 2.0)], horizon=1, units="EUR")
    estimate = fit({"episode": [0, 1], "state": [0, 0], "action": [0, 0], "reward": [2.0, 2.0]}, model=model)
    bqrl.save(estimate, tmp_path / "estimate.npz")
    assert "at least 2 EUR" in bqrl.load(tmp_path / "estimate.npz").solve(0.1).remarks[0]
