import json
import re

import numpy as np
import pytest
from helpers import Checked

import bqrl
from bqrl.planners.target import guarantee_curve, plan_from_curve
from bqrl.reports.document import Solved, document, plain, to_json
from bqrl.reports.folder import table, write_folder
from bqrl.reports.page import read_document, write_page

NASTY = '<script>alert("x")</script>&\'[bold]'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    mdp = bqrl.MDP(
        [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]],
        [[1.0, 0.5], [0.0, 0.0]],
        horizon=3,
        state_names=[NASTY, "b"],
        action_names=["go", NASTY],
    )
    curve = guarantee_curve(mdp)
    plans = tuple(plan_from_curve(curve, tau) for tau in (0.2, 0.7))
    path = tmp_path_factory.mktemp("result")
    write_folder(Solved(NASTY, mdp, plans, plans[0].law, {"tau": [0.2, 0.7], "model": NASTY}, curve), path)
    return path


def test_the_page_is_whole_escaped_and_alone(folder):
    page = write_page(folder).read_text()
    assert page.startswith("<!doctype html>")
    assert NASTY not in page
    assert len(page) < 6_000_000
    checked = Checked()
    checked.feed(page)
    assert checked.open == []
    assert "script" not in checked.tags
    assert all(link.startswith("data:image/png;base64,") for link in checked.links)
    assert len(checked.links) == 2  # no shares were given, so there is no policy map
    words = " ".join(" ".join(checked.words).split())
    assert NASTY in words
    for level in read_document(folder / "plan.json")["levels"]:
        assert level["meaning"] in words
    assert not re.search(r"https?://", page)


def test_names_that_look_like_markup_are_printed_as_they_stand(folder, capsys):
    from bqrl.cli.solve import tell

    tell(read_document(folder / "plan.json"), None)
    assert NASTY in capsys.readouterr().out


def test_a_page_without_figures_still_has_the_numbers(folder, tmp_path):
    content = read_document(folder / "plan.json")
    content["levels"][0]["files"] = ["../outside.csv"]
    (tmp_path / "plan.json").write_text(json.dumps(content))
    page = write_page(tmp_path).read_text()
    assert "What to see" not in page
    assert "The numbers" in page


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"format": "other"}',
        '{"format": "bqrl plan 1"}',
        '{"format": "bqrl plan 1", "model": 3}',
        b"\xff",
    ],
)
def test_damaged_documents_are_refused(tmp_path, text):
    (tmp_path / "plan.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=r"plan\.json"):
        write_page(tmp_path)


def test_json_is_strict():
    text = to_json({"a": np.float64("nan"), "b": [np.int64(3), float("inf")], "c": np.array([1.5]), "d": (True, None)})
    assert json.loads(text) == {"a": None, "b": [3, None], "c": [1.5], "d": [True, None]}
    assert to_json("ü", ascii_only=True) == '"\\u00fc"'
    assert plain({1: object}) == {"1": "<class 'object'>"}


def test_tables_quote_what_needs_it():
    assert table([{"a": "x,y", "b": 1.0}]) == b'a,b\n"x,y",1.0\n'
    assert table([]) == b""


def test_a_law_of_first_states_is_named():
    mdp = bqrl.MDP([[[1.0, 0.0]], [[0.0, 1.0]]], [[1.0], [0.0]], horizon=1, start=[0.5, 0.5])
    plan = bqrl.solve(mdp, 0.5)
    assert document(Solved("m", mdp, (plan,), None))["model"]["start"] == "a law over 2 states"
