"""Models on the command line: columns, laws of the first state, rates, templates, and files that are none."""

import json
import os

import pytest
from helpers import one_line

import bqrl
from bqrl.cli.model import column_names, discount_of, discount_question, first_states
from bqrl.cli.template import TEMPLATES

TABLE = "from,decision,to,prob,payoff,note\nWell,wait,Well,0.5,2,x\nWell,wait,Sick,0.5,1,y\nSick,wait,Sick,1,0,z\n"


def solved(cli, *arguments):
    code, out, err = cli("solve", *arguments, "--tau", 0.4, "--json")
    assert code == 0, err
    return json.loads(out), err


def test_columns_and_a_law_of_first_states(cli, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE.replace("from", "u").replace("to,", "v,"))
    chosen = ["--columns", "state=u, next_state=v", "--horizon", 2]
    found, err = solved(cli, path, *chosen, "--start", "Well=0.5,Sick=0.5")
    assert err == "bqrl: table.csv: columns ignored: 'note'\n"
    assert found["levels"][0]["value"] == 0.0
    assert solved(cli, path, *chosen, "--start", "Well")[0]["levels"][0]["value"] == 1.0


@pytest.mark.parametrize("form", TEMPLATES)
def test_a_template_is_a_model(cli, tmp_path, form):
    code, out, _ = cli("envs", "--template", form)
    assert code == 0
    (tmp_path / f"m.{form}").write_text(out)
    mdp = bqrl.load(tmp_path / f"m.{form}")
    assert (mdp.H, mdp.S, mdp.A, mdp.units) == (12, 3, 2, "EUR")
    assert mdp.mu.tolist() == [0.9, 0.1, 0.0]
    found, err = solved(cli, tmp_path / f"m.{form}")
    assert found["model"]["horizon"] == 12
    assert err == ""  # the file states its horizon


def test_both_templates_hold_the_same_model(tmp_path):
    laws = []
    for form, text in TEMPLATES.items():
        (tmp_path / f"m.{form}").write_text(text)
        laws.append(bqrl.evaluate(bqrl.load(tmp_path / f"m.{form}"), bqrl.MarkovPolicy([[0, 0, 1]] * 12)))
    assert laws[0].equals(laws[1])


def test_a_discount_rate_is_a_factor():
    assert discount_of(None, "3%") == pytest.approx(1 / 1.03)
    assert discount_of(None, "0.03") == pytest.approx(1 / 1.03)
    assert discount_of(0.9, None) == 0.9
    for wrong in ("3 percent", "-1%", "300%", "nan", ""):
        with pytest.raises(ValueError, match=r"--discount-rate must be a rate per stage such as 3% or 0.03"):
            discount_of(None, wrong)
    with pytest.raises(ValueError, match="exclude each other"):
        discount_of(0.9, "3%")


def test_a_small_discount_is_questioned(cli, tiny):
    assert discount_question(0.5) is discount_question(None) is discount_question(1.0) is None
    code, out, _ = cli("solve", tiny, "--tau", 0.4, "--discount", 0.03)
    assert code == 0
    assert "0.03 per stage keeps 3 % of the next stage; a rate of 3 % is 0.970874" in out
    code, out, _ = cli("solve", tiny, "--tau", 0.4, "--discount-rate", "3%")
    assert "a rate of" not in out


def test_options_are_read():
    assert first_states(None) is None
    assert first_states("Well") == "Well"
    assert first_states("a=b") == "a=b"  # a name with a sign in it
    assert first_states("Well=0.8, Sick = 0.2") == {"Well": 0.8, "Sick": 0.2}
    assert column_names("state=from,next_state=to") == {"state": "from", "next_state": "to"}
    for wrong in ("state", "state=", "=x", "state=a,,"):
        with pytest.raises(ValueError, match="--columns must be pairs"):
            column_names(wrong)


BAD = {
    "loop.csv": "loop.csv is a symbolic link that leads back to itself",
    "pipe.json": "pipe.json is not a regular file",
    "tabel.csv": "there is no file tabel.csv; did you mean 'table.csv'?",
    "table.csv --columns state=form": "there is no column 'form'; did you mean 'from'?",
    "table.csv --columns stat=from": "did you mean 'state'?",
    "table.csv --start Wel": "there is no state 'Wel'; did you mean 'Well'?",
    "table.csv --start Well=80,Sick=20": "sum 100: percentages?",
    "table.csv --discount-rate 3 --discount 0.9": "exclude each other",
    "tiny.json --columns state=from": "only .csv files have columns",
    "AssetSelling --columns state=from": "only .csv files have columns",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_models_get_one_line(cli, tiny, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(
        TABLE.replace(",note", "").replace(",x", "").replace(",y", "").replace(",z", "")
    )
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    os.mkfifo(tmp_path / "pipe.json")
    code, out, err = cli("solve", *arguments.split(), "--tau", 0.4, "--horizon", 2)
    assert (code, out) == (2, "")
    assert one_line(err), err
    assert BAD[arguments] in err


def test_a_message_names_the_option_for_columns(cli, tmp_path):
    (tmp_path / "m.csv").write_text("from,action,to,prob,rewrd\nA,go,A,1,1\n")
    code, out, err = cli("solve", tmp_path / "m.csv", "--tau", 0.4)
    assert (code, out) == (2, "")
    assert one_line(err)
    assert "--columns reward=" in err
