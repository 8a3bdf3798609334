"""A study that takes a second, and workers without processes to run it."""

import hashlib
import json
from collections import deque
from pathlib import Path

from bqrl.experiments.run import Watch
from bqrl.experiments.single import execute
from bqrl.experiments.workers import Event

SMALL = """
[study]
name = "small"
levels = [0.2, 0.5]
plot = ["expected", "capped"]
episodes = 60
seeds = [1, 2]
luck_seeds = [3, 4, 5]
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

[[printed]]
level = 0.5
learner = "eps_q"
value = 7.0
where = "Table 1"

[[printed]]
level = 0.5
among = ["eps_q", "ucb_bqrl"]
value = 1.0

[[printed]]
what = "threshold"
level = 0.2
learner = "ucb_bqrl"
value = 3

[quick.study]
episodes = 20

[quick.tuning]
points = 2
rungs = [[2, 10], [1, 20]]
"""
RUNS = 2 * ((4 + 2) * 2 + 7) + (4 + 2) * 2 + 7 + 2 * 7  # greedy twice, Q-learning, target twice


class Inline:
    """Workers that do each run at once, in this process."""

    size = 1

    def __init__(self):
        self.queue = deque()

    def submit(self, run):
        self.queue.append(run)

    def wait(self, timeout):
        run = self.queue.popleft()
        return [Event("done", run, *execute(run))]

    def close(self):
        self.queue.clear()


class Heard(Watch):
    """Keeps what was said."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)

    step = note = say


def results_of(folder: Path) -> dict[str, str]:
    """Hash of every run and table in a folder, and of all of results.json but its times."""
    found = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".npz", ".csv")
    }
    told = json.loads((folder / "results.json").read_text())
    told.pop("session")
    return found | {"results.json": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()}
