"""Exact evaluation of a Markov policy as a share of the matrix-product rate; a large sparse problem: time and memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
from _problems import dense, sparse
from timing import interleaved, machine, product, share, table

import bqrl
from bqrl.planners.evaluate import Sums, evaluate


def dense_policy(S: int, A: int, H: int, top: int) -> None:
    from bqrl.mdp.lattice import grid

    mdp = dense(S, A, H, top)
    policy = bqrl.MarkovPolicy(np.random.default_rng(1).integers(0, A, (H, S)))
    sums = Sums(mdp, grid(mdp))
    operations = sum(2 * S * S * sums.count(h) for h in range(H))
    widest = sums.count(H)
    square, same, ours = interleaved(
        product(2000, 2000, 2000), product(S, S, widest), lambda: evaluate(mdp, policy), repetitions=7
    )
    rate, ceiling, shape = operations / ours, 16e9 / square, 2 * S * S * widest / same
    table(
        f"Markov policy, S={S}, A={A}, H={H}, {widest} sums",
        ("what", "seconds", "GFLOP/s", "of the square product", "of the same shape"),
        [
            ("product 2000 x 2000 x 2000", square, ceiling / 1e9, share(1), ""),
            (f"product {S} x {S} x {widest}", same, shape / 1e9, share(shape / ceiling), share(1)),
            ("evaluate (operations executed)", ours, rate / 1e9, share(rate / ceiling), share(rate / shape)),
        ],
    )


def large_sparse() -> None:
    """Run in a process of its own, so that its peak memory is its own."""
    mdp = sparse(100_000, 4, 10, 20, 5)
    policy = bqrl.MarkovPolicy(np.random.default_rng(1).integers(0, 4, (20, 100_000)))
    small = sparse(100, 4, 10, 20, 5)
    evaluate(small, bqrl.MarkovPolicy(np.zeros((20, 100), int)))
    bqrl.guarantee_curve(small)
    begun = time.perf_counter()
    evaluate(mdp, policy)
    evaluated = time.perf_counter() - begun
    begun = time.perf_counter()
    bqrl.guarantee_curve(mdp)
    swept = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"evaluate {evaluated:.2f} s, all-tau sweep with policy {swept:.2f} s, peak memory {peak:.2f} GiB (bar: 4)")


def main() -> None:
    print(machine())
    dense_policy(200, 5, 50, 20)
    print("Sparse: S=100,000, A=4, 10 successors, H=20, 101 points")
    subprocess.run([sys.executable, __file__, "sparse"], check=True)


if __name__ == "__main__":
    large_sparse() if sys.argv[1:] == ["sparse"] else main()
