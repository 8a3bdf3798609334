"""Tables of counts: radii, promises, declarations and messages."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import multinomial

import bqrl
from bqrl import fit_counts
from bqrl.display import format_number
from bqrl.errors import FileFormatError

TRIAL = {
    "state": ["Well", "Well", "Well", "Well", "Sick", "Sick"],
    "action": ["treat", "treat", "wait", "wait", "treat", "treat"],
    "next_state": ["Well", "Dead", "Well", "Sick", "Well", "Dead"],
    "count": [980, 20, 500, 50, 30, 20],
}
WORTH = {"Well": 1.0, "Sick": 0.5}


def test_the_model_has_the_frequencies_and_the_rewards():
    estimate = fit_counts(TRIAL, WORTH, horizon=3, absorbing=["Dead"])
    rows = [tuple(row.values()) for row in estimate.mdp.rows() if row["state"] != "Dead"]
    assert rows == [
        ("Well", "treat", "Well", 0.98, 1.0), ("Well", "treat", "Dead", 0.02, 1.0),
        ("Well", "wait", "Well", pytest.approx(500 / 550), 1.0), ("Well", "wait", "Sick", pytest.approx(50 / 550), 1.0),
        ("Sick", "treat", "Well", 0.6, 0.5), ("Sick", "treat", "Dead", 0.4, 0.5),
    ]  # fmt: skip
    assert estimate.steps == 1600
    assert estimate.radii[0, 2].tolist() == [0.0, 0.0]  # Dead
    assert (str(estimate).splitlines()[0], estimate.projection(0.2)[0]["transitions"]) == (
        "Estimate from 1600 transitions, horizon 3", 3200,
    )  # fmt: skip


def test_three_rows_share_the_error_probability():
    estimate = fit_counts(TRIAL, WORTH, horizon=3, absorbing=["Dead"], confidence=0.94)
    alone = {key: column[:2] for key, column in TRIAL.items()}
    single = fit_counts(alone, WORTH, horizon=3, absorbing=["Dead"], confidence=0.98)
    assert estimate.radii[0, 0, 0] == pytest.approx(single.radii[0, 0, 0], rel=1e-12)


def test_the_exact_coverage_with_three_successors_is_at_least_the_confidence():
    """Summed over all samples of 9 draws: the truth lies in the ball with at least the stated confidence."""
    n, confidence, truth = 9, 0.6, np.array([0.6, 0.3, 0.1])
    covered = 0.0
    for x in product(range(n + 1), repeat=2):
        if sum(x) <= n:
            counts = [*x, n - sum(x)]
            table = {"state": ["s"] * 3, "action": ["a"] * 3, "next_state": ["s", "t", "u"], "count": counts}
            estimate = fit_counts(table, {"s": 0.0}, horizon=1, confidence=confidence, absorbing=["t", "u"])
            inside = np.abs(np.array(counts) / n - truth).sum() <= estimate.radii[0, 0, 0] + 1e-12
            covered += multinomial.pmf(counts, n, truth) * inside
    assert confidence <= covered < 1.0


def test_promises_hold_as_often_as_stated():
    """At a low confidence, so that many promises would break if radii were too small; some promise all that is true."""
    rng, confidence, broken, reached = np.random.default_rng(1), 0.5, 0, 0
    truth = {
        ("Well", "treat"): [0.8, 0.15, 0.05],
        ("Well", "wait"): [0.7, 0.3, 0.0],
        ("Sick", "treat"): [0.4, 0.4, 0.2],
    }
    names = ["Well", "Sick", "Dead"]
    rows = [(s, a, t, p, WORTH[s]) for (s, a), law in truth.items() for t, p in zip(names, law, strict=True)]
    rows += [("Dead", a, "Dead", 1.0, 0.0) for a in ("treat", "wait")]
    keys = ("state", "action", "next_state", "probability", "reward")
    mdp = bqrl.MDP(dict(zip(keys, zip(*rows, strict=True), strict=True)), horizon=3)
    for _ in range(60):
        counts = np.concatenate([rng.multinomial(3000, law) for law in truth.values()])
        table = {"state": [s for s, _ in truth for _ in names], "action": [a for _, a in truth for _ in names]}
        table |= {"next_state": names * 3, "count": counts}
        estimate = fit_counts(table, WORTH, horizon=3, confidence=confidence, absorbing=["Dead"])
        plan = estimate.solve(tau=0.2)
        act = {name: i for i, name in enumerate(estimate.mdp.action_names)}
        order = [act[name] for name in mdp.action_names]
        assert [estimate.mdp.state_names, order] == [mdp.state_names, [0, 1]]
        true = bqrl.evaluate(mdp, plan.policy, rewards="this model").quantile(0.2)
        broken += plan.value > true + 1e-9
        reached += plan.value == pytest.approx(true)
    assert broken <= 60 * (1 - confidence)
    assert reached > 0


def test_a_count_of_zero_and_support_states_allow_more_successors():
    certain = {"state": ["a"], "action": ["x"], "next_state": ["a"], "count": [50], "reward": [1.0]}
    assert fit_counts(certain, horizon=2).solve(tau=0.1).value == 2.0
    possible = {
        key: [*column, value] for (key, column), value in zip(certain.items(), ["a", "x", "b", 0, 0.0], strict=True)
    }
    assert fit_counts(possible, horizon=2, absorbing=["b"]).radii[0, 0, 0] == pytest.approx(2 * (1 - 0.025 ** (1 / 50)))
    every = fit_counts(TRIAL, WORTH, horizon=3, absorbing=["Dead"], support="states")
    assert every.balls.outcomes[0, 0].tolist() == [3, 3]
    assert "no state is possible that is not listed" in every.assumptions


def test_support_that_lowers_the_promise_of_a_table_is_noted():
    every, listed = (
        fit_counts(TRIAL, WORTH, horizon=10, absorbing=["Dead"], support=support) for support in ("states", "listed")
    )
    for goal in (bqrl.Quantile(0.2), bqrl.Mean()):
        low, high = every.solve(goal), listed.solve(goal)
        assert low.value < high.value
        (note,) = (text for text in low.remarks if "the declaration support lowers the promise" in text)
        assert (
            f"{format_number(high.value, direction=-1)} without it; it allows more outcomes than the data show" in note
        )
        assert not any("lowers the promise" in text for text in high.remarks)
        assert every.gains(goal)[0]["without"] == high.value


def test_lines_of_one_transition_add_up_and_rewards_may_be_random():
    table = {"state": ["a"] * 3, "action": ["x"] * 3, "next_state": ["a"] * 3, "count": [1, 2, 5], "reward": [1, 1, 0]}
    estimate = fit_counts(table, horizon=1)
    assert sorted(zip(estimate.mdp.reward[0].tolist(), estimate.mdp.probability.tolist(), strict=True)) == [
        (0.0, 5 / 8), (1.0, 3 / 8),
    ]  # fmt: skip


def test_rewards_come_as_dicts_functions_tables_and_files(tmp_path):
    path = tmp_path / "rewards.csv"
    path.write_text("state,action,reward\nWell,treat,1\nWell,wait,1\nSick,treat,0.5\n")
    forms = [
        WORTH, {("Well", "treat"): 1, ("Well", "wait"): 1, "Sick": 0.5}, lambda s, a, t: WORTH[s], path,
        {(s, a, t): WORTH[s] for s, a, t in zip(TRIAL["state"], TRIAL["action"], TRIAL["next_state"], strict=True)},
    ]  # fmt: skip
    found = {fit_counts(TRIAL, form, horizon=3, absorbing=["Dead"]).solve(tau=0.3).value for form in forms}
    assert len(found) == 1


def test_known_rows_have_radius_0():
    known = [("Dead", "treat", "Dead", 1.0, 0.0)]
    estimate = fit_counts(TRIAL, WORTH, horizon=3, known=known)
    assert estimate.radii[0, 2, 0] == 0.0
    assert "the known rows are right" in estimate.assumptions


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"absorbing": []}, "absorbing must name 'Dead' if it is never left, because the table has no counts"),
        (
            {"next_state": ["Well", "Dead", "Well", "Sikc", "Well", "Dead"]},
            {"absorbing": ["Dead"]},
            "name 'Sikc' if it is never left, .* got Dead; or add its counts; did you mean 'Sick'",
        ),
        ({}, {"absorbing": "Dead"}, "absorbing must be a list of states"),
        ({}, {"absorbing": ["Daed"]}, "absorbing must name states of the table, got 'Daed'; did you mean 'Dead'"),
        (
            {},
            {"absorbing": ["Dead", "Sick"]},
            "row 4, column 'state': expected no counts that leave an absorbing state",
        ),
        (
            {"action": ["", *TRIAL["action"][1:]]},
            {},
            "got an empty cell; if the state 'Well' is never left, declare it",
        ),
        ({"count": [1.5] * 6}, {}, "row 0, column 'count': expected a count, a whole number of at least 0, got 1.5"),
        ({"count": [0] * 6}, {}, "expected counts, got only zeros"),
        ({"state": ["", *TRIAL["state"][1:]]}, {}, "row 0, column 'state': expected the state, got an empty cell"),
        ({}, {"rewards": None}, "rewards must give the reward of"),
        ({}, {"rewards": {"Well": 1}}, r"rewards must give the reward of \('Sick', 'treat', '\w+'\), got none"),
        ({}, {"rewards": 3}, "rewards must be a dict, a function or a table, got int"),
        ({"reward": [1] * 6}, {}, "rewards must not be given for a table with a column reward"),
        ({}, {"known": [("Sick", "treat", "Dead", 1.0, 0.0)]}, "known must list rows without counts"),
        ({}, {"known": [("Sick", "treat")]}, "known must hold tuples"),
        ({}, {"support": "all"}, "support must be one of 'listed', 'states'"),
        ({}, {"start": "Healthy"}, "start must name states of the table, got 'Healthy'"),
        ({}, {"horizon": 0}, "horizon must be"),
    ],
)
def test_bad_arguments_are_one_line(change, options, words):
    asked = {"rewards": WORTH, "horizon": 3, "absorbing": ["Dead"]} | options
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        fit_counts(TRIAL | change, **asked)
    assert "\n" not in str(caught.value)


def test_a_file_names_its_line(tmp_path):
    path = tmp_path / "trial.csv"
    path.write_text("state,action,next_state,n\na,x,a,5\na,x,b,-1\n")
    with pytest.raises(FileFormatError, match=r"trial.csv: line 3, column 'n': expected a count"):
        fit_counts(path, {"a": 1}, horizon=2, absorbing=["b"])


def test_a_saved_estimate_makes_the_same_promise(tmp_path):
    estimate = fit_counts(TRIAL, WORTH, horizon=6, absorbing=["Dead"])
    bqrl.save(estimate, tmp_path / "estimate.npz")
    again = bqrl.load(tmp_path / "estimate.npz")
    assert again.solve(tau=0.2).value == estimate.solve(tau=0.2).value
    assert np.array_equal(again.radii, estimate.radii)
    with pytest.raises(ValueError, match="expected logged episodes, got a table of counts"):
        again.logged(0.1)


def test_a_rule_need_not_name_an_absorbing_state():
    """Every action was offered there, so that a dict of the other states was refused."""
    trial = {
        "state": ["Well"] * 4,
        "action": ["a", "a", "b", "b"],
        "next_state": ["Well", "Dead"] * 2,
        "count": [9, 1, 8, 2],
    }
    estimate = fit_counts(trial, {"Well": 1.0}, horizon=2, absorbing=["Dead"])
    assert bqrl.evaluate(estimate.mdp, {"Well": "b"}).mean() == pytest.approx(1.8)
    assert estimate.coverage()["rows"] == 2


@pytest.mark.parametrize(
    ("given", "hint"), [("Usual cre", "Usual cre"), ("Usual  care", "other spaces"), ("Drug", None)]
)
def test_a_reward_of_a_misspelt_action_is_named(given, hint):
    table = {"state": ["Mild"] * 2, "action": ["Usual care"] * 2, "next_state": ["Mild", "Dead"], "count": [8, 2]}
    with pytest.raises(ValueError, match="must give the") as error:
        bqrl.fit_counts(table, {("Mild", given): 1.0}, horizon=2, absorbing=["Dead"])
    assert (hint or "got none;") in str(error.value)


def test_lines_of_absorbing_states_are_left_out():
    """Published tables list them, with an empty action, as a full row of a matrix, or with counts of those who stay."""
    more = [("Dead", "", "Dead", 0), ("Dead", "treat", "Dead", 70), ("Dead", "wait", "Well", 0), ("Dead", None, "", 3)]
    table = {key: [*TRIAL[key], *column] for key, column in zip(TRIAL, zip(*more, strict=True), strict=True)}
    asked = {"rewards": WORTH, "horizon": 3, "absorbing": ["Dead"]}
    plain, found = fit_counts(TRIAL, **asked), fit_counts(table, **asked)
    assert (found.mdp.action_names, found.mdp.state_names) == (plain.mdp.action_names, plain.mdp.state_names)
    assert np.array_equal(found.radii, plain.radii)
    assert found.solve(tau=0.2).value == plain.solve(tau=0.2).value
    first = {key: [*column[-4:], *column[:-4]] for key, column in table.items()}  # as in an alphabetical table
    assert "every episode starts in state 'Well'" in fit_counts(first, **asked).assumptions
    paid = table | {"reward": [1.0] * 6 + [0.0, 0.0, np.nan, 2.0]}
    with pytest.raises(ValueError, match="row 9, column 'reward': expected the reward 0 in an absorbing state, got 2"):
        fit_counts(paid, horizon=3, absorbing=["Dead"])
