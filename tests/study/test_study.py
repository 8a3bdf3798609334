import json

import pytest
from small_study import RUNS, SMALL, Heard, details_of, make, read_table, results_of

import bqrl
from bqrl.papers import paper_file
from bqrl.study.runner import FailedRunsError
from bqrl.study.settings import read_settings
from bqrl.study.spec import Spec
from bqrl.study.store import Store, execute
from bqrl.study.study import reference
from bqrl.study.workers import Workers

MAIN = "AssetSelling_tau0p2_plot.csv"


def test_every_run_is_one_file(made):
    assert len(list((made / "runs").glob("*.npz"))) == len(list((made / "runs").iterdir())) - 1 == RUNS
    session = details_of(made)["session"]
    assert session["runs"] == RUNS
    with Store(made) as store:
        assert sum(timing.core for timing in store.times().values()) == pytest.approx(session["core_seconds"])


def test_orderings_and_references_hold(made, finished):
    details = details_of(made)
    order = details["orderings"]["AssetSelling"]["0.5"]["exact"]
    assert [row["mean"] for row in order] == sorted(row["mean"] for row in order)
    against = finished[0].reference(0.5)
    assert against.optimum >= against.capped


def test_references_are_those_of_the_planners():
    mdp = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    against = reference(mdp, 0.3)
    assert against.optimum == bqrl.solve(mdp, 0.3).value
    assert against.capped == bqrl.solve(mdp, 0.3, planner="capped-frontier").value
    assert against.best_mean == pytest.approx(bqrl.solve(mdp, 0.3, planner="expected").law.mean())
    shortfall = 0.3 - against.margin
    assert 0.0 <= shortfall < 0.3
    assert bqrl.guarantee_curve(mdp)(shortfall + 1e-9) >= against.optimum


def test_final_runs_are_experiments_and_runs_trained_once_are_shared(finished):
    study, _ = finished
    assert set(study.experiments) == {(variant, tau) for variant in ("", "geometric") for tau in (0.2, 0.5)}
    low, high = study.experiments["", 0.2], study.experiments["", 0.5]
    assert low.seeds == (1, 2, 3, 4, 5)
    assert all(mine is other for mine, other in zip(low.records["eps_q"], high.records["eps_q"], strict=True))
    assert all(record.tau == 0.2 for record in low.records["target"])
    assert low.learners[1].params == {"learning_rate": study.tunings["eps_q", 0.5].winner.value}
    order = [row["learner"] for row in high.part(study.spec.ranking_seeds()).order("exact")]
    assert order == [row["learner"] for row in details_of(finished[1])["orderings"]["AssetSelling"]["0.5"]["exact"]]


def test_a_second_call_makes_nothing_and_says_so(made, study_file, tmp_path):
    import shutil

    shutil.copytree(made, tmp_path / "again")
    heard = Heard()
    session = make(study_file, tmp_path / "again", watch=heard).session
    assert (session["runs_made"], session["runs_skipped"]) == (0, RUNS)
    assert f"0 runs made, {RUNS} skipped because they were finished before" in heard.lines
    assert results_of(tmp_path / "again") == results_of(made)


def test_a_changed_study_reuses_only_what_is_the_same(made, tmp_path):
    import shutil

    shutil.copytree(made, tmp_path / "again")
    (tmp_path / "small.toml").write_text(
        SMALL.replace("replication_seeds = [3, 4, 5]", "replication_seeds = [3, 4, 6]")
    )
    session = make(tmp_path / "small.toml", tmp_path / "again").session
    assert session["runs_made"] == 5  # the new seed of every learner and level
    (tmp_path / "small.toml").write_text(SMALL.replace("offers = 6", "offers = 7"))
    session = make(tmp_path / "small.toml", tmp_path / "again").session
    assert session["runs_skipped"] == 0


