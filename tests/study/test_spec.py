import tomllib

import pytest
from small_study import RUNS, SMALL

import bqrl
from bqrl.papers import paper_file
from bqrl.study.settings import read_settings, settings_of
from bqrl.study.spec import Spec


def spec_of(tables, **options):
    return settings_of(tables, Spec, **options)


def changed(old, new):
    assert old in SMALL
    return tomllib.loads(SMALL.replace(old, new))


# What is wrong with a study in which one line is replaced: line, replacement, message.
MISTAKES = {
    "episodes = 60": {
        "episode = 60": r"study.episode is not a setting; did you mean 'episodes'\?",
        "episodes = 0": r"study.episodes: Input should be greater than or equal to 1, got 0",
        "episodes = 1.5": r"study.episodes: Input should be a valid integer, got 1.5",
        "episodes = true": r"study.episodes: Input should be a valid integer, got True",
        "": r"study.episodes is missing",
        'episodes = 60\nunit = "a\\u0007"': r"study.unit: must be one line of text without control characters, got",
        'episodes = 60\ntitle = "a\\nb"': r"study.title: must be one line of text without control characters, got",
    },
    "levels = [0.2, 0.5]": {
        "levels = [0.2, 1.5]": r"study.levels\[1\]: Input should be less than 1, got 1.5",
        'levels = ["a", 0.2]': r"study.levels\[0\]: Input should be a valid number, got 'a'$",
        "levels = []": "study: expected levels or objectives, got neither",
        'levels = [0.2, 0.5]\nobjectives = ["cvar:0.2"]': "study: expected levels or objectives, got both",
        'objectives = ["mean", "cvar:0.5"]': "study: objectives: each must have a level, which names its tables, got mean",
        'objectives = ["cvar:0.5", "quantile:0.5"]': "study: entries must differ, got 0.5, 0.5",
        'objectives = ["cvar:2", "cvar:0.5"]': "study: objective 'cvar:2': tau must be a number in",
        'objectives = ["cvar:0.2", "cvar:0.5"]': "study: plot: the capped reference exists for quantiles only",
        "levels = [0.2, 0.2]": r"study.levels: entries must differ, got 0.2, 0.2",
    },
    'plot = ["expected", "capped"]': {
        'plot = ["expected"]': "plot must name one measure per level, got 1 for 2",
        'plot = ["expect", "capped"]': "plot.0.: Input should be 'capped', 'exact' or 'exp",
    },
    "[tuning]": {"[tunning]": r"tunning is not a setting; did you mean 'tuning'"},
    'learner = "q-learning"': {
        'learner = "qlearning"': "got 'qlearning'; did you mean 'q-learning'",
        'learner = "q-learning"\nlabels = "Q"': r"learners.eps_q.labels .* mean 'label'",
        'learner = "q-learning"\nlabel = "a\\nb"': r"learners.eps_q.label: must be one line of text",
        # Of two learners with the same label one was missing in all sentences and charts.
        'learner = "q-learning"\nlabel = "UCB-BQRL"': r"learners: entries must differ, got UCB-BQRL, UCB-BQRL, target",
    },
    'planner = "greedy"': {
        'planer = "greedy"': r"learners.ucb_bqrl: .*'planer'; did you mean 'planner'",
        'planner = "gready"': r"learners.ucb_bqrl: planner must be one of",
    },
    "grid = [1e-2, 1.0]": {
        "grid = [1e-2, 2.0]": r"learners.eps_q: learning_rate must .* got 2",
        "grid = [1.0]": r"learners.eps_q.grid",
        "grid = [1.0, 1e-2]": r"learners.eps_q: grid must be \[lowest, highest\]",
    },
    "rungs = [[4, 30], [2, 60]]": {"rungs = [[3, 30]]": r"rungs must begin with all 4 points and never grow, got \[3\]"},
    "replication_seeds = [3, 4, 5]": {"replication_seeds = [3, 1]": "replication_seeds must not repeat study.seeds, got 1"},
    "seeds = [10, 11]": {
        "seeds = [10, 2]": r"tuning.seeds must not repeat study.seeds, got 2",
        "seeds = [10, 10]": r"tuning.seeds: entries must differ, got 10, 10",
    },
    "seeds = [1, 2]": {"seeds = [1]": r"study.seeds: Value should have at least 2 items after validation, not 1, got \[1\]"},
    'name = "AssetSelling"': {'name = "AssetSeling"': "'AssetSeling'; did you mean 'AssetSelling'"},
    "offers = 6": {"ofers = 6": "expected a parameter of AssetSelling, got 'ofers'; did you mean 'offers'"},
    'distribution = "geometric"': {'distribution = "geometrical"': "variants.geometric: distribution must be one of"},
    'leave_out = ["sold"]': {
        'leave = ["sold"]': r"final_policy.leave is not a setting",
        'leave_out = ["solt"]': r"final_policy.leave_out must be one of .*got 'solt'",
        # This and a long key once failed after all runs.
        'leave_out = ["0", "1", "2", "3", "4", "5", "sold"]': r"leave_out must leave some state, got all of them",
    },
    'learner = "ucb_bqrl"\nleave': {'learner = "ucb_bql"\nleave': "did you mean 'ucb_bqrl'"},
    "[learners.target]": {
        '[learners."a/b"]': r"learners.a/b: String should match pattern .*, got 'a/b'",
        f"[learners.{'k' * 61}]": r"learners.k+: String should match pattern",
        "[learners.EPS_Q]": r"learners: names must differ in more than case, got .*eps_q.*EPS_Q",
        '[learners.target]\nkey = "x"': r"learners.target.key",
    },
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, news in MISTAKES.items() for new in news])
def test_a_mistake_is_named_in_one_line(old, new):
    with pytest.raises((ValueError, TypeError), match=MISTAKES[old][new]) as error:
        spec_of(changed(old, new))
    assert "\n" not in str(error.value)


