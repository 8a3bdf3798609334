"""The option --objective of solve, learn, compare and fit, with one parser."""

import json

import pytest

import bqrl

FORMS = ["quantile:0.3", "cvar:0.3", "buffered:0.3,0.1", "mean", "chance:12", "entropic:0.5", "mean-cvar:0.1,0.5"]


@pytest.mark.parametrize("text", FORMS)
def test_solve_plans_for_every_written_objective(cli, text):
    code, out, err = cli("solve", "SafeOrRisky", "--objective", text, "--json")
    assert (code, err) == (0, "")
    (level,) = json.loads(out)["levels"]
    goal = {"quantile:0.3": bqrl.Quantile(0.3), "cvar:0.3": bqrl.CVaR(0.3), "buffered:0.3,0.1": bqrl.Buffered(0.3, 0.1),
            "mean": bqrl.Mean(), "chance:12": bqrl.Chance(12), "entropic:0.5": bqrl.Entropic(0.5),
            "mean-cvar:0.1,0.5": bqrl.MeanCVaR(0.1, 0.5)}[text]  # fmt: skip
    assert (level["objective"], level["value"]) == (goal.label, bqrl.solve("SafeOrRisky", goal).value)


def test_the_short_form_gives_the_same_plan(cli):
    short, written = (
        json.loads(cli("solve", "SafeOrRisky", *options, "--json")[1])["levels"]
        for options in (("--tau", 0.3, "--beta", 0.1), ("--objective", "buffered:0.3,0.1"))
    )
    assert [one | {"seconds": 0} for one in short] == [one | {"seconds": 0} for one in written]


def test_a_probability_has_no_unit(cli):
    _, out, _ = cli("solve", "SafeOrRisky", "--objective", "chance:12")
    assert "probability  upper bound  gap" in out
    assert "mean (dollars)" in out


def test_learners_run_for_an_objective(cli, tmp_path):
    run = ("SafeOrRisky", "--objective", "cvar:0.1", "--episodes", 8, "--seeds", 1)
    code, out, err = cli("learn", *run, "--out", tmp_path / "one")
    assert (code, err) == (0, "")
    assert "The CVaR at 0.1 of the final policy of PSRL is " in " ".join(out.split())
    code, out, err = cli("compare", *run, "--learner", "psrl", "--learner", "ucbvi", "--workers", 1, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["objective"], found["best"]["value"]) == ("cvar:0.1", 10.0)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("solve SafeOrRisky --objective cvarr:0.1", "--objective must be one of quantile:TAU, "),
        ("solve SafeOrRisky --objective cvar:2", "--objective 'cvar:2': tau must be a number in (0, 1], got 2"),
        (
            "solve SafeOrRisky --objective mean --tau 0.1",
            "--objective stands in place of --tau, --certainty and --beta",
        ),
        ("solve SafeOrRisky --objective mean --objective cvar:0.1", "expected plans at different levels, got "),
        (
            "learn SafeOrRisky --objective chance:12",
            "--objective must be one of Quantile, Buffered, Mean for the learner psrl",
        ),
        ("learn SafeOrRisky --objective mean --objective cvar:0.1", "--objective must be given once, got 2 values"),
    ],
)
def test_bad_objectives_get_one_line(cli, command, message):
    code, out, err = cli(*command.split())
    assert (code, out) == (2, "")
    assert err.startswith(f"bqrl: {message}")
    assert err.count("\n") == 1