def test_damaged_results_are_made_again(made, study_file, tmp_path):
    import shutil

    shutil.copytree(made, tmp_path / "again")
    names = sorted((tmp_path / "again/runs").glob("*.npz"))
    names[0].write_bytes(names[0].read_bytes()[:100])
    names[1].write_bytes(names[2].read_bytes())
    names[3].unlink()
    heard = Heard()
    session = make(study_file, tmp_path / "again", watch=heard).session
    assert session["runs_made"] == 3
    assert sum("the run is repeated" in line for line in heard.lines) == 2
    assert results_of(tmp_path / "again") == results_of(made)


def test_quick_marks_every_output(study_file, tmp_path):
    make(study_file, tmp_path, quick=True)
    written = json.loads((tmp_path / "result.json").read_text())
    assert written["settings"]["quick"] is True
    assert "(quick run)" in written["title"]
    assert "not the numbers of the study" in written["sentences"][0]["text"]
    assert "(quick run)" in (tmp_path / "runs/study.log").read_text()
    assert all("(quick run)" in table["caption"] for table in written["tables"].values())
    charts = list(tmp_path.glob("*.vl.json"))
    assert len(charts) == len(written["charts"]) > 5
    for path in charts:
        assert "not the numbers of the study" in " ".join(json.loads(path.read_text())["title"]["subtitle"])
    tables = [path for path in tmp_path.rglob("*.csv") if path.parent != tmp_path or "tau" in path.name]
    assert len(tables) > 20
    for path in tables:
        header, rows = read_table(path)
        assert header[-1] == "quick"
        assert {row[-1] for row in rows} == {"1"}
    assert read_table(tmp_path / MAIN)[1][-1][0] == "20"


class Failing(Workers):
    """Fails on one seed of Q-learning."""

    def submit(self, function, run, *rest):
        if (run.learner, run.seed) == ("q-learning", 4):
            return super().submit(fail)
        return super().submit(function, run, *rest)


def fail():
    raise ValueError("no chance")


def test_failed_runs_are_listed_and_the_others_kept(made, study_file, tmp_path):
    with pytest.raises(FailedRunsError, match=r"1 run failed; all others are kept\. First: q-learning") as error:
        make(study_file, tmp_path, workers=Failing())
    assert [(run.seed, message) for run, message in error.value.failures] == [(4, "ValueError: no chance")]
    assert not (tmp_path / "result.json").exists()
    assert "raise ValueError" in (tmp_path / "runs/study.log").read_text()
    assert make(study_file, tmp_path).session["runs_made"] == 1
    assert results_of(tmp_path) == results_of(made)


def test_learners_trained_once_do_not_see_the_level():
    from dataclasses import replace

    spec = read_settings(paper_file("study.toml"), Spec)
    for entry in spec.learners.values():
        if not entry.per_level:
            runs = [replace(spec.run(entry, tau, 5), episodes=60) for tau in (0.1, 0.9)]
            low, high = (execute(run)[0] for run in runs)
            assert low.pop("settings") != high.pop("settings")
            assert low.keys() == high.keys()
            assert all(low[name].tobytes() == high[name].tobytes() for name in low), entry.key


OTHER = """
[study]
name = "roads"
unit = "EUR"
stage = "week"
levels = [0.3]
episodes = 30
seeds = [1, 2]

[problem]
name = "two roads"
transitions = [[[0.1, 0.9], [0.4, 0.6]], [[0.5, 0.5], [0.2, 0.8]]]
rewards = [[0.0, 0.5], [1.0, 0.0]]
horizon = 3

[learners.sarsa]
learner = "sarsa"

[final_policy]
learner = "sarsa"
"""


def test_a_study_of_another_problem_speaks_of_its_states_and_actions(tmp_path):
    from bqrl.results.page import page
    from bqrl.results.result import read as read_result

    (tmp_path / "roads.toml").write_text(OTHER)
    make(tmp_path / "roads.toml", tmp_path / "out")
    result = read_result(tmp_path / "out")
    header, rows = read_table(tmp_path / "out" / "two_roads_tau0p3_SARSA_final_policy.csv")
    assert header == ["state", "stage_1", "stage_2", "stage_3"]
    assert [row[0] for row in rows] == ["0", "1"]
    assert {"figure1_tau0p3", "final_policy_tau0p3", "every_measure", "seeds", "promises"} == set(result.charts)
    text = page(result).split('<script type="application/json"')[0]
    text += "".join(f"{spec['title']} {spec.get('usermeta')}" for spec in result.charts.values())
    for word in ("offer", "Stop", "Continue", "sold", "the paper"):
        assert word not in text
    for word in ("(EUR)", "in the first week"):
        assert word in text