def test_a_variant_of_a_file_cannot_have_parameters_that_a_file_does_not_have(tmp_path):
    bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2).save(tmp_path / "sale.npz")
    tables = changed("episodes = 60", "episodes = 60")
    tables["problem"] = {"file": str(tmp_path / "sale.npz")}
    tables["variants"] = {"longer": {"horizn": 6}}
    with pytest.raises(ValueError, match=r"variants.longer: horizn is not a setting; did you mean 'horizon'"):
        spec_of(tables)


def test_an_empty_title_and_an_empty_label_are_the_defaults():
    tables = tomllib.loads(SMALL)
    key = next(iter(tables["learners"]))
    tables["study"]["title"] = tables["learners"][key]["label"] = ""
    spec = spec_of(tables)
    assert (spec.study.title, spec.learners[key].label) == ("", key)


def test_all_mistakes_are_listed_with_their_values():
    tables = changed("episodes = 60", "episodes = -3")
    tables["tuning"]["points"] = "many"
    tables["learners"]["eps_q"]["plot"] = 7
    with pytest.raises(ValueError, match="episodes") as error:
        spec_of(tables)
    for part in (
        "study.episodes: Input should be greater than or equal to 1, got -3",
        "tuning.points: Input should be a valid integer, got 'many'",
        "learners.eps_q.plot: Input should be a valid boolean, got 7",
    ):
        assert part in str(error.value)


def test_the_mistakes_of_all_learners_are_listed():
    tables = changed("episodes = 60", "episodes = 60")
    tables["learners"]["eps_q"]["params"] = {"epsilom": 1}
    tables["learners"]["ucb_bqrl"]["params"] = {"planner": 3}
    with pytest.raises(ValueError, match=r"learners\.ucb_bqrl: planner must .*learners\.eps_q: .*'epsilom'"):
        spec_of(tables)


def leaves(table, path=()):
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))


@pytest.mark.parametrize("odd", [0, -1, 1.5, "odd", True, [], [[]], {}, {"odd": 1}, float("nan")], ids=repr)
def test_no_value_of_a_wrong_kind_breaks_anything(odd):
    messages = []
    for path in list(leaves(tomllib.loads(SMALL))):
        tables = tomllib.loads(SMALL)
        *way, last = path
        place = tables
        for key in way:
            place = place[key]
        place[last] = odd
        for quick in (False, True):
            try:
                spec_of(tables, quick=quick)
            except (ValueError, TypeError) as error:
                messages.append(str(error))
    assert messages
    assert not any("\n" in message for message in messages)


def test_a_study_counts_its_runs_beforehand(study_file):
    spec = read_settings(study_file, Spec)
    loads = [spec.workload(entry) for entry in spec.learners.values() for _ in spec.training_levels(entry)]
    assert sum(runs for runs, _ in loads) == RUNS
    assert spec.workload(spec.learners["eps_q"]) == (12 + 7, 2 * (4 * 30 + 2 * 60) + 7 * 60)
    assert spec.workload(spec.learners["target"]) == (7, 420)


def test_the_paper_study_is_its_protocol():
    spec = read_settings(paper_file("study.toml"), Spec)
    assert (spec.episodes, spec.study.delta, spec.levels) == (2000, 0.05, (0.1, 0.5, 0.9))
    assert spec.study.seeds == (42, 10042, 20042)
    assert len(spec.study.replication_seeds) == 20
    assert spec.tuning.rungs == ((16, 1000), (8, 2000), (4, 4000), (2, 8000))
    assert (spec.tuning.points, spec.tuning.seeds, spec.tuning.level) == (16, (1000, 1001, 1002), 0.5)
    names = ["ucb_bqrl", "ucbvi", "eps_q", "sarsa", "thompson", "ppo", "trpo"]
    assert [entry.key for entry in spec.learners.values() if entry.plot] == names
    assert [entry.key for entry in spec.learners.values() if entry.per_level] == ["ucb_bqrl", "ucb_bqrl_target"]
    assert spec.learners["ucb_bqrl_target"].grid is None
    tuned = sum(
        spec.workload(entry)[1] - 43 * 2000 for entry in spec.learners.values() for _ in spec.training_levels(entry)
    )
    assert tuned == 9 * 3 * 64_000
