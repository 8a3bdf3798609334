import json

import numpy as np
import pytest
from helpers import Corridor

import bqrl
from bqrl import Record, learn
from bqrl.errors import FileFormatError
from bqrl.learners.record import DistinctLaws
from bqrl.learners.run import Run
from bqrl.mdp.files import read_arrays, write_arrays
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.frontier import plan_capped

MODEL = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2, distribution="geometric")
KEYS = ("returns", "law_of", "points", "pmf")


@pytest.fixture(scope="module")
def record():
    return learn(MODEL, "ucbvi", 0.3, 60, 7)


# -- the measures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["ucb-bqrl", "thompson", "q-learning"])
def test_laws_are_those_of_the_policies_in_force_before_each_update(learner):
    run, laws = Run(MODEL, learner, 0.3, 25, 1), []
    observe = run.learner.observe

    def watched(episode):
        policy = run.learner.evaluated()
        laws.append(bqrl.evaluate(MODEL, run._policy if policy is None else policy))
        observe(episode)

    run.learner.observe = watched
    while run.t < run.total:
        run.step()
    found = run.record().laws
    assert len(found) == 25
    assert all(a.equals(b) for a, b in zip(found, laws, strict=True))


def test_equal_laws_are_one_object(record):
    laws = record.laws
    assert len({id(law) for law in laws}) == len(record.pmf) < len(laws)
    assert [laws.index(law) for law in laws] == [record.law_of.tolist().index(i) for i in record.law_of]
    assert np.array_equal(np.unique(record.law_of), np.arange(len(record.pmf)))
    assert len({row.tobytes() for row in record.pmf}) == len(record.pmf)


@pytest.mark.parametrize("tau", [0.05, 0.3, 0.5, 0.9])
def test_gap_against_the_exact_optimum(record, tau):
    wanted = bqrl.solve(MODEL, tau).value - np.array([law.quantile(tau) for law in record.laws])
    np.testing.assert_allclose(record.gap(tau), wanted, atol=1e-12)
    assert record.gap(tau).min() >= -1e-12
    np.testing.assert_allclose(record.quantile(tau), [law.quantile(tau) for law in record.laws])


def test_the_gap_is_at_the_run_s_own_level_unless_told(record):
    assert record.tau == 0.3
    assert np.array_equal(record.gap(), record.gap(0.3))


@pytest.mark.parametrize("tau", [0.3, 0.5])
def test_gap_against_the_capped_reference_and_a_number_is_cut_at_zero(record, tau):
    values = record.quantile(tau)
    np.testing.assert_array_equal(record.gap(tau, "capped"), np.maximum(plan_capped(MODEL, tau).value - values, 0.0))
    middle = float(np.median(values))
    found = record.gap(tau, middle)
    np.testing.assert_array_equal(found, np.maximum(middle - values, 0.0))
    assert found.min() == 0.0


def test_expected_regret(record):
    best = bqrl.solve(MODEL, 0.5, planner="expected").law.mean()
    np.testing.assert_allclose(record.expected_regret(), best - np.array([law.mean() for law in record.laws]))
    assert record.expected_regret().min() >= -1e-12
    assert record.expected_regret()[-1] < record.expected_regret()[0]  # it learns


@pytest.mark.parametrize(("tau", "beta"), [(0.3, 0.1), (0.5, 0.5)])
def test_buffered_error(record, tau, beta):
    upper = plan_buffered(MODEL, tau, beta).upper
    wanted = upper - np.array([law.buffered_quantile(tau, beta) for law in record.laws])
    np.testing.assert_allclose(record.buffered_error(tau, beta), wanted, atol=1e-12)
    assert record.buffered_error(tau, beta).min() >= -1e-12


def test_returns_are_those_of_the_episodes():
    run = Run(MODEL, "sarsa", 0.3, 20, 3)
    played, play = [], run.world.play
    run.world.play = lambda *given: played.append(play(*given)) or played[-1]
    while run.t < run.total:
        run.step()
    assert run.record().returns.tolist() == [float(episode.rewards.sum()) for episode in played]


