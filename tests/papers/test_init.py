import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import bqrl.papers

ROOT = Path(__file__).parents[2]


@pytest.fixture
def installed(tmp_path):
    """A copy of the package's file in a folder `site`, beside which a user has a folder `papers`."""
    (tmp_path / "papers" / "mine").mkdir(parents=True)
    place = tmp_path / "site" / "bqrl" / "papers"
    place.mkdir(parents=True)
    return Path(shutil.copy(bqrl.papers.__file__, place))


def add_study(papers):
    (papers / "ucb_bqrl").mkdir()
    (papers / "ucb_bqrl" / "study.toml").touch()


def test_files_of_a_paper_lie_beside_its_modules():
    from bqrl.papers.ucb_bqrl import view

    assert bqrl.papers.paper_file("view.py") == Path(view.__file__)
    assert bqrl.papers.paper_file("study.toml").is_file()


def test_an_unrelated_folder_of_papers_is_not_ours(installed, tmp_path):
    with pytest.raises(ImportError, match=r"neither in .* nor in .*papers; install bqrl again$") as fault:
        runpy.run_path(str(installed))
    assert "\n" not in str(fault.value)
    add_study(tmp_path / "papers")  # now it is that of a clone
    assert runpy.run_path(str(installed))["__path__"] == [str(tmp_path / "papers")]


def test_an_installed_package_uses_its_own_papers_only(installed, tmp_path):
    for papers in (installed.parent, tmp_path / "papers"):
        add_study(papers)
    assert runpy.run_path(str(installed))["__path__"] == [str(installed.parent)]


@pytest.mark.slow
def test_a_wheel_holds_the_papers(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        files = {name.removeprefix("bqrl/") for name in wheel.namelist() if name.startswith("bqrl/papers/")}
        wheel.extractall(tmp_path / "site")
    ours = {
        path.relative_to(ROOT).as_posix() for kind in ("py", "toml") for path in (ROOT / "papers").rglob(f"*.{kind}")
    }
    assert {"papers/__init__.py", *ours} <= files
    assert not [name for name in files if name.endswith(".pyc")]
    code = "import bqrl.papers.ucb_bqrl.theory.suite as suite; print(suite.__file__)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "site"), done.stderr
