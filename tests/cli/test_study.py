"""Commands that play many runs have a folder of their own and can be continued."""

import json
from pathlib import Path

import pytest

from bqrl.cli.study import StudyCommand, explain_resuming
from bqrl.errors import ArgumentError


def test_a_quick_run_has_a_folder_of_its_own(tmp_path):
    assert StudyCommand().folder("x") == Path("results/x")
    assert StudyCommand(quick=True).folder("x") == Path("results/x_quick")
    (tmp_path / "result.json").write_text(json.dumps({"settings": {"quick": False}}))
    assert StudyCommand(out=tmp_path).folder("x") == tmp_path
    with pytest.raises(ArgumentError, match="holds the results of a full run; give another folder for a quick run"):
        StudyCommand(out=tmp_path, quick=True).folder("x")


def test_an_interrupted_command_says_where_it_goes_on(capsys, tmp_path):
    with pytest.raises(KeyboardInterrupt), explain_resuming(tmp_path):
        raise KeyboardInterrupt
    said = f"bqrl: stopped; finished runs are kept in {tmp_path}, and the same command continues\n"
    assert capsys.readouterr().err == said
