import csv
import json
import math

import numpy as np
import pytest
from small_study import RUNS, SMALL, Heard, Inline, results_of

from bqrl.experiments.reproduce import reproduce
from bqrl.experiments.settings import read_spec
from bqrl.experiments.single import execute
from bqrl.experiments.store import Store
from bqrl.experiments.study import FailedRunsError
from bqrl.experiments.workers import Event

MAIN = "AssetSelling_tau0p2_plot.csv"


def read(path):
    with path.open() as file:
        rows = list(csv.reader(file))
    return rows[0], rows[1:]


def found(folder):
    return json.loads((folder / "results.json").read_text())


def test_every_run_is_one_file(made):
    assert len(list((made / "runs").iterdir())) == RUNS
    assert found(made)["session"]["runs"] == RUNS


@pytest.mark.parametrize("level", ["0p2", "0p5"])
def test_main_tables_have_the_columns_and_the_episodes(made, level):
    header, rows = read(made / f"AssetSelling_tau{level}_plot.csv")
    assert header == ["episode", "ucb_bqrl_mean", "ucb_bqrl_std", "eps_q_mean", "eps_q_std"]
    assert [int(row[0]) for row in rows] == list(range(1, 61))
    values = np.array(rows, float)
    assert np.all(np.diff(values[:, [1, 3]], axis=0) >= -1e-12)  # cumulative


