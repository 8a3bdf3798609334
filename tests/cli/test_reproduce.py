"""`bqrl reproduce`: a small study by command."""

import json
import shutil

import pytest
from helpers import OWN, not_announced
from small_study import SMALL, results_of

from bqrl.cli.commands import run
from bqrl.cli.reproduce import PAPER, _is_of_paper
from bqrl.papers import paper_file
from bqrl.results.result import check_folder
from bqrl.results.study_view import StudyView
from bqrl.study.settings import read_settings
from bqrl.study.spec import Spec
from bqrl.study.workers import Workers


@pytest.fixture
def cli(capsys, monkeypatch):
    monkeypatch.setattr("bqrl.cli.reproduce.LocalWorkers", lambda workers: Workers())
    monkeypatch.setattr("bqrl.results.charts.image", lambda spec, kind: b"drawn")  # a second per image

    def call(*arguments):
        code = run(["reproduce", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def one_line(err):
    return err.startswith("bqrl: ") and err.count("\n") == 1


def test_it_writes_the_study_and_reports_it_in_short(cli, made, study_file, tmp_path):
    code, out, err = cli("--study", study_file, "--out", tmp_path)
    assert code == 0
    assert results_of(tmp_path) == results_of(made)
    assert "the smallest mean cumulative gap" in out
    assert "runs made, 0 skipped" in err
    assert (out + err).count("runs made") == 1
    assert "tuning 4 of 4 over 30 episodes" in err  # plain lines where there is no terminal
    page = (tmp_path / "report.html").read_text()
    assert "UCB-BQRL" in page
    assert "offers as in the paper" not in page
    assert "the final policy plays" in page
    code, out, err = cli("--study", study_file, "--out", tmp_path, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["session"]["runs_made"] == 0


def test_one_file_adds_a_learner_to_a_study_and_its_other_runs_are_kept(cli, made, study_file, tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "more.toml").write_text(
        f"extends = '{study_file}'\n[learners.mine]\nlearner = 'own.py:Mine'\nlabel = 'My own'\n"
    )
    shutil.copytree(made / "runs", tmp_path / "o/runs")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "o/runs").glob("*.npz")}
    assert cli("--study", tmp_path / "more.toml", "--out", tmp_path / "o", "--json")[0] == 0
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "o/runs").glob("*.npz")}
    assert before.items() <= after.items()
    assert {name.partition("_")[0] for name in after.keys() - before.keys()} == {"Mine"}
    assert "My own" in (tmp_path / "o/held_out.csv").read_text()
    assert str(tmp_path) not in (tmp_path / "o/result.json").read_text()


def test_the_view_of_the_paper_shows_its_study_with_further_learners(study_file, tmp_path):
    own = paper_file("study.toml")
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "more.toml").write_text("extends = 'ucb_bqrl'\n[learners.mine]\nlearner = 'own.py:Mine'\n")
    spec = read_settings(tmp_path / "more.toml", Spec, quick=True, known={PAPER: own})
    assert list(spec.learners)[-1] == "mine"
    assert _is_of_paper(spec, own)
    assert not _is_of_paper(read_settings(study_file, Spec, quick=True), own)


def test_a_quick_run_goes_to_a_folder_of_its_own(cli, study_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("--study", study_file, "--quick")
    assert code == 0
    assert "Quick run" in out
    assert (tmp_path / "results/small_quick/AssetSelling_tau0p2_plot.csv").is_file()


def test_a_quick_run_does_not_replace_a_whole_study(cli, made, study_file):
    before = results_of(made)
    code, _, err = cli("--study", study_file, "--quick", "--out", made)
    assert code == 2
    assert one_line(err)
    assert "holds the results of a full run; give another folder" in err
    assert results_of(made) == before


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[tuning]", "[tunning]", "small.toml: tunning is not a setting; did you mean 'tuning'?"),
        ('"q-learning"', '"q-lerning"', "did you mean 'q-learning'?"),
    ],
)
def test_mistakes_in_the_settings_are_one_line(cli, tmp_path, old, new, message):
    (tmp_path / "small.toml").write_text(SMALL.replace(old, new))
    code, out, err = cli("--study", tmp_path / "small.toml", "--out", tmp_path / "out")
    assert (code, out) == (2, "")
    assert one_line(err)
    assert message in err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_one_line(cli, study_file, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = cli("--study", study_file, "--out", tmp_path / "file")
    assert code == 2
    assert one_line(err)


@pytest.mark.parametrize("name", ["AssetSelling_tau0p2_plot.csv", "held_out.csv", "seeds.vl.json"])
def test_a_foreign_file_in_the_way_is_refused_before_any_work(cli, study_file, tmp_path, name):
    (tmp_path / name).write_text("mine")
    code, _, err = cli("--study", study_file, "--out", tmp_path)
    assert code == 2
    assert one_line(err)
    assert "was not written by bqrl" in err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_every_file_of_a_study_is_checked_for_before_the_work(made, study_file):
    written = json.loads((made / "manifest.json").read_text())["files"]
    assert not_announced(written, StudyView.files(read_settings(study_file, Spec))) == {"result.json"}


def test_files_of_other_names_are_not_in_the_way_of_a_study(study_file, tmp_path):
    """`--out .` is common: data and models of the user lie there."""
    for name in (
        "data.csv",
        "model.csv",
        "variant_x.csv",
        "figures/figure1_tau0p2_new.png",
        "laws/mine.csv",
        "AssetSelling.csv",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    check_folder(tmp_path, "study", StudyView.files(read_settings(study_file, Spec)))


def test_no_such_study_is_one_line(cli, tmp_path):
    code, _, err = cli("--study", tmp_path / "none.toml", "--out", tmp_path)
    assert code == 2
    assert one_line(err)
    assert "there is no settings file" in err
    code, _, err = cli("--study", tmp_path, "--out", tmp_path)
    assert code == 2
    assert "name a .toml file" in err


def test_workers_and_cluster_exclude_each_other(cli):
    code, _, err = cli("--workers", 2, "--cluster", "tcp://127.0.0.1:1")
    assert code == 2
    assert one_line(err)


def fail():
    raise ValueError("no chance")


def test_failed_runs_are_listed_and_the_exit_is_not_zero(cli, study_file, tmp_path, monkeypatch):
    class Failing(Workers):
        def submit(self, function, run, *rest):
            bad = run.seed == 4 and run.learner == "q-learning"
            return super().submit(fail) if bad else super().submit(function, run, *rest)

    monkeypatch.setattr("bqrl.cli.reproduce.LocalWorkers", lambda workers: Failing())
    code, _, err = cli("--study", study_file, "--out", tmp_path)
    assert code == 1
    first, last = err.splitlines()[-2:]
    assert first.startswith("bqrl: 1 run failed; all others are kept. First: ")
    assert "seed 4" in first
    assert first.endswith("ValueError: no chance")
    assert last.endswith("lists every failure, and the same command tries again")
