import json

import pytest
from small_study import SMALL, Inline, results_of

from bqrl.cli.commands import run
from bqrl.cli.report import report
from bqrl.experiments.single import execute
from bqrl.experiments.workers import Event


@pytest.fixture
def cli(capsys, monkeypatch):
    monkeypatch.setattr("bqrl.cli.reproduce._workers", lambda workers, cluster: Inline())

    def call(*arguments):
        code = run(["reproduce", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def one_line(err):
    return err.startswith("bqrl: ") and err.count("\n") == 1


def test_it_writes_the_study_and_tells_it_short(cli, made, study_file, tmp_path):
    code, out, err = cli("--study", study_file, "--out", tmp_path)
    assert code == 0
    assert results_of(tmp_path) == results_of(made)
    assert "Printed numbers and ours" in out
    assert "runs made, 0 skipped" in out
    assert "tuning 4 of 4 over 30 episodes" in err  # plain lines where there is no terminal
    code, out, err = cli("--study", study_file, "--out", tmp_path, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["session"]["runs_made"] == 0


def test_a_quick_look_goes_to_a_folder_of_its_own(cli, study_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = cli("--study", study_file, "--quick")
    assert code == 0
    assert "quick look" in out
    assert (tmp_path / "results/small_quick/AssetSelling_tau0p2_plot.csv").is_file()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[tuning]", "[tunning]", "small.toml: there is no table 'tunning'; did you mean 'tuning'?"),
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


def test_no_such_study_is_one_line(cli, tmp_path):
    code, _, err = cli("--study", tmp_path / "none.toml", "--out", tmp_path)
    assert code == 2
    assert one_line(err)
    assert "there is no study file" in err
    code, _, err = cli("--study", tmp_path, "--out", tmp_path)
    assert code == 2
    assert "is a folder; give the .toml file of a study" in err


def test_a_page_of_an_unfinished_study_is_refused_in_one_line(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(FileNotFoundError, match="is not finished; the command that began it continues it"):
        report(tmp_path)


def test_workers_and_cluster_exclude_each_other(cli):
    code, _, err = cli("--workers", 2, "--cluster", "tcp://127.0.0.1:1")
    assert code == 2
    assert one_line(err)


def test_failed_runs_are_listed_and_the_exit_is_not_zero(cli, study_file, tmp_path, monkeypatch):
    class Failing(Inline):
        def wait(self, timeout):
            run = self.queue.popleft()
            if run.seed == 4 and run.learner == "q-learning":
                return [Event("failed", run, text="ValueError: no luck")]
            return [Event("done", run, *execute(run))]

    monkeypatch.setattr("bqrl.cli.reproduce._workers", lambda workers, cluster: Failing())
    code, _, err = cli("--study", study_file, "--out", tmp_path)
    assert code == 1
    assert "bqrl: 1 run failed; all others are kept in" in err
    assert "seed 4" in err
    assert "ValueError: no luck" in err


def test_the_live_display_shows_jobs_runs_and_time(study_file, tmp_path):
    import io

    from rich.console import Console

    from bqrl.cli.study_watch import display
    from bqrl.experiments.reproduce import reproduce
    from bqrl.experiments.run import Watch

    seen = []

    class Look(Watch):
        def show(self, state):
            if state.made == 20:
                first = next(iter(state.used.values()))
                state.running[first.name] = (first, 17)
                console = Console(file=io.StringIO(), width=150)
                console.print(display(state))
                seen.append(console.file.getvalue())
                del state.running[first.name]

    reproduce(study_file, tmp_path, workers=Inline(), watch=Look())
    assert "UCB-BQRL, tau 0.2" in seen[0]
    assert "episodes, " in seen[0]
    assert "left" in seen[0]
    assert "episode 17" in seen[0]