def test_tables_hold_the_mean_and_sample_deviation_of_the_held_out_runs(made, study_file):
    spec, store = read_spec(study_file), Store(made)
    told = found(made)["tuning"]["eps_q"]["0.5"]
    runs = [spec.run(spec.entry("eps_q"), 0.5, seed, value=told["winner"]) for seed in spec.seeds]
    regrets = np.array([np.cumsum(store.load(run).expected_regret()) for run in runs])
    header, rows = read(made / MAIN)
    columns = dict(zip(header, np.array(rows, float).T, strict=True))
    np.testing.assert_allclose(columns["eps_q_mean"], regrets.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(columns["eps_q_std"], regrets.std(axis=0, ddof=1), atol=1e-12)
    gaps = np.array([np.cumsum(store.load(run).gap(0.5, "capped")) for run in runs])
    header, rows = read(made / "AssetSelling_tau0p5_plot.csv")
    np.testing.assert_allclose([float(row[header.index("eps_q_mean")]) for row in rows], gaps.mean(axis=0), atol=1e-12)


def test_other_measures_and_variants_have_folders_of_their_own(made):
    for lead in ("", "geometric/"):
        for name in (
            "capped/AssetSelling_tau0p2_gap",
            "exact/AssetSelling_tau0p5_gap",
            "expected/AssetSelling_tau0p2_regret",
        ):
            header, rows = read(made / f"{lead}{name}.csv")
            assert header[-2:] == ["target_mean", "target_std"]
            assert len(rows) == 60
    header, rows = read(made / "luck/AssetSelling_tau0p2_ends.csv")
    assert header == ["learner", "seed", "held_out", "capped_gap", "exact_gap", "expected_regret"]
    assert [(row[0], int(row[1]), int(row[2])) for row in rows[:5]] == [
        ("ucb_bqrl", s, int(s < 3)) for s in range(1, 6)
    ]
    header, rows = read(made / "laws/AssetSelling_tau0p2_final_laws.csv")
    mass = math.fsum(float(row[3]) for row in rows if row[:2] == ["target", "2"])
    assert mass == pytest.approx(1.0)


def test_the_final_policy_is_a_table_of_stop_and_continue(made):
    header, rows = read(made / "AssetSelling_tau0p2_UCB_BQRL_final_policy.csv")
    assert header == ["offer", "stage_1", "stage_2", "stage_3", "stage_4"]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4", "5"]  # sold is left out
    assert {cell for row in rows for cell in row[1:]} == {"0", "1"}
    errors = found(made)["final_policies"]["0.2"]
    ranked = sorted((*map(lambda x: round(x, 12), one.values()), int(seed)) for seed, one in errors["errors"].items())
    assert errors["seed"] == ranked[0][-1]


def test_no_table_holds_a_clock_time(made):
    for path in made.rglob("*.csv"):
        assert not {"seconds", "time", "date"} & set(path.read_text().splitlines()[0].split(","))


def test_results_set_printed_numbers_beside_ours(made):
    told = found(made)
    first, smallest, threshold = told["comparison"]
    ends = told["held_out"]["AssetSelling"]["0.5"]
    assert first["ours"] == pytest.approx(ends["eps_q"]["capped"]["mean"])
    assert first["difference"] == pytest.approx(first["ours"] - 7.0)
    assert "on 3 other seeds a mean of 2 runs is" in first["reason"]
    assert smallest["ours"] == pytest.approx(min(ends[key]["capped"]["mean"] for key in ("eps_q", "ucb_bqrl")))
    assert threshold["measure"] == "threshold"
    assert "on the true kernel without a buffer continues up to" in threshold["reason"]
    assert told["quick"] is False
    assert told["luck"]["AssetSelling"]["0.5"]["eps_q"]["exact"]["n"] == 3
    order = told["orderings"]["AssetSelling"]["0.5"]["exact"]
    assert [row["mean"] for row in order] == sorted(row["mean"] for row in order)
    assert all("told" in one for levels in told["tuning"].values() for one in levels.values())
    assert told["references"]["AssetSelling"]["0.5"]["exact"] >= told["references"]["AssetSelling"]["0.5"]["capped"]


def test_a_second_call_makes_nothing_and_says_so(made, study_file, tmp_path):
    import shutil

    shutil.copytree(made, tmp_path / "again")
    heard = Heard()
    told = reproduce(study_file, tmp_path / "again", workers=Inline(), watch=heard)
    assert (told["session"]["runs_made"], told["session"]["runs_skipped"]) == (0, RUNS)
    assert f"0 runs made, {RUNS} skipped because they were there" in heard.lines
    assert results_of(tmp_path / "again") == results_of(made)


def test_a_changed_study_reuses_only_what_is_the_same(made, tmp_path):
    import shutil

    shutil.copytree(made, tmp_path / "again")
    (tmp_path / "small.toml").write_text(SMALL.replace("luck_seeds = [3, 4, 5]", "luck_seeds = [3, 4, 6]"))
    told = reproduce(tmp_path / "small.toml", tmp_path / "again", workers=Inline())
    assert told["session"]["runs_made"] == 5  # the new seed of every learner and level
    (tmp_path / "small.toml").write_text(SMALL.replace("offers = 6", "offers = 7"))
    told = reproduce(tmp_path / "small.toml", tmp_path / "again", workers=Inline())
    assert told["session"]["runs_skipped"] == 0


def test_damaged_results_are_made_again(made, study_file, tmp_path):
    import shutil

    shutil.copytree(made, tmp_path / "again")
    names = sorted((tmp_path / "again/runs").iterdir())
    names[0].write_bytes(names[0].read_bytes()[:100])
    names[1].write_bytes(names[2].read_bytes())
    names[3].unlink()
    heard = Heard()
    told = reproduce(study_file, tmp_path / "again", workers=Inline(), watch=heard)
    assert told["session"]["runs_made"] == 3
    assert sum("the run is repeated" in line for line in heard.lines) == 2
    assert results_of(tmp_path / "again") == results_of(made)


def test_quick_marks_every_output(study_file, tmp_path):
    told = reproduce(study_file, tmp_path, quick=True, workers=Inline())
    assert told["quick"] is True
    assert "quick look" in told["mark"]
    assert all("quick look" in row["reason"].lower() for row in told["comparison"])
    assert "(quick look)" in (tmp_path / "study.log").read_text()
    tables = list(tmp_path.rglob("*.csv"))
    assert tables
    for path in tables:
        header, rows = read(path)
        assert header[-1] == "quick"
        assert {row[-1] for row in rows} == {"1"}
    assert read(tmp_path / MAIN)[1][-1][0] == "20"


def test_a_quick_look_does_not_replace_a_whole_study(made, study_file):
    before = results_of(made)
    with pytest.raises(ValueError, match="holds the results of a whole study; give another folder"):
        reproduce(study_file, made, quick=True, workers=Inline())
    assert results_of(made) == before


class Failing(Inline):
    """Fails on one seed of Q-learning."""

    def wait(self, timeout):
        run = self.queue.popleft()
        if (run.learner, run.seed) == ("q-learning", 4):
            return [Event("failed", run, text="ValueError: no luck", trace="where it happened")]
        return [Event("done", run, *execute(run))]


def test_failed_runs_are_listed_and_the_others_kept(made, study_file, tmp_path):
    heard = Heard()
    with pytest.raises(FailedRunsError, match=r"a run failed; the others are kept\. First: q-learning") as fault:
        reproduce(study_file, tmp_path, workers=Failing(), watch=heard)
    assert [one.run.seed for one in fault.value.failures] == [4]
    assert not (tmp_path / "results.json").exists()
    assert "where it happened" in (tmp_path / "study.log").read_text()
    told = reproduce(study_file, tmp_path, workers=Inline())
    assert told["session"]["runs_made"] == 1
    assert results_of(tmp_path) == results_of(made)


def test_learners_trained_once_do_not_see_the_level():
    from dataclasses import replace

    from bqrl.experiments.reproduce import paper_study
    from bqrl.experiments.store import digest_of
    from bqrl.mdp.file_npz import unpack

    spec = read_spec(paper_study())
    for entry in spec.learners:
        if not entry.per_level:
            runs = [replace(spec.run(entry, tau, 5), episodes=60) for tau in (0.1, 0.9)]
            arrays = [unpack(execute(run)[0]) for run in runs]
            for one in arrays:
                one.pop("settings")
            assert digest_of(arrays[0]) == digest_of(arrays[1]), entry.key
