import gzip

import numpy as np
import pytest
from helpers import assert_refused, strict

import bqrl
from bqrl.results.page import PAGE


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["episode,stage,condition,action,reward"]
    for episode in range(2000):
        for stage in range(2):
            treated = rng.random() < 0.5
            rows.append(
                f"{episode},{stage},well,{'treat' if treated else 'wait'},{1 if treated or rng.random() < 0.5 else 0}"
            )
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(rows))
    return path


def test_the_command_prints_three_policies_the_sentence_and_what_limits_it(cli, log):
    code, out, err = cli("fit", log, "--tau", "0.1", "--columns", "state=condition", "--reward-range", "0,1")
    assert (code, err) == (0, "")
    for words in ("logging policy", "not a promise", "robust plan", "With 95 % confidence, in 9 of 10 episodes", "Coverage:",
                  "What limits the promise", "Projection, not a promise"):  # fmt: skip
        assert words in out


def test_the_command_prints_json(cli, log):
    code, out, _ = cli("fit", log, "--tau", 0.1, "--columns", "state=condition", "--reward-range", "0,1", "--json")
    content = strict(out)
    assert code == 0
    assert [row["policy"] for row in content["policies"]] == ["logging policy", "plug-in plan", "robust plan"]
    assert content["policies"][2]["value"] <= content["policies"][1]["value"]
    assert content["coverage"]["rows_seen"] == 4


def test_the_command_writes_a_folder_and_its_page(cli, log, tmp_path):
    out = tmp_path / "result"
    code, text, _ = cli("fit", log, "--tau", 0.1, "--columns", "state=condition", "--reward-range", "0,1", "--out", out)
    assert (code, "Wrote" in text) == (0, True)
    estimate = bqrl.load(out / "estimate.npz")
    assert estimate.solve(0.1).policy.target == bqrl.load(out / "policy.npz").target
    assert (out / "limits.csv").read_text().count("\n") > 1
    code, _, err = cli("report", out)
    assert (code, err) == (0, "")
    assert "With 95 % confidence" in (out / PAGE).read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "column 'state': the column state is missing"),
        (("--columns", "state"), "--columns must hold ROLE=HEADER"),
        (("--columns", "state=condition"), "reward_range must be given"),
        (
            ("--columns", "state=condition", "--reward-range", "0"),
            "e.g. (0, 1), got 0 (--reward-range)",
        ),
        (("--columns", "state=condition", "--reward-range", "0,1", "--horizon", "1"), "line 3, column 'stage'"),
    ],
)
def test_bad_input_is_one_line(cli, log, options, words):
    assert_refused(cli("fit", log, "--tau", 0.1, *options), words)
