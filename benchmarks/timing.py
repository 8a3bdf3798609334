"""Timing for the benchmarks: interleaved repetitions, the ceilings of the machine, tables. Run it to see the machine."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numba
import numpy as np
from numba import njit, prange

from bqrl.loops import plain

plain.FIRST_WORK = dict.fromkeys(plain.FIRST_WORK, 0)  # otherwise NumPy does the first work of a process
PAUSE = 0.25  # threads of one library spin for a while after their work; let them go before the next is timed


def interleaved(
    *functions: Callable[[], object], repetitions: int = 7, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Best time of each function; all take turns, so that a busy spell of the machine hits them alike."""
    for function in functions:
        function()  # compiles, fills caches
    best = [float("inf")] * len(functions)
    for _ in range(repetitions):
        for i, function in enumerate(functions):
            time.sleep(PAUSE)
            begun = clock()
            function()
            best[i] = min(best[i], clock() - begun)
    return best


def product(m: int, k: int, n: int) -> Callable[[], object]:
    """A float64 matrix product (m, k) (k, n): 2 m k n operations, into memory already there."""
    rng = np.random.default_rng(0)
    a, b, out = rng.random((m, k)), rng.random((k, n)), np.empty((m, n))
    return lambda: np.matmul(a, b, out=out)


@njit(parallel=True)
def _copy(source, out):
    for i in prange(source.size):
        out[i] = source[i]


def stream(size: int = 2**24) -> tuple[Callable[[], object], int]:
    """A copy of `size` numbers over the same threads as the sweep, and the bytes it reads and writes."""
    source, out = np.ones(size), np.empty(size)
    return lambda: _copy(source, out), 16 * size


@njit(parallel=True)
def _copy_rows(row_start, successor, source, out):
    for q in prange(row_start.size - 1):
        for i in range(row_start[q], row_start[q + 1]):
            out[q, :] = source[successor[i]]


def row_copies(row_start: np.ndarray, successor: np.ndarray, source: np.ndarray) -> Callable[[], object]:
    """A copy of the row of every successor, in the order of the outcomes: the memory traffic of a sweep, no arithmetic."""
    out = np.empty((row_start.size - 1, source.shape[1]))
    return lambda: _copy_rows(row_start, successor, source, out)


def machine() -> str:
    """The processor, the threads of both libraries and their versions."""
    name = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        models = [
            line.split(":", 1)[1].strip() for line in facts.read_text().splitlines() if line.startswith("model name")
        ]
        name = models[0] if models else name
    blas = os.environ.get("OPENBLAS_NUM_THREADS") or os.environ.get("OMP_NUM_THREADS") or f"{os.cpu_count()} (all)"
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{name}, {os.cpu_count()} cores{load}; threads: products {blas}, loops {numba.get_num_threads()}; "
        f"NumPy {np.__version__}, Numba {numba.__version__}"
    )


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table."""
    cells = [[_text(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    print(f"\n{title}")
    for n, row in enumerate(cells):
        print(
            "  " + "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        )
        if n == 0:
            print("  " + "  ".join("-" * w for w in widths))
    print(flush=True)


def _text(cell: object) -> str:
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.3g}" if abs(cell) < 1000 else f"{cell:,.0f}"


def share(x: float) -> str:
    """A share in per cent."""
    return f"{100 * x:.0f} %"


def main() -> None:
    print(machine())
    copy, moved = stream()
    square, shape, copied = interleaved(product(2000, 2000, 2000), product(2500, 500, 400), copy)
    table(
        "Ceilings of this machine",
        ("what", "rate"),
        [
            ("matrix product 2000 x 2000 x 2000", f"{16e9 / square / 1e9:.1f} GFLOP/s"),
            ("matrix product 2500 x 500 x 400", f"{1e9 / shape / 1e9:.1f} GFLOP/s"),
            ("copy of 128 MiB, read and written", f"{moved / copied / 1e9:.1f} GB/s"),
        ],
    )


if __name__ == "__main__":
    main()