def test_notes_have_one_entry_an_episode():
    target = learn(MODEL, "ucb-bqrl", 0.3, 20, 1)
    assert {"beta", "optimistic", "bound"} <= set(target.notes)
    assert all(values.shape == (20,) for values in target.notes.values())
    assert np.all(np.diff(target.notes["beta"]) <= 0.0)
    assert target.notes["beta"][0] == pytest.approx(0.3)
    greedy = learn(MODEL, "ucb-bqrl", 0.3, 20, 1, planner="greedy")
    assert set(greedy.notes["candidate"]) <= set(range(6))
    assert learn(MODEL, "sarsa", 0.3, 5, 1).notes == {}


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("learner", "params"),
    [("ucb-bqrl", {}), ("ucb-bqrl", {"planner": "greedy"}), ("ucb-bqrl", {"planner": "frontier"}), ("ppo", {})],
    ids=["target", "greedy", "frontier", "ppo"],
)
def test_a_record_comes_back_from_its_file(tmp_path, learner, params):
    model = bqrl.envs.make("AssetSelling", offers=3, horizon=3, start=1)
    record, path = learn(model, learner, 0.3, 20, 5, **params), tmp_path / "record.npz"
    record.save(path)
    with np.load(path, allow_pickle=False) as stored:  # refuses anything that would need pickle
        assert all(stored[name].dtype != object for name in stored.files)
    back = Record.load(path)
    assert back.settings == record.settings
    for key in KEYS:
        assert np.array_equal(getattr(back, key), getattr(record, key))
        assert getattr(back, key).dtype == getattr(record, key).dtype
    assert set(back.notes) == set(record.notes)
    assert all(np.array_equal(back.notes[name], record.notes[name]) for name in record.notes)
    assert back.final_policy.kind == record.final_policy.kind
    assert bqrl.evaluate(model, back.final_policy).equals(bqrl.evaluate(model, record.final_policy))
    for tau in (0.1, 0.3, 0.8):
        assert np.array_equal(back.gap(tau), record.gap(tau))
    assert np.array_equal(back.expected_regret(), record.expected_regret())
    assert back.tau == 0.3
    assert repr(back) == repr(record)

    again = tmp_path / "again.npz"
    back.save(again)
    assert again.read_bytes() == path.read_bytes()


def test_a_loaded_record_asks_for_the_problem_where_it_needs_it(record, tmp_path):
    record.save(tmp_path / "record.npz")
    back = Record.load(tmp_path / "record.npz")
    for measure in (lambda: back.gap(0.3, "capped"), lambda: back.buffered_error(0.3, 0.1)):
        with pytest.raises(ValueError, match=r"^[^\n]*got record\.mdp = None; set record\.mdp after loading a record$"):
            measure()
    back.mdp = MODEL
    assert np.array_equal(back.gap(0.3, "capped"), record.gap(0.3, "capped"))
    assert np.array_equal(back.buffered_error(0.3, 0.1), record.buffered_error(0.3, 0.1))


NEEDED = ("settings", "returns", "law_of", "points", "pmf", "optimum_points", "optimum_shortfall", "final_actions")


@pytest.mark.parametrize("missing", NEEDED)
def test_a_record_that_lacks_something_is_one_line(record, tmp_path, missing):
    arrays = record.arrays()
    del arrays[missing]
    write_arrays(tmp_path / "record.npz", arrays)
    with pytest.raises(
        FileFormatError, match=r"^record\.npz: expected a record, got damaged arrays: [^\n]*$"
    ) as caught:
        Record.load(tmp_path / "record.npz")
    assert caught.value.column == missing.removeprefix("final_")


@pytest.mark.parametrize("name", ["optimum_points", "optimum_shortfall"])
def test_an_optimum_of_another_shape_is_a_damaged_record(record, name):
    for wrong in (record.arrays()[name][:-1], record.arrays()[name][None], np.empty(0)):
        with pytest.raises(ValueError, match="'optimum_shortfall' must have one entry per point, got"):
            Record.from_arrays(record.arrays() | {name: wrong})


