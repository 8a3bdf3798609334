"""Models from step functions: seconds per million transitions, plain and vectorised, and the image of a law."""

from __future__ import annotations

import numpy as np
from timing import interleaved, machine, table

import bqrl

ROOM, AGE = 300, 120


def step(state: tuple[int, int], order: int, demand: int) -> tuple[tuple[int, int], float]:
    """Stock and a second counter, both bounded."""
    stock, age = state
    after = min(max(stock + order - demand, 0), ROOM - 1), min(max(age + demand - 2, 0), AGE - 1)
    return after, float(order)


def step_arrays(states: np.ndarray, orders: np.ndarray, demands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same on arrays."""
    stock, age = states.T
    after = np.clip(stock + orders - demands, 0, ROOM - 1), np.clip(age + demands - 2, 0, AGE - 1)
    return np.stack(after, axis=1), orders.astype(float)


def main() -> None:
    print(machine())
    noise = {demand: 1 / 12 for demand in range(12)}
    given = ([0, 1, 2], noise, 400, (0, 0))
    plain, arrays = interleaved(
        lambda: bqrl.from_step(step, *given),
        lambda: bqrl.from_step(step_arrays, *given, vectorized=True),
        repetitions=2,
    )
    mdp = bqrl.from_step(step_arrays, *given, vectorized=True)
    shared = mdp.noise
    image, draws = interleaved(lambda: shared.image(shared.probabilities), lambda: np.copy(mdp.probability))
    pairs = np.count_nonzero(mdp.available) * len(noise)
    table(
        f"{mdp.S:,} states, {pairs:,} transitions (state, action, event)",
        ("what", "seconds", "seconds per million"),
        [
            ("from_step, one call per transition", plain, 1e6 * plain / pairs),
            ("from_step, vectorized", arrays, 1e6 * arrays / pairs),
            ("noise.image, once per episode", image, 1e6 * image / pairs),
            ("copy of the probabilities", draws, 1e6 * draws / pairs),
        ],
    )


if __name__ == "__main__":
    main()
