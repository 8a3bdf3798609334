"""Settings files: tables, quick runs, and messages that list every mistake."""

import re

import pytest
from helpers import OWN
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


def test_a_file_extends_another(study_file, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    path = tmp_path / "more.toml"
    path.write_text(
        'extends = "base"\n[study]\nepisodes = 40\n[tuning]\nrungs = [[4, 20], [2, 40]]\n'
        '[learners.mine]\nlearner = "own.py:Mine"\nlabel = "My own"\nparams = {action = 1}\n'
    )
    spec = read_settings(path, Spec, known={"base": study_file})
    base = read_settings(study_file, Spec)
    assert list(spec.learners) == [*base.learners, "mine"]
    assert (spec.episodes, spec.study.seeds) == (40, base.study.seeds)
    assert spec.learners["mine"].learner == "own.py:Mine"  # as written, wherever the file lies
    run = spec.run(spec.learners["mine"], 0.5, 1)
    assert (run.learner_name, len(run.own_code)) == ("Mine", 16)
    assert spec.run(spec.learners["eps_q"], 0.5, 1).name == base.run(base.learners["eps_q"], 0.5, 1, episodes=40).name
    (tmp_path / "own.py").write_text(OWN.replace("self.action)", "1 - self.action)"))
    again = read_settings(path, Spec, known={"base": study_file})
    assert again.run(again.learners["mine"], 0.5, 1).name != run.name
    for given, message in (
        ("'none.toml'", "extends must name another .toml file or 'base', got 'none.toml'"),
        ("'more.toml'", "extends must name another .toml file or 'base', got 'more.toml'"),
        ("3", "extends must name another .toml file or 'base', got 3"),
    ):
        path.write_text(f"extends = {given}\n")
        with pytest.raises(ValueError, match=re.escape(f"more.toml: {message}")):
            read_settings(path, Spec, known={"base": study_file})


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("own.py:Nine", "learner must name a class of own.py, got 'Nine'; did you mean 'Mine'?"),
        ("owl.py:Mine", "learner must name an existing file, got 'owl.py:Mine'; did you mean 'own.py'?"),
        ("own.py:np", "learner must name a Learner class or a function (task, rng), got 'own.py:np'"),
        ("wrong.py:Mine", "learner 'wrong.py:Mine': wrong.py cannot be imported (ZeroDivisionError: division by zero)"),
        ("no_such.module:Mine", "no_such.module cannot be imported (ModuleNotFoundError: No module named 'no_such')"),
        (":Mine", "learner must be written module:Class or file.py:Class, got ':Mine'"),
    ],
)
def test_a_learner_that_cannot_be_loaded_is_one_line(study_file, tmp_path, learner, message):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "wrong.py").write_text("1 / 0\n")
    path = tmp_path / "more.toml"
    path.write_text(f'extends = "base"\n[learners.mine]\nlearner = "{learner}"\n')
    with pytest.raises(ValueError, match=r"^more\.toml: learners\.mine: ") as error:
        read_settings(path, Spec, known={"base": study_file})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


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
