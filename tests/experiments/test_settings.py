import tomllib

import pytest
from small_study import RUNS, SMALL

from bqrl.experiments.reproduce import paper_study
from bqrl.experiments.settings import read_spec, spec_of


def changed(old, new):
    assert old in SMALL
    return tomllib.loads(SMALL.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("episodes = 60", "episode = 60", r"\[study\] there is no key 'episode'; did you mean 'episodes'\?"),
        ("episodes = 60", "episodes = 0", "episodes must be a whole number of at least 1, got 0"),
        ("levels = [0.2, 0.5]", "levels = [0.2, 1.5]", "levels must be a number between 0 and 1, got 1.5"),
        ("levels = [0.2, 0.5]", "levels = []", r"\[study\] levels must be a list with something in it, got \[\]"),
        ('plot = ["expected", "capped"]', 'plot = ["expected"]', "plot names 1 measures for 2 levels"),
        ('plot = ["expected", "capped"]', 'plot = ["expect", "capped"]', "did you mean 'expected'"),
        ("[tuning]", "[tunning]", "there is no table 'tunning'; did you mean 'tuning'"),
        ('learner = "q-learning"', 'learner = "qlearning"', "got 'qlearning'; did you mean 'q-learning'"),
        ('learner = "q-learning"', 'learner = "q-learning"\nlabels = "Q"', r"\[learners.eps_q\] .* did you mean 'label'"),
        ('planner = "greedy"', 'planer = "greedy"', r"\[learners.ucb_bqrl\] .*'planer'; did you mean 'planner'"),
        ('planner = "greedy"', 'planner = "gready"', r"\[learners.ucb_bqrl\] planner must be one of"),
        ("grid = [1e-2, 1.0]", "grid = [1e-2, 2.0]", r"\[learners.eps_q\] learning_rate must .* got 2"),
        ("grid = [1e-2, 1.0]", "grid = [1.0]", r"\[learners.eps_q\] grid must be \[lowest, highest\], got \[1.0\]"),
        ("grid = [1e-2, 1.0]", "grid = [1.0, 1e-2]", r"\[learners.eps_q\] grid must be \[lowest, highest\]"),
        ("rungs = [[4, 30], [2, 60]]", "rungs = [[3, 30]]", r"rungs must begin with all 4 points and never grow, got \[3\]"),
        ("luck_seeds = [3, 4, 5]", "luck_seeds = [3, 1]", "seed 1 occurs in seeds and in luck_seeds"),
        ("seeds = [10, 11]", "seeds = [10, 2]", r"seed 2 occurs in seeds and in the seeds of \[tuning\]"),
        ("seeds = [1, 2]", "seeds = [1]", r"\[study\] seeds must be a list of at least 2 seeds, got \[1\]"),
        ('name = "AssetSelling"', 'name = "AssetSeling"', "'AssetSeling'; did you mean 'AssetSelling'"),
        ("offers = 6", "ofers = 6", "AssetSelling has no parameter 'ofers'; did you mean 'offers'"),
        ('distribution = "geometric"', 'distribution = "geometrical"', "distribution must be one of"),
        ('leave_out = ["sold"]', 'leave = ["sold"]', r"\[final_policy\] there is no key 'leave'"),
        ('learner = "eps_q"\nvalue', 'learner = "eps"\nvalue', "there is no learner 'eps'; did you mean 'eps_q'"),
        ("[learners.target]", '[learners."a/b"]', "the key names columns and files"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_in_one_line(old, new, message):
    with pytest.raises((ValueError, TypeError), match=message) as fault:
        spec_of(changed(old, new))
    assert "\n" not in str(fault.value)


def leaves(table, path=()):
    for key, value in table.items() if isinstance(table, dict) else enumerate(table):
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from leaves(value, (*path, key))


@pytest.mark.parametrize("odd", [0, -1, 1.5, "odd", True, [], [[]], {}, {"odd": 1}], ids=repr)
def test_no_value_of_a_wrong_kind_breaks_anything(odd):
    told = []
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
            except (ValueError, TypeError) as fault:
                told.append(str(fault))
    assert told
    assert not any("\n" in message for message in told)


def test_the_file_is_named_and_must_be_toml(tmp_path):
    path = tmp_path / "odd.toml"
    with pytest.raises(FileNotFoundError, match=r"there is no study file .*odd\.toml"):
        read_spec(path)
    path.write_text("[study\n")
    with pytest.raises(ValueError, match=r"^odd\.toml: "):
        read_spec(path)


def test_a_study_counts_its_runs_beforehand(study_file):
    spec = read_spec(study_file)
    loads = [spec.workload(entry) for entry in spec.learners for _ in spec.training_levels(entry)]
    assert sum(runs for runs, _ in loads) == RUNS
    assert spec.workload(spec.entry("eps_q")) == (12 + 7, 2 * (4 * 30 + 2 * 60) + 7 * 60)
    assert spec.workload(spec.entry("target")) == (7, 420)


def test_quick_replaces_settings_and_says_so(study_file):
    spec, quick = read_spec(study_file), read_spec(study_file, quick=True)
    assert (spec.quick, spec.episodes) == (False, 60)
    assert (quick.quick, quick.episodes) == (True, 20)
    assert quick.tuning.rungs == ((2, 10), (1, 20))
    assert quick.seeds == spec.seeds


def test_the_paper_study_is_its_protocol():
    spec = read_spec(paper_study())
    assert (spec.episodes, spec.delta, spec.levels) == (2000, 0.05, (0.1, 0.5, 0.9))
    assert spec.seeds == (42, 10042, 20042)
    assert len(spec.luck_seeds) == 20
    assert spec.tuning.rungs == ((16, 1000), (8, 2000), (4, 4000), (2, 8000))
    assert (spec.tuning.points, spec.tuning.seeds, spec.tuning.level) == (16, (1000, 1001, 1002), 0.5)
    names = ["ucb_bqrl", "ucbvi", "eps_q", "sarsa", "thompson", "ppo", "trpo"]
    assert [entry.key for entry in spec.learners if entry.plot] == names
    assert [entry.key for entry in spec.learners if entry.per_level] == ["ucb_bqrl", "ucb_bqrl_target"]
    assert spec.entry("ucb_bqrl_target").grid is None
    tuned = sum(spec.workload(entry)[1] - 43 * 2000 for entry in spec.learners for _ in spec.training_levels(entry))
    assert tuned == 9 * 3 * 64_000
    assert len(spec.printed) == 12


def test_a_model_file_counts_by_its_content(tmp_path):
    from bqrl.envs import make
    from bqrl.mdp.files import save

    save(make("AssetSelling", offers=4, horizon=3, start=1), tmp_path / "four.npz")
    table = changed('name = "AssetSelling"\noffers = 6\nhorizon = 4\nstart = 2', 'file = "four.npz"')
    table["variants"] = {}
    spec = spec_of(table, tmp_path)
    assert spec.problem.build().S == 5
    name = spec.run(spec.learners[0], 0.5, 1).name
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/four.npz").write_bytes((tmp_path / "four.npz").read_bytes())
    assert spec_of(table, tmp_path / "moved").run(spec.learners[0], 0.5, 1).name == name
    save(make("AssetSelling", offers=4, horizon=4, start=1), tmp_path / "four.npz")
    assert spec_of(table, tmp_path).run(spec.learners[0], 0.5, 1).name != name
