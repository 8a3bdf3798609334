"""What would be uploaded: the wheel is complete, holds no tests, and runs the README."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist, built with the hatchling that is installed."""
    folder = tmp_path_factory.mktemp("dist")
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--sdist",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_wheel_holds_the_package_and_nothing_else(built):
    names = set(zipfile.ZipFile(built[0]).namelist())
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in (source / "bqrl").rglob("*") if path.is_file()}
    package = {name for name in names if not name.startswith("bqrl-")}
    assert package == {name for name in files if "__pycache__" not in name}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_sdist_holds_what_the_tests_need(built):
    with tarfile.open(built[1]) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "README.md",
        "Makefile",
        "requirements.lock",
        "tests/oracles.py",
        "docs/refresh.py",
    } <= names
    assert not any(name.startswith((".venv", "build/", "results/")) for name in names)


def test_wheel_runs_the_readme(built, tmp_path):
    """The package comes from the wheel, what it depends on from this environment; the workflow starts from an empty one."""
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path),
        str(built[0]),
    ]
    subprocess.run(install, check=True, timeout=300)
    alone = os.environ | {"PYTHONPATH": str(tmp_path)}
    where = [sys.executable, "-c", "import bqrl; print(bqrl.__file__)"]
    found = subprocess.run(where, check=True, capture_output=True, text=True, env=alone, cwd=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(tmp_path)
    check = [sys.executable, str(ROOT / "docs" / "refresh.py"), "--check", str(ROOT / "README.md")]
    done = subprocess.run(check, capture_output=True, text=True, env=alone, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
