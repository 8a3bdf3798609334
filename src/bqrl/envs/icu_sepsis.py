"""ICU-Sepsis: treat a patient with sepsis in intensive care, four hours at a time.

The kernel was estimated from records of the MIMIC-III database (Choudhary, Gupta and Thomas 2024, "ICU-Sepsis: A
Benchmark MDP Built from Real Medical Data"): 713 clusters of patients, 25 combinations of fluids and vasopressors, restricted to
the admissible ones. The benchmark pays for survival alone, so that only two returns are possible; here survival pays 100 and
each step up to the end state costs 1, including the step that follows death or survival, so that a quantile also reflects
the time in care. The problem is of no clinical value.

The data are those of the package `icu-sepsis` (MIT licence). Its files are read where they are installed; the package
itself is never imported.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np

from bqrl.checks import number
from bqrl.mdp.model import MDP

UNIT, STAGE = "points", "four hours"
PACKAGE, REMEDY = "icu_sepsis", "pip install --no-deps icu-sepsis"
LEVELS = 5  # doses of fluids; vasopressors have as many
ENDS = ("death", "survival", "end")  # the last three states


def icu_sepsis(horizon: int = 60, survival: float = 100.0, cost: float = 1.0) -> MDP:
    """Return the sepsis problem; its return is the reward of survival minus the cost of the time in care.

    Parameters
    ----------
    horizon : int
        Number of steps of four hours.
    survival : float
        Reward of survival.
    cost : float
        Cost per step before the end state.

    Returns
    -------
    MDP
    """
    survival, cost = number(survival, "survival"), number(cost, "cost")
    folder = _folder()
    with np.load(folder / "dynamics.npz", allow_pickle=False) as data:
        P, first = data["tx_mat"], data["d_0"]
    S, A, _ = P.shape
    available = _admissible_mask(folder / "admissible_actions.txt", S, A)
    s, a, s_next = np.nonzero((P > 0.0) & available[:, :, None])
    clusters = S - len(ENDS)
    survives = (s < clusters) & (s_next == clusters + ENDS.index("survival"))
    reward = np.where(survives, survival, 0.0) - np.where(s < S - 1, cost, 0.0)
    return MDP(
        np.c_[s, a, s_next, P[s, a, s_next], reward],
        horizon=horizon,
        start=first,
        state_names=[*(f"cluster {i}" for i in range(clusters)), *ENDS],
        action_names=[f"fluids {i}, vasopressors {j}" for i in range(LEVELS) for j in range(LEVELS)],
    )


def _folder() -> Path:
    """Return the folder with the data; the package is located but not imported."""
    spec = importlib.util.find_spec(PACKAGE)
    places = (
        [] if spec is None else [Path(place) / "envs" / "assets" for place in spec.submodule_search_locations or []]
    )
    for place in places:
        if (place / "dynamics.npz").is_file():
            return place
    raise FileNotFoundError(f"ICUSepsis requires the files of the package icu-sepsis; install them with: {REMEDY}")


def _admissible_mask(path: Path, S: int, A: int) -> np.ndarray:
    """Return which actions are admissible; the file has a line of counts, then one line of actions per state."""
    _, *lines = path.read_text().splitlines()
    mask = np.zeros((S, A), bool)
    for s, line in enumerate(lines[:S]):
        mask[s, [int(word) for word in line.split()]] = True
    return mask