OWN = """
[study]
name = "own"
levels = [0.2]
episodes = 4
seeds = [1, 2]
[problem]
file = "model.npz"
[tuning]
points = 2
rungs = [[2, 2]]
seeds = [3]
[learners.q]
learner = "q-learning"
grid = [0.1, 1.0]
"""


def test_only_a_study_that_shows_the_capped_reference_needs_it(tmp_path):
    """With a discount the returns are too many for the paper's reference; this is said before the first run."""
    bqrl.envs.make("RiverSwim").replace(discount=0.97, horizon=25).save(tmp_path / "model.npz")
    path, capped = tmp_path / "own.toml", tmp_path / "capped.toml"
    path.write_text(OWN)
    capped.write_text(OWN.replace("episodes = 4", 'episodes = 4\nplot = ["capped"]'))
    with pytest.raises(ValueError, match="at most 4000000 sums of rewards with 6 decimals, got"):
        make(capped, tmp_path / "capped")
    assert not (tmp_path / "capped").exists()
    study = make(path, tmp_path / "own")
    assert study.reference(0.2).capped is None
    assert not (tmp_path / "own" / "capped").exists()
    header, _ = read_table(tmp_path / "own" / "replications" / "model_tau0p2_ends.csv")
    assert header == ["learner", "seed", "held_out", "exact_gap", "expected_regret"]
    assert "capped" not in (tmp_path / "own" / "references.csv").read_text()


def test_the_criterion_of_a_tuning_is_the_gap_and_then_the_return_of_the_last_episodes(finished):
    study, folder = finished
    spec, entry, tuned = study.spec, study.spec.learners["eps_q"], study.tunings["eps_q", 0.5]
    assert spec.measures[0] == "capped"
    with Store(folder) as store:
        for rung in tuned.rungs:
            for trial in rung.trials:
                runs = [spec.run(entry, 0.5, seed, value=trial.value, episodes=rung.episodes) for seed in (10, 11)]
                records = [store.load(run) for run in runs]
                last = rung.episodes // 10
                assert trial.scores == tuple(
                    (record.gap(0.5, "capped").sum(), record.returns[-last:].mean()) for record in records
                )


def test_a_study_may_be_of_other_objectives_than_quantiles(tmp_path):
    text = SMALL.replace("levels = [0.2, 0.5]", 'objectives = ["cvar:0.2", "quantile:0.5"]')
    text = text.replace('["expected", "capped"]', '["exact", "expected"]').replace(
        'params = { planner = "greedy" }\n', ""
    )
    (tmp_path / "study.toml").write_text(text)
    study = make(tmp_path / "study.toml", tmp_path / "out", quick=True)
    mdp = study.problem()
    assert study.reference(0.2).optimum == pytest.approx(bqrl.solve(mdp, bqrl.CVaR(0.2)).value)
    assert (study.reference(0.2).margin, study.reference(0.5).optimum) == (None, bqrl.guarantee_curve(mdp)(0.5))
    experiment = study.experiments["", 0.2]
    assert experiment.objective == bqrl.CVaR(0.2)
    record = experiment.records["target"][0]
    assert record.objective == bqrl.CVaR(0.2)  # trained for it
    assert float(experiment.ends("exact")["target"][0]) == pytest.approx(record.gap(bqrl.CVaR(0.2)).sum())
    said = json.dumps(json.loads((tmp_path / "out" / "result.json").read_text()), ensure_ascii=False)
    assert "CVaR at 0.2, " in said
    assert "τ = 0.5, " in said
