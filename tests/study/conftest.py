import pytest
from small_study import SMALL, make


@pytest.fixture(scope="session")
def study_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def finished(study_file, tmp_path_factory):
    """The whole study and its folder, made in this process without interruption; nobody writes to it."""
    folder = tmp_path_factory.mktemp("made")
    return make(study_file, folder), folder


@pytest.fixture(scope="session")
def made(finished):
    return finished[1]
