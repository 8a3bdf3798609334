"""The exact return law of a Markov policy: dense against the rate of matrix products, sparse against time and memory.

Operations are counted as executed: for every stage and state the row that is played times the mass of every sum.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np
from _problems import dense, sparse
from timing import interleaved, machine, product, share, table

from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.evaluate import evaluate
from bqrl.planners.sweep import sweep
from bqrl.policies.forward import sums_of
from bqrl.policies.markov import MarkovPolicy


def any_policy(mdp) -> MarkovPolicy:
    return MarkovPolicy(np.random.default_rng(1).integers(0, mdp.A, (mdp.H, mdp.S)))


def dense_rows(S: int, A: int, H: int, top: int) -> None:
    mdp = dense(S, A, H, top)
    markov = any_policy(mdp)
    target = guarantee_curve(mdp).policy(0.1)
    sums = sums_of(mdp, returns_grid(mdp))
    operations = sum(2 * S * S * sums.count(h + 1) for h in range(H))
    middle = sums.count(H // 2)

    def from_scratch() -> None:
        mdp._per_model.clear()
        mdp._per_structure.clear()
        evaluate(mdp, markov)

    square, same, first, again, by_target = interleaved(
        product(2000, 2000, 2000),
        product(S, S, middle),
        from_scratch,
        lambda: evaluate(mdp, markov),
        lambda: evaluate(mdp, target),
    )
    rate = 16e9 / square
    table(
        f"Dense: S={S}, A={A}, H={H}, {returns_grid(mdp).size[0]} points",
        ("what", "seconds", "GFLOP/s", "of the product"),
        [
            ("product 2000 x 2000 x 2000", square, rate / 1e9, share(1)),
            (
                f"product {S} x {S} x {middle}",
                same,
                2 * S * S * middle / same / 1e9,
                share(2 * S * S * middle / same / rate),
            ),
            ("evaluate, a Markov policy", again, operations / again / 1e9, share(operations / again / rate)),
            ("the same, grid found anew", first, operations / first / 1e9, share(operations / first / rate)),
            ("evaluate, a target policy", by_target, "", ""),
        ],
    )


def sparse_job(job: str) -> None:
    """Build the large problem, do one job twice (the first may compile), report as JSON; run in a process of its own."""
    mdp = sparse(100_000, 4, 10, 20, 5)
    columns = returns_grid(mdp)
    built = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    jobs = {
        "evaluate a Markov policy": lambda: evaluate(mdp, any_policy(mdp)),
        "all-tau sweep, policy": lambda: sweep(mdp, columns),
        "all-tau sweep, values": lambda: sweep(mdp, columns, policy=False),
    }
    seconds = []
    for _ in range(2):
        begun = time.perf_counter()
        jobs[job]()
        seconds.append(time.perf_counter() - begun)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"seconds": min(seconds), "built": built, "peak": peak, "points": int(columns.size[0])}))


def sparse_rows() -> None:
    rows = []
    for job in ("evaluate a Markov policy", "all-tau sweep, values", "all-tau sweep, policy"):
        done = subprocess.run([sys.executable, __file__, job], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        rows.append((job, found["seconds"], f"{found['built'] / 2**20:.2f} GiB", f"{found['peak'] / 2**20:.2f} GiB"))
    table(
        f"Sparse: S=100,000, A=4, 10 successors, H=20, {found['points']} points (bar: 4 GiB)",
        ("what", "seconds", "memory with the problem built", "peak"),
        rows,
    )


def main() -> None:
    print(machine())
    dense_rows(200, 5, 50, 20)
    sparse_rows()


if __name__ == "__main__":
    sparse_job(sys.argv[1]) if len(sys.argv) > 1 else main()
