"""The table of `bqrl bench`: what has a bar, beside a peer or a ceiling of the machine that is measured in the same run.

Peers that are not installed have no line. QuantEcon maximises the mean of the same model; MDPSolver plans for an infinite horizon
only, so it is no peer. rlberry needs an environment of its own, .venv-rlberry, which `learner_speed.py` makes. `--rows FILE`
also writes the lines as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numba
import numpy as np
from _problems import dense, sparse
from growth import growths
from timing import interleaved, machine, product, row_copies, table

from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.expected import best_mean
from bqrl.planners.sweep import sweep

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Line:
    """One line: our number, the other number, and a ratio that must be at least `least` or at most `most`."""

    what: str
    size: str
    ours: str
    other: str
    ratio: float
    least: float | None = None
    most: float | None = None

    @property
    def bar(self) -> str:
        """The bar in words."""
        return f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"

    @property
    def met(self) -> bool:
        """Whether the ratio meets the bar."""
        return self.ratio >= self.least if self.least is not None else self.ratio <= (self.most or 0.0)


def seconds(x: float) -> str:
    return f"{x:.3g} s" if x >= 1.0 else f"{1e3 * x:.3g} ms"


def dense_sweep(S: int = 500, A: int = 5, H: int = 20, top: int = 20) -> Iterator[Line]:
    mdp = dense(S, A, H, top)
    columns = returns_grid(mdp)
    widest = int(columns.size.max()) + 1
    same, values = interleaved(product(S * A, S, widest), lambda: sweep(mdp, columns, policy=False))
    work = sum(2 * S * A * S * (int(columns.size[h + 1]) + 1) for h in range(H))
    ours, ceiling = work / values, 2 * S * A * S * widest / same
    size = f"S={S}, A={A}, H={H}, {columns.size[0]} points"
    other = f"matrix product {ceiling / 1e9:.3g} GFLOP/s"
    yield Line("dense sweep, values", size, f"{ours / 1e9:.3g} GFLOP/s", other, ours / ceiling, least=0.8)


def sparse_sweep(S: int = 20_000, A: int = 4, k: int = 10, H: int = 20, top: int = 10) -> Iterator[Line]:
    mdp = sparse(S, A, k, H, top)
    columns, stage = returns_grid(mdp), mdp.stage(0)
    middle = int(columns.size[H // 2])
    source = np.random.default_rng(0).random((S, middle))
    copy, values = interleaved(
        row_copies(stage.row_start, stage.successor, source), lambda: sweep(mdp, columns, policy=False), repetitions=4
    )
    moved = sum(
        8 * (stage.successor.size * (int(columns.size[h + 1]) + 1) + S * (int(columns.size[h]) + 1)) for h in range(H)
    )
    ours, ceiling = moved / values, 8 * stage.successor.size * middle / copy
    size = f"S={S:,}, A={A}, {k} successors anywhere, H={H}, {columns.size[0]} points"
    other = f"copy of its rows {ceiling / 1e9:.3g} GB/s"
    yield Line("sparse sweep, values", size, f"{ours / 1e9:.3g} GB/s", other, ours / ceiling, least=0.5)


def storm() -> Iterator[Line]:
    if find_spec("stormpy") is None:
        return
    from storm import compare

    S, transitions, building, query, by, ours, _, whole, _ = compare(50, 5, 20, 5)
    other = f"Storm, {by}, with building {seconds(building + query)}"
    yield Line("every target at once", f"S={S}, {transitions} transitions", seconds(ours), other, whole, least=1000)


def quantecon() -> Iterator[Line]:
    if find_spec("quantecon") is None:
        return
    from quantecon.markov import DiscreteDP, backward_induction

    S, A, H = 500, 5, 100
    mdp = dense(S, A, H, 20)
    peer = DiscreteDP(mdp.row_reward[0].reshape(S, A), mdp.dense(0).reshape(S, A, S), 1.0)
    theirs, ours = interleaved(lambda: backward_induction(peer, H), lambda: best_mean(mdp))
    assert np.isclose(backward_induction(peer, H)[0][0, 0], best_mean(mdp)[0])
    yield Line(
        "best mean, all stages", f"S={S}, A={A}, H={H}", seconds(ours), f"QuantEcon {seconds(theirs)}", theirs / ours,
        least=1.0,
    )  # fmt: skip


def learning(episodes: int = 2000) -> Iterator[Line]:
    if not (ROOT / ".venv-rlberry" / ".ready").exists():
        return
    from learner_speed import our_seconds, peer_seconds

    theirs = peer_seconds("rlberry", "rlberry_ucbvi.py", episodes)["seconds"]
    ours = our_seconds("ucb-bqrl", {"planner": "target"}, episodes)
    other = f"rlberry's UCBVI {seconds(theirs)}"
    yield Line(
        "ucb-bqrl, target planner", f"asset selling, {episodes} episodes", seconds(ours), other, theirs / ours, least=20
    )


def first_answer() -> Iterator[Line]:
    """A process with nothing compiled yet, and one after it."""
    call = [sys.executable, "-c", "from bqrl.cli import main; main()", "solve", "AssetSelling", "--tau", "0.1"]
    with tempfile.TemporaryDirectory() as folder:
        for what in ("first answer, nothing compiled yet", "first answer of a process"):
            begun = time.perf_counter()
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run(call, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            took = time.perf_counter() - begun
            yield Line(what, "bqrl solve AssetSelling", seconds(took), "3 s", took / 3.0, most=1.0)


def growth() -> Iterator[Line]:
    threads = numba.get_num_threads()
    numba.set_num_threads(1)
    try:
        for name, sizes, first, last, slope in growths():
            yield Line(f"growth in {name}", sizes, f"{seconds(first)} .. {seconds(last)}", "linear", slope, most=1.1)
    finally:
        numba.set_num_threads(threads)


PARTS: dict[str, Callable[[], Iterator[Line]]] = {
    "dense": dense_sweep, "sparse": sparse_sweep, "storm": storm, "quantecon": quantecon, "learning": learning,
    "first": first_answer, "growth": growth,
}  # fmt: skip


def main() -> None:
    arguments = sys.argv[1:]
    place = Path(arguments.pop(arguments.index("--rows") + 1)) if "--rows" in arguments else None
    names = [name for name in arguments if name != "--rows"] or list(PARTS)
    print(machine())
    lines = [line for name in names for line in PARTS[name]()]
    table(
        "What has a bar",
        ("what", "size", "ours", "peer or ceiling of the same run", "ratio", "bar", "met"),
        [(one.what, one.size, one.ours, one.other, one.ratio, one.bar, "yes" if one.met else "no") for one in lines],
    )
    if place is not None:
        rows = [asdict(one) | {"bar": one.bar, "met": bool(one.met), "ratio": float(one.ratio)} for one in lines]
        place.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
