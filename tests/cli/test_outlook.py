"""`bqrl outlook`: one situation, from a level or from a saved plan."""

import json

import bqrl


def test_the_outlook_of_a_level_and_of_a_saved_plan_agree(cli, tmp_path):
    bqrl.save(bqrl.solve("SafeOrRisky", tau=0.1), tmp_path / "plan.npz")
    here = ["--stage", 4, "--state", "playing", "--earned", 5, "--json"]
    found = [
        json.loads(cli("outlook", "SafeOrRisky", *choice, *here)[1])
        for choice in (["--tau", 0.1], ["--certainty", "90%"], ["--policy", tmp_path / "plan.npz"])
    ]
    assert found[0] == found[1] == found[2]
    assert found[0]["action"] in ("Safe", "Risky")
    said = cli("outlook", "SafeOrRisky", "--tau", 0.1, *here[:-1])[1]
    assert "can still be guaranteed in 9 of 10 runs" in " ".join(said.split())


def test_what_is_missing_or_contradicts_itself_is_refused_in_one_line(cli, tmp_path):
    saved = tmp_path / "plan.npz"
    bqrl.save(bqrl.solve("SafeOrRisky", tau=0.1), saved)
    cases = {
        ("--tau", 0.1, "--stage", 4): "Missing option '--stage' or '--state'",
        ("--tau", 0.1, "--stage", 40, "--state", 0): "--stage must be a whole number from 1 to 10, got 40",
        ("--tau", 0.1, "--policy", saved, "--stage", 1, "--state", 0): "a saved plan has its own level",
        ("--policy", "always:Safe", "--stage", 1, "--state", 0): "Missing option '--tau'",
        ("--tau", 0.1, "--tau", 0.2, "--stage", 1, "--state", 0): "--tau must be given once, got 2 values",
        ("--objective", "cvar:0.1", "--stage", 1, "--state", 0): "--objective requires a saved plan for it",
        ("--tau", 0.1, "--drawn", 1, "--stage", 1, "--state", 0): "drawn requires a mixture",
    }
    for options, message in cases.items():
        code, _, err = cli("outlook", "SafeOrRisky", *options)
        assert code == 2
        assert message in err


def test_mixtures_stochastic_policies_and_rules_have_an_outlook_in_the_words_of_the_user(cli, tmp_path):
    bqrl.save(bqrl.solve("SafeOrRisky", 0.1, margin=0.0, randomized=True), tmp_path / "mixed.npz")
    bqrl.save(bqrl.StochasticPolicy([[[0.5, 0.5]]] * 10), tmp_path / "drawn.npz")
    here = ["--stage", 6, "--state", "playing", "--earned", 5]
    words = ["--stage-name", "round", "--run-name", "game", "--state-name", "mood", "--action-name", "bet"]
    code, out, _ = cli("outlook", "SafeOrRisky", "--policy", tmp_path / "mixed.npz", *here, *words)
    assert code == 0
    assert "Round 6, mood playing, earned 5 dollars: Risky." in out
    assert "in 9 of 10 games" in " ".join(out.split())
    first = cli("outlook", "SafeOrRisky", "--policy", tmp_path / "mixed.npz", *here, "--drawn", 1, "--json")[1]
    assert (
        json.loads(first)["chance"]
        > json.loads(cli("outlook", "SafeOrRisky", "--policy", tmp_path / "mixed.npz", *here, "--json")[1])["chance"]
    )
    for policy in (tmp_path / "drawn.npz", "random"):
        out = cli("outlook", "SafeOrRisky", "--policy", policy, "--tau", 0.1, *here)[1]
        assert "Safe 50 %, Risky 50 %" in out
    assert "Safe" in cli("outlook", "SafeOrRisky", "--policy", "always:Safe", "--tau", 0.1, *here)[1]
