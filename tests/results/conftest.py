import csv
import io

import pytest
from small_study import SMALL, make


@pytest.fixture(scope="session")
def study(tmp_path_factory):
    """A finished small study."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.toml").write_text(SMALL)
    return make(folder / "small.toml", folder / "out")


@pytest.fixture(scope="session")
def embedded():
    """The rows of the first embedded table of a specification that has all of these columns."""

    def rows(spec, *columns):
        for text in spec["datasets"].values():
            found = list(csv.DictReader(io.StringIO(text)))
            if found and set(columns) <= set(found[0]):
                return found
        raise AssertionError(f"no table with {columns}")

    return rows
