"""The all-tau sweep against the ceilings of the machine.

Dense rows: the sweep is a matrix product, a shift and a minimum, so its ceiling is the rate of float64 products. Operations
are counted as executed: 2 S*A S (columns of the next stage), stage by stage.

Sparse rows: each outcome adds one row of the next stage to another, so its ceiling is memory. Bytes are counted as moved:
the row of every outcome's successor, read once for the values and once for the means, and what a stage writes. Two
ceilings in the same run: a copy of memory in order, and a copy of the very same rows (as wide as those of the middle stage,
twice that where means lie beside the values), which jumps about as the sweep does.
"""

from __future__ import annotations

import numpy as np
from _problems import dense, sparse
from timing import interleaved, machine, product, row_copies, share, stream, table

from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.sweep import sweep


def dense_rows(S: int, A: int, H: int, top: int) -> None:
    mdp = dense(S, A, H, top)
    columns = returns_grid(mdp)
    operations = sum(2 * S * A * S * (int(columns.size[h + 1]) + 1) for h in range(H))
    widest = int(columns.size.max()) + 1
    square, same, values, policy = interleaved(
        product(2000, 2000, 2000),
        product(S * A, S, widest),
        lambda: sweep(mdp, columns, policy=False),
        lambda: sweep(mdp, columns),
    )
    rate_square, rate_same, rate = 16e9 / square, 2 * S * A * S * widest / same, operations / values
    table(
        f"Dense: S={S}, A={A}, H={H}, {columns.size[0]} points",
        ("what", "seconds", "GFLOP/s", "of the square product", "of the same shape"),
        [
            ("product 2000 x 2000 x 2000", square, rate_square / 1e9, share(1), ""),
            (f"product {S * A} x {S} x {widest}", same, rate_same / 1e9, share(rate_same / rate_square), share(1)),
            ("sweep, values (bar: 70 %)", values, rate / 1e9, share(rate / rate_square), share(rate / rate_same)),
            ("sweep, policy and means", policy, 2 * operations / policy / 1e9, "", ""),
        ],
    )
    print(f"  policy and mean ties cost {policy / values:.2f} times the values (bar: 2.5)")


def sparse_rows(name: str, mdp) -> list[tuple[object, ...]]:
    columns = returns_grid(mdp)
    stage = mdp.stage(0)
    middle = int(columns.size[mdp.H // 2])
    rows = np.random.default_rng(0).random((mdp.S, 2 * middle))
    copy, moved = stream()
    in_order, jumping, jumping_wide, values, policy = interleaved(
        copy,
        row_copies(stage.row_start, stage.successor, rows[:, :middle].copy()),
        row_copies(stage.row_start, stage.successor, rows),
        lambda: sweep(mdp, columns, policy=False),
        lambda: sweep(mdp, columns),
        repetitions=4,
    )
    read = sum(stage.successor.size * 8 * (int(columns.size[h + 1]) + 1) for h in range(mdp.H))
    written = sum(mdp.S * 8 * (int(columns.size[h]) + 1) for h in range(mdp.H))
    order_rate = moved / in_order
    copied = stage.successor.size * 8 * middle
    found = []
    for what, seconds, total, rows_rate in (
        ("values", values, read + written, copied / jumping),
        ("policy, means", policy, 2 * read + 2.25 * written, 2 * copied / jumping_wide),
    ):
        rate = total / seconds
        found.append(
            (f"{name}, {what}", seconds, rate / 1e9, order_rate / 1e9, rows_rate / 1e9, share(rate / order_rate),
             share(rate / rows_rate)),
        )  # fmt: skip
    return found


def main() -> None:
    print(machine())
    dense_rows(500, 5, 20, 20)
    rows = sparse_rows("successors near by", sparse(20_000, 4, 10, 20, 10, near=50))
    rows += sparse_rows("successors anywhere", sparse(20_000, 4, 10, 20, 10))
    table(
        "Sparse: S=20,000, A=4, 10 successors, H=20, 200 points (bar: half of a copy)",
        ("what", "seconds", "GB/s", "copy in order", "copy of the rows", "of copy in order", "of copy of the rows"),
        rows,
    )


if __name__ == "__main__":
    main()