@pytest.mark.parametrize("text", ["", "{", "no", "\0"])
def test_settings_that_are_no_json_are_one_line(record, tmp_path, text):
    write_arrays(tmp_path / "record.npz", record.arrays() | {"settings": np.array(text)})
    with pytest.raises(ValueError, match=r"^record\.npz: expected a record, got damaged arrays: [^\n]*$"):
        Record.load(tmp_path / "record.npz")


def test_files_that_hold_no_record_are_one_line(record, tmp_path):
    record.save(tmp_path / "record.npz")
    whole = (tmp_path / "record.npz").read_bytes()
    for content in (b"", b"nonsense", whole[:100], whole[:-30]):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"^bad\.npz: [^\n]*$"):
            Record.load(tmp_path / "bad.npz")
    write_arrays(tmp_path / "other.npz", {"x": np.zeros(3)})
    with pytest.raises(ValueError, match=r"^other\.npz: expected a record of a run, got other arrays"):
        Record.load(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError, match=r"^there is no file [^\n]*$"):
        Record.load(tmp_path / "nowhere.npz")
    with pytest.raises(ValueError, match=r"^path must end in \.npz, got 'record\.txt'$"):
        record.save(tmp_path / "record.txt")


def test_fault_2_arrays_of_a_record_are_read_only(record, tmp_path):
    record.save(tmp_path / "record.npz")
    for one in (record, Record.load(tmp_path / "record.npz")):
        arrays = [one.returns, one.law_of, one.points, one.pmf, one.optimum.points, one.optimum.shortfall]
        for array in (*arrays, *one.notes.values(), one.laws[0].values, one.laws[0].probabilities):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
        before = one.gap(0.3)
        one.gap(0.3)[:] = 7.0
        assert np.array_equal(one.gap(0.3), before)


def test_settings_say_everything_that_fixes_the_run(record, tmp_path):
    record.save(tmp_path / "record.npz")
    stored = json.loads(str(read_arrays(tmp_path / "record.npz")["settings"]))
    assert stored == record.settings
    assert stored["learner"] == "ucbvi"
    assert (stored["objective"], stored["episodes"], stored["seed"]) == ("quantile:0.3", 60, 7)
    again = learn(MODEL, stored["learner"], record.tau, stored["episodes"], stored["seed"], **stored["params"])
    assert np.array_equal(again.returns, record.returns)


def test_a_record_prints_in_one_line(record):
    assert repr(record).startswith("Record(learner=ucbvi, objective=quantile:0.3, seed=7, 60 episodes, mean return ")
    assert "\n" not in repr(record)


# -- environments that do not tell their kernel -----------------------------------------------------------------------


def test_without_a_kernel_there_is_no_gap(tmp_path):
    record = learn(Corridor(), "q-learning", 0.5, 30, 2, horizon=6)
    assert record.returns.shape == (30,)
    assert record.optimum is None
    record.save(tmp_path / "record.npz")
    for one in (record, Record.load(tmp_path / "record.npz")):
        measures = (
            lambda one=one: one.gap(0.5),
            lambda one=one: one.gap(0.5, 1.0),
            lambda one=one: one.gap(0.5, "capped"),
            lambda one=one: one.quantile(0.5),
            lambda one=one: one.means(),
            lambda one=one: one.expected_regret(),
            lambda one=one: one.buffered_error(0.5, 0.1),
            lambda one=one: one.laws,
        )
        for measure in measures:
            with pytest.raises(ValueError, match="expected a record with exact laws, got one of an environment"):
                measure()
    assert np.array_equal(one.returns, record.returns)


