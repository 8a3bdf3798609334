import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import bqrl
import bqrl.papers

ROOT = Path(__file__).parents[2]


def test_files_of_a_paper_lie_beside_its_modules():
    from bqrl.papers.ucb_bqrl import view

    assert bqrl.papers.paper_file("view.py") == Path(view.__file__)
    assert bqrl.papers.paper_file("study.toml").is_file()


@pytest.mark.slow
def test_a_wheel_holds_the_papers(tmp_path):
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        files = {name.removeprefix("bqrl/") for name in wheel.namelist() if name.startswith("bqrl/papers/")}
        wheel.extractall(tmp_path / "site")
    package = Path(bqrl.__file__).parent
    papers = package / "papers"
    ours = {path.relative_to(package).as_posix() for kind in ("py", "toml", "md") for path in papers.rglob(f"*.{kind}")}
    assert {"papers/__init__.py", "papers/ucb_bqrl/study.toml"} <= ours <= files
    assert not [name for name in files if name.endswith(".pyc")]
    code = "import bqrl.papers.ucb_bqrl.theory.suite as suite; print(suite.__file__)"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "site"), done.stderr
