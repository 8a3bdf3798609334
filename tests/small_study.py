"""A study that takes a second."""

import csv
import hashlib
import json
from pathlib import Path

from bqrl.display import Watch
from bqrl.papers.ucb_bqrl.view import Printed
from bqrl.results.result import write
from bqrl.results.study_view import StudyView
from bqrl.study.settings import read_settings
from bqrl.study.spec import Spec
from bqrl.study.study import run_study
from bqrl.study.workers import Workers

SMALL = """
[study]
name = "small"
levels = [0.2, 0.5]
plot = ["expected", "capped"]
episodes = 60
seeds = [1, 2]
replication_seeds = [3, 4, 5]
variant_seeds = [1, 3]

[problem]
name = "AssetSelling"
offers = 6
horizon = 4
start = 2

[tuning]
points = 4
rungs = [[4, 30], [2, 60]]
seeds = [10, 11]
level = 0.5

[learners.ucb_bqrl]
learner = "ucb-bqrl"
label = "UCB-BQRL"
per_level = true
params = { planner = "greedy" }
grid = [1e-3, 1.0]
open = "how the candidates are drawn"

[learners.eps_q]
learner = "q-learning"
grid = [1e-2, 1.0]

[learners.target]
learner = "ucb-bqrl"
per_level = true
params = { planner = "target" }
plot = false

[variants.geometric]
distribution = "geometric"

[final_policy]
learner = "ucb_bqrl"
leave_out = ["sold"]

[quick.study]
episodes = 20

[quick.tuning]
points = 2
rungs = [[2, 10], [1, 20]]
"""
RUNS = 2 * ((4 + 2) * 2 + 7) + (4 + 2) * 2 + 7 + 2 * 7  # greedy twice, Q-learning, target twice


def printed(**number):
    """A printed number of the small study."""
    return Printed(**{"where": "Table 1", **number})


PRINTED = [
    {"level": 0.5, "learners": ("eps_q",), "value": 7.0},
    {"level": 0.5, "learners": ("eps_q", "ucb_bqrl"), "value": 1.0},
    {"level": 0.2, "measure": "threshold", "learners": ("ucb_bqrl",), "value": 3.0},
]


class Heard(Watch):
    """Keeps what was said."""

    def __init__(self):
        self.lines = []

    def say(self, text, detail=0):
        self.lines.append(text)


def make(path, folder, *, quick=False, workers=None, watch=None, view=StudyView):
    """Run a study and write its result without images; returns the finished study."""
    study = run_study(read_settings(path, Spec, quick=quick), folder, workers or Workers(), watch)
    write(view(study).result(images=False), folder)
    return study


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV file."""
    with path.open() as file:
        header, *rows = csv.reader(file)
    return header, rows


def details_of(folder: Path) -> dict:
    """The details that a result folder holds for programs."""
    return json.loads((folder / "result.json").read_text())["details"]


def results_of(folder: Path) -> dict[str, str]:
    """Hash of every run and table in a folder, and of all of result.json but its times."""
    found = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".npz", ".csv") and path.name != "session.csv"
    }
    written = json.loads((folder / "result.json").read_text())
    written["details"].pop("session")
    return found | {"result.json": hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()}
