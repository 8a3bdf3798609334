"""A run takes the place of the one before it as a whole, also when it is killed."""

import json
import os
import sys

import pytest

from bqrl.reports import folder as place

FIRST = {"policy_tau0p1.csv": "first", "policy_tau0p5.npz": "first", "return_laws.csv": "first"}
SECOND = {"policy_tau0p25.csv": "second", "return_laws.csv": "second"}


def write(folder, files):
    named = sorted(files)
    content = {"files": named[2:], "levels": [{"files": named[:2]}]}
    for name, text in (files | {"plan.json": json.dumps(content)}).items():
        (folder / name).write_text(text)
    return held(folder)


def held(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
@pytest.mark.parametrize("moves", range(10))
def test_a_killed_run_is_undone_or_finished_by_the_next(tmp_path, moves):
    target, draft = tmp_path / "out", tmp_path / "out" / ".bqrl_draft_x"
    draft.mkdir(parents=True)
    before = write(target, FIRST)
    after = write(draft, SECOND)
    (target / "mine.txt").write_text("the user's")
    if (child := os.fork()) == 0:
        left, replace = [moves], os.replace

        def killed(here, there):
            if left[0] == 0:
                os._exit(9)
            left[0] -= 1
            replace(here, there)

        place.os.replace = killed
        place._move_in(draft, target)
        os._exit(0)
    finished = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    place._recover(target)
    assert held(target) == (after if finished else before) | {"mine.txt": "the user's"}
    assert moves == 0 or not list(target.glob(".bqrl_draft_*"))  # before its first move a draft is nobody's but its own
