"""A million rows of CSV, beside numpy.loadtxt in the same run."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from _problems import sparse
from timing import interleaved, machine, table

import bqrl


def main() -> None:
    print(machine())
    mdp = sparse(25_000, 4, 10, 5, 5)
    with tempfile.TemporaryDirectory() as folder:
        csv, npz = Path(folder) / "model.csv", Path(folder) / "model.npz"
        mdp.save(csv)
        mdp.save(npz)
        peer, ours, packed = interleaved(
            lambda: np.loadtxt(csv, delimiter=",", skiprows=1),
            lambda: bqrl.load(csv, horizon=5),
            lambda: bqrl.load(npz),
            repetitions=2,
        )
    table(
        f"{mdp.successor.size:,} transitions",
        ("what", "seconds", "of numpy.loadtxt"),
        [
            ("numpy.loadtxt, numbers only", peer, 1.0),
            ("load .csv, checked", ours, ours / peer),
            ("load .npz", packed, packed / peer),
        ],
    )


if __name__ == "__main__":
    main()
