import pytest
from small_study import SMALL, Inline

from bqrl.experiments.reproduce import reproduce


@pytest.fixture(scope="session")
def study_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("study") / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="session")
def made(study_file, tmp_path_factory):
    """Folder of the whole study, made in this process without interruption; nobody writes to it."""
    folder = tmp_path_factory.mktemp("made")
    reproduce(study_file, folder, workers=Inline())
    return folder