def test_distinct_laws_are_those_of_a_dictionary_of_rows():
    rng, laws, rows = np.random.default_rng(0), DistinctLaws(), []
    for _ in range(200):
        row = np.zeros(8)
        row[rng.integers(6)] = row[rng.integers(6)] = 0.5
        rows.append(row)
    numbers, places = {}, [laws.add(row) for row in rows]
    assert places == [numbers.setdefault(row.tobytes(), len(numbers)) for row in rows]
    assert laws.add(rows[-1]) == places[-1]
    assert len(laws) == len(numbers)
    assert laws.columns().tolist() == list(range(6))
    for columns in (np.arange(8), laws.columns()):
        assert np.array_equal(laws.pmf(columns)[places], np.array(rows)[:, columns])
    assert DistinctLaws().pmf(np.arange(3)).shape == (0, 3)


class Alternating(bqrl.Learner):
    """Plays a policy that draws its actions in every second episode, and one with a memory in the others."""

    episode = 0

    def plan(self):
        self.episode += 1
        return Drawing() if self.episode % 2 else Remembering()

    def observe(self, episode):
        pass


class Drawing(bqrl.Policy):
    """Draws its actions with a coin of its own."""

    coin = np.random.default_rng(7)

    def act(self, h, s, memory):
        return int(self.coin.random() < 0.5)


class Remembering(bqrl.Policy):
    """Changes its action after two rises."""

    def start(self, u=None):
        return 0

    def act(self, h, s, memory):
        return int(memory < 2)

    def next(self, memory, h, s, action, reward, s_next):
        return min(2, memory + (s_next > s))


GOALS = [bqrl.Quantile(0.1), bqrl.Quantile(0.5), bqrl.CVaR(0.2), bqrl.Mean(), bqrl.Entropic(0.5), bqrl.Chance(0.5)]


def test_a_record_says_which_laws_were_simulated_and_how_sure_they_are(tmp_path):
    mdp = bqrl.envs.make("AssetSelling", offers=5, horizon=4, start=1)
    record = bqrl.learn(mdp, Alternating, tau=0.1, episodes=6, seed=1)
    assert record.scores == "simulated"
    assert record.sampled[record.law_of].tolist() == [True, False] * 3
    fair = np.full((mdp.S, mdp.A), 0.5)
    truth = [bqrl.evaluate(mdp, fair), bqrl.evaluate(mdp, Remembering())]
    for goal in GOALS:
        low, high = record.interval(goal, confidence=0.999)
        assert np.array_equal(low[1::2], high[1::2])
        assert high[1::2] == pytest.approx(goal(truth[1]))
        assert (low[::2] - 1e-12 <= goal(truth[0])).all()
        assert (goal(truth[0]) <= high[::2] + 1e-12).all()
        values = record.value(goal)[::2]
        assert ((low[::2] <= values + 1e-12) & (values <= high[::2] + 1e-12)).all()
        narrow = record.interval(goal, confidence=0.5)
        assert (narrow[1] - narrow[0] <= high - low + 1e-12).all()
    rows = record.rows()
    assert [row["simulated"] for row in rows] == [True, False] * 3
    assert rows[1]["value_low"] == rows[1]["value"] == rows[1]["value_high"]
    record.save(tmp_path / "r.npz")
    again = bqrl.load(tmp_path / "r.npz")
    assert np.array_equal(again.sampled, record.sampled)
    assert np.array_equal(again.interval()[0], record.interval()[0])


def test_the_interval_of_a_rounded_law_is_its_bracket():
    rng = np.random.default_rng(0)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.normal(size=(4, 2)), horizon=12, discount=0.97)
    record = bqrl.learn(mdp, "sarsa", tau=0.3, episodes=3, seed=1)
    assert record.scores == "bracket"
    low, high = record.interval()
    assert np.array_equal(low, record.value())
    assert high - low == pytest.approx(np.full(3, record.law_error))
    assert not record.sampled.any()


def test_versions_and_code_are_part_of_a_record(tmp_path):
    record = bqrl.learn("SafeOrRisky", Alternating, tau=0.1, episodes=2, seed=1)
    assert {"bqrl", "code", "python", "numpy"} <= record.settings["versions"].keys()
    assert len(record.settings["code"]) == 16
    assert "code" not in bqrl.learn("SafeOrRisky", "sarsa", tau=0.1, episodes=2, seed=1).settings
