"""Settings files: tables, quick runs, and messages that list every mistake."""

import pytest
from pydantic import Field

from bqrl.study.settings import Count, Settings, Text, read_settings, settings_of
from bqrl.study.spec import Spec


class Inner(Settings):
    number: Count
    word: Text = "x"


class Outer(Settings):
    inner: Inner
    many: dict[str, Inner] = Field(default_factory=dict)


def test_the_file_is_named_and_must_be_toml(tmp_path):
    path = tmp_path / "odd.toml"
    with pytest.raises(FileNotFoundError, match=r"there is no settings file .*odd\.toml"):
        read_settings(path, Spec)
    path.write_text("[study\n")
    with pytest.raises(ValueError, match=r"^odd\.toml: "):
        read_settings(path, Spec)


@pytest.mark.parametrize("quick", [False, True])
def test_a_mistake_in_the_settings_of_a_quick_run_is_placed_there(study_file, tmp_path, quick):
    path = tmp_path / "small.toml"
    path.write_text(study_file.read_text().replace("[quick.study]\n", "[quick.study]\nepisode = 5\n"))
    with pytest.raises(ValueError, match=r"quick.study.episode is not a setting; did you mean 'episodes'"):
        read_settings(path, Spec, quick=quick)


def test_quick_replaces_settings_and_says_so(study_file):
    spec, quick = read_settings(study_file, Spec), read_settings(study_file, Spec, quick=True)
    assert (spec.quick, spec.episodes) == (False, 60)
    assert (quick.quick, quick.episodes) == (True, 20)
    assert quick.tuning.rungs == ((2, 10), (1, 20))
    assert quick.study.seeds == spec.study.seeds


def test_every_mistake_is_listed_with_its_place_and_value():
    with pytest.raises(ValueError) as error:  # noqa: PT011
        settings_of({"inner": {"number": 0, "wrod": 1}, "many": {"a": {"number": "x"}}}, Outer)
    number, wrod, many = str(error.value).replace("; did", " did").split("; ")
    assert number.startswith("inner.number: ")
    assert number.endswith(", got 0")
    assert wrod.startswith("inner.wrod ")
    assert "'word'" in wrod
    assert many.startswith("many.a.number: ")
    assert many.endswith(", got 'x'")
    with pytest.raises(ValueError, match=r"^inner: Input should be an object, got 3$"):
        settings_of({"inner": 3}, Outer)
    with pytest.raises(ValueError, match=r"^inner.word: must be one line of text without control .*, got 'a.nb'$"):
        settings_of({"inner": {"number": 1, "word": "a\nb"}}, Outer)


def test_a_folder_is_no_settings_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no settings file .*; name a .toml file$"):
        read_settings(tmp_path, Spec)
