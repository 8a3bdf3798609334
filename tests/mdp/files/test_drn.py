import sys

import pytest
from storm_files import built, storm, storm_mean

import bqrl
from bqrl.errors import FileFormatError


def test_a_model_that_storm_writes(tmp_path):
    stormpy, (program, model) = storm(), built(tmp_path)
    stormpy.io.export_to_drn(model, str(tmp_path / "job.drn"))
    mdp = bqrl.load(tmp_path / "job.drn", horizon=7, rewards="gain")
    assert {"run", "rest"} <= set(mdp.action_names)
    assert bqrl.solve(mdp, bqrl.Mean()).value == pytest.approx(storm_mean(program, model, "gain", 7), abs=1e-9)
    stormpy.io.export_to_umb(model, str(tmp_path / "job.umb"))
    same = bqrl.load(tmp_path / "job.umb", horizon=7, rewards="gain")
    assert bqrl.solve(mdp, tau=0.2).value == bqrl.solve(same, tau=0.2).value


def test_a_damaged_file(tmp_path):
    storm()
    (tmp_path / "job.drn").write_text("@type: nonsense\n")
    with pytest.raises(FileFormatError, match=r"^job.drn: Storm cannot read the file"):
        bqrl.load(tmp_path / "job.drn", horizon=3)


def test_the_remedy_without_stormpy(tmp_path, monkeypatch):
    (tmp_path / "job.drn").write_text("@type: MDP\n")
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(ImportError, match=r"a .drn file needs stormpy; install it with: pip install 'bqrl\[storm\]'"):
        bqrl.load(tmp_path / "job.drn", horizon=3)
