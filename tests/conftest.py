import json
import os

import pytest
from helpers import TINY
from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, so neither deadlines nor the speed of drawing say anything here.
settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("all", settings.get_profile("ci"), max_examples=300)  # `make test-all`
settings.register_profile("explore", settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def cli(capsys):
    """Calls the command line; gives the exit code and what was printed."""
    from bqrl.cli.commands import run

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def tiny(tmp_path):
    """A small named problem in a file."""
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY))
    return str(path)


@pytest.fixture(scope="session")
def study_file(tmp_path_factory):
    from small_study import SMALL

    path = tmp_path_factory.mktemp("study") / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def finished(study_file, tmp_path_factory):
    """The whole study and its folder, made in this process without interruption; nobody writes to it."""
    from small_study import make

    folder = tmp_path_factory.mktemp("made")
    return make(study_file, folder), folder


@pytest.fixture(scope="session")
def made(finished):
    return finished[1]
