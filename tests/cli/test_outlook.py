"""`bqrl outlook`: one situation, from a level or from a saved plan."""

import json

import bqrl


def test_the_outlook_of_a_level_and_of_a_saved_plan_agree(cli, tmp_path):
    bqrl.save(bqrl.solve("SafeOrRisky", tau=0.1), tmp_path / "plan.npz")
    here = ["--stage", 4, "--state", "playing", "--earned", 5, "--json"]
    found = [
        json.loads(cli("outlook", "SafeOrRisky", *choice, *here)[1])
        for choice in (["--tau", 0.1], ["--certainty", "90%"], ["--plan", tmp_path / "plan.npz"])
    ]
    assert found[0] == found[1] == found[2]
    assert found[0]["action"] in ("Safe", "Risky")
    said = cli("outlook", "SafeOrRisky", "--tau", 0.1, *here[:-1])[1]
    assert "can still be guaranteed in 9 of 10 runs" in " ".join(said.split())


def test_what_is_missing_or_contradicts_itself_is_refused_in_one_line(cli, tmp_path):
    cases = {
        ("--tau", 0.1, "--stage", 4): "Missing option '--stage' or '--state'",
        ("--tau", 0.1, "--stage", 40, "--state", 0): "--stage must be a whole number from 1 to 10, got 40",
        ("--tau", 0.1, "--plan", tmp_path / "x.npz", "--stage", 1, "--state", 0): "--plan and --tau exclude each other",
        ("--tau", 0.1, "--tau", 0.2, "--stage", 1, "--state", 0): "expected one --tau, got several",
    }
    for options, message in cases.items():
        code, _, err = cli("outlook", "SafeOrRisky", *options)
        assert code == 2
        assert message in err
