"""The tables of a study as CSV files."""

import math

import numpy as np
import pytest
from small_study import details_of, read_table

from bqrl.display import level_name
from bqrl.study.store import Store
from bqrl.study.tables import _rungs, file_name
from bqrl.study.tune import Rung, Trial, Tuned

MAIN = "AssetSelling_tau0p2_plot.csv"


def test_names_of_files_hold_no_odd_characters():
    assert [file_name(text) for text in ("two roads", "ICU-Sepsis", "a/b:c", "../..")] == [
        "two_roads", "ICU-Sepsis", "a_b_c", "problem",
    ]  # fmt: skip
    assert [level_name(tau) for tau in (0.1, 1e-05, 0.25)] == ["0p1", "1em05", "0p25"]


@pytest.mark.parametrize("level", ["0p2", "0p5"])
def test_main_tables_have_the_columns_and_the_episodes(made, level):
    header, rows = read_table(made / f"AssetSelling_tau{level}_plot.csv")
    assert header == ["episode", "ucb_bqrl_mean", "ucb_bqrl_std", "eps_q_mean", "eps_q_std"]
    assert [int(row[0]) for row in rows] == list(range(1, 61))
    values = np.array(rows, float)
    assert np.all(np.diff(values[:, [1, 3]], axis=0) >= -1e-12)  # cumulative


def test_tables_hold_the_mean_and_sample_deviation_of_the_held_out_runs(finished, made):
    study, _ = finished
    spec, tuned = study.spec, study.finals["eps_q", 0.5].tuned
    runs = [spec.run(spec.learners["eps_q"], 0.5, seed, value=tuned.winner.value) for seed in spec.study.seeds]
    with Store(made) as store:
        records = [store.load(run) for run in runs]
    regrets = np.array([np.cumsum(record.expected_regret()) for record in records])
    header, rows = read_table(made / MAIN)
    columns = dict(zip(header, np.array(rows, float).T, strict=True))
    np.testing.assert_allclose(columns["eps_q_mean"], regrets.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(columns["eps_q_std"], regrets.std(axis=0, ddof=1), atol=1e-12)
    gaps = np.array([np.cumsum(record.gap(0.5, "capped")) for record in records])
    header, rows = read_table(made / "AssetSelling_tau0p5_plot.csv")
    np.testing.assert_allclose([float(row[header.index("eps_q_mean")]) for row in rows], gaps.mean(axis=0), atol=1e-12)


def test_other_measures_and_variants_have_folders_of_their_own(made):
    for lead in ("", "geometric/"):
        for name in (
            "capped/AssetSelling_tau0p2_gap",
            "exact/AssetSelling_tau0p5_gap",
            "expected/AssetSelling_tau0p2_regret",
        ):
            header, rows = read_table(made / f"{lead}{name}.csv")
            assert header[-2:] == ["target_mean", "target_std"]
            assert len(rows) == 60
    header, rows = read_table(made / "replications/AssetSelling_tau0p2_ends.csv")
    assert header == ["learner", "seed", "held_out", "capped_gap", "exact_gap", "expected_regret"]
    assert [(row[0], int(row[1]), int(row[2])) for row in rows[:5]] == [
        ("ucb_bqrl", s, int(s < 3)) for s in range(1, 6)
    ]
    header, rows = read_table(made / "laws/AssetSelling_tau0p2_final_laws.csv")
    mass = math.fsum(float(row[3]) for row in rows if row[:2] == ["target", "2"])
    assert mass == pytest.approx(1.0)


def test_the_final_policy_is_a_table_of_the_problems_own_states_and_actions(made):
    header, rows = read_table(made / "AssetSelling_tau0p2_UCB_BQRL_final_policy.csv")
    assert header == ["state", "stage_1", "stage_2", "stage_3", "stage_4"]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4", "5"]  # sold is left out
    assert {cell for row in rows for cell in row[1:]} == {"Stop", "Continue"}
    errors = details_of(made)["final_policies"]["0.2"]
    ranked = sorted((*map(lambda x: round(x, 12), one), int(seed)) for seed, one in errors["errors"].items())
    assert errors["seed"] == ranked[0][-1]


def test_no_table_holds_a_clock_time(made):
    for path in made.rglob("*.csv"):
        if path.name != "session.csv":
            assert not {"seconds", "time", "date"} & set(path.read_text().splitlines()[0].split(","))


def test_long_names_of_problems_are_cut_in_file_names():
    """Once the names were refused after all runs."""
    assert file_name("a" * 200) == "a" * 60


@pytest.mark.parametrize(("gaps", "error"), [((3.0,), None), ((3.0, 5.0), 1.0)])
def test_the_error_of_a_tuning_with_one_seed_is_empty(gaps, error):
    trial = Trial(place=0, value=1.0, scores=tuple((gap, 0.5) for gap in gaps))
    header, row = _rungs(Tuned(parameter="x", values=(1.0,), rungs=(Rung(episodes=5, trials=(trial,)),)))
    assert dict(zip(header, row, strict=True))["gap_error"] == (error if error is None else pytest.approx(error))
