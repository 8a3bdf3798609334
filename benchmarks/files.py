"""Loading a model of a million rows from CSV, with ids as numbers and as names, against NumPy reading the numbers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from timing import interleaved, machine, table

import bqrl

HEADER = "idstatefrom,idaction,idstateto,probability,reward"


def write(path: Path, S: int, A: int, k: int) -> int:
    """S * A * k rows with k successors each, counted from 1."""
    rng = np.random.default_rng(0)
    rows = np.repeat(np.arange(S * A), k)
    successor = (np.arange(S * A)[:, None] * 7 + np.arange(k) * 13) % S
    probability = rng.random((S * A, k))
    probability /= probability.sum(axis=1, keepdims=True)
    reward = rng.integers(0, 10, rows.size)
    columns = zip(
        (rows // A + 1).tolist(), (rows % A + 1).tolist(), (successor.ravel() + 1).tolist(), probability.ravel().tolist(),
        reward.tolist(), strict=True,
    )  # fmt: skip
    with path.open("w") as file:
        file.write(HEADER + "\n")
        file.writelines(f"{s},{a},{t},{p!r},{r}\n" for s, a, t, p, r in columns)
    return rows.size


def with_names(path: Path) -> Path:
    """The same model with names as ids."""
    named = path.with_name("named.csv")
    with path.open() as source, named.open("w") as file:
        next(source)
        file.write("state,action,next_state,probability,reward\n")
        for line in source:
            s, a, s_next, rest = line.split(",", 3)
            file.write(f"state {s},action {a},state {s_next},{rest}")
    return named


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "million.csv"
        rows = write(path, 25_000, 4, 10)
        compressed = path.with_suffix(".npz")
        bqrl.load(path, horizon=20).save(compressed)
        named = with_names(path)
        ours, names, packed, theirs = interleaved(
            lambda: bqrl.load(path, horizon=20),
            lambda: bqrl.load(named, horizon=20),
            lambda: bqrl.load(compressed),
            lambda: np.loadtxt(path, delimiter=",", skiprows=1),
            repetitions=3,
        )
        size = path.stat().st_size / 2**20
    table(
        f"{rows:,} rows, {size:.0f} MiB of text",
        ("what", "seconds", "rows per second", "relative to numpy.loadtxt"),
        [
            ("numpy.loadtxt, numbers alone", theirs, rows / theirs, 1.0),
            ("bqrl.load of the .csv, checked model", ours, rows / ours, ours / theirs),
            ("bqrl.load of the .csv with names, checked model", names, rows / names, names / theirs),
            ("bqrl.load of the .npz, checked model", packed, rows / packed, packed / theirs),
        ],
    )


if __name__ == "__main__":
    main()
