"""The results of a study as its folder holds them: results.json and the tables beside it.

Nothing is computed anew here but sums over what is in the files; a folder without one of them is refused by its name.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.experiments.findings import FORMAT
from bqrl.experiments.reproduce import RESULTS
from bqrl.experiments.tables import SUFFIX, level_name
from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.reports.style import colours

# The paper's colours in the order of its legend; learners beyond them are dashed.
INKS = ("#004488", "#E69F00", "#009E73", "#D55E00", "#AA4499", "#8C564B", "#00A6D6", "#111111")
Z = 1.96  # of the paper's bands
COLUMN = {"capped": "capped_gap", "exact": "exact_gap", "expected": "expected_regret"}
QUANTITY = {
    "capped": "cumulative quantile gap, capped reference",
    "exact": "cumulative quantile gap, exact optimum",
    "expected": "cumulative expected-return regret",
}


@dataclass(frozen=True, slots=True)
class Learner:
    """A learner of a study and its look."""

    key: str
    label: str
    ink: Any
    dashed: bool  # not among those that the main figures show


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A cumulative measure by episode: mean over seeds and the half width of the band around it."""

    learner: Learner
    episode: FloatArray
    mean: FloatArray
    half: FloatArray


@dataclass(frozen=True, slots=True)
class End:
    """The last value of one run."""

    seed: int
    held_out: bool
    value: float


class StudyResults:
    """Reads the files of a finished study."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._kept: dict[str, Any] = {}  # what was read, by the name of the file
        path = folder / RESULTS
        try:
            self.found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise FileNotFoundError(f"{folder} holds no {RESULTS}: `bqrl reproduce` writes it last") from None
        except (UnicodeDecodeError, json.JSONDecodeError) as fault:
            raise ValueError(f"{path} is damaged: {fault}") from None
        if not isinstance(self.found, dict) or self.found.get("format") != FORMAT:
            raise ValueError(f"{path} is not a document of the kind {FORMAT!r}")
        self.settings: dict[str, Any] = self.found["settings"]
        self.name: str = str(self.settings["problem"]["name"])
        self.levels: list[float] = [float(tau) for tau in self.settings["levels"]]
        self.quick = bool(self.found["quick"])
        self.episodes = int(self.settings["episodes"])

    @cached_property
    def learners(self) -> list[Learner]:
        """In the order of the settings."""
        entries = list(self.settings["learners"].values())
        inks = colours(len(entries), INKS)
        return [Learner(one["key"], one["label"], ink, not one["plot"]) for one, ink in zip(entries, inks, strict=True)]

    @property
    def variants(self) -> list[str]:
        """Names of the changed problems."""
        return list(self.settings["variants"])

    def learner(self, key: str) -> Learner:
        """The learner of that key."""
        return next(one for one in self.learners if one.key == key)

    def label(self, key: str) -> str:
        """A learner's name for people."""
        return self.learner(key).label

    def seeds(self, variant: str = "") -> list[int]:
        """Seeds whose curves are in the tables."""
        return list(self.settings["variant_seeds" if variant else "seeds"])

    def further(self, variant: str = "") -> list[int]:
        """Seeds that orderings come from."""
        return self.seeds(variant) if variant else list(self.settings["luck_seeds"] or self.settings["seeds"])

    def shown(self, tau: float) -> str:
        """The measure of the main table at a level."""
        return str(self.settings["plot"][self.levels.index(tau)])

    def reference(self, tau: float, variant: str = "") -> dict[str, float]:
        """What gaps are measured against."""
        found: dict[str, float] = self.found["references"][variant or self.name][repr(tau)]
        return found

    def printed(self, tau: float, measure: str) -> dict[str, float]:
        """Printed last values by learner."""
        rows = (row for row in self.found["comparison"] if row["level"] == tau and row["measure"] == measure)
        return {row["learner"]: float(row["printed"]) for row in rows}

    # -- tables -----------------------------------------------------------------------------------------------------------

    def main_curves(self, tau: float) -> list[Curve]:
        """What the main figure of a level shows."""
        return self._curves(f"{self._stem(tau)}_plot.csv", self.seeds())

    def curves(self, tau: float, measure: str, variant: str = "") -> list[Curve]:
        """A measure of every learner by episode."""
        name = f"{measure}/{self._stem(tau)}_{SUFFIX[measure]}.csv"
        return self._curves(f"{variant}/{name}" if variant else name, self.seeds(variant))

    def _curves(self, name: str, seeds: list[int]) -> list[Curve]:
        columns = self._columns(name)
        half = Z / np.sqrt(len(seeds))
        return [
            Curve(one, columns["episode"], columns[f"{one.key}_mean"], half * columns[f"{one.key}_std"])
            for one in self.learners
            if f"{one.key}_mean" in columns
        ]

    def ends(self, tau: float, measure: str, variant: str = "") -> dict[str, list[End]]:
        """Last values of every run, by learner."""
        name = f"luck/{self._stem(tau)}_ends.csv"
        found: dict[str, list[End]] = {one.key: [] for one in self.learners}
        for row in self._rows(f"{variant}/{name}" if variant else name):
            found[row["learner"]].append(End(int(row["seed"]), row["held_out"] == "1", float(row[COLUMN[measure]])))
        return found

    def laws(self, tau: float, variant: str = "") -> dict[str, list[Law]]:
        """Return laws of the final policies, by learner, one a seed."""
        name = f"laws/{self._stem(tau)}_final_laws.csv"
        key = f"laws in {variant}/{name}"
        if key not in self._kept:
            self._kept[key] = self._read_laws(f"{variant}/{name}" if variant else name)
        kept: dict[str, list[Law]] = self._kept[key]
        return kept

    def _read_laws(self, name: str) -> dict[str, list[Law]]:
        parts: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for row in self._rows(name):
            parts.setdefault((row["learner"], row["seed"]), []).append(
                (float(row["return"]), float(row["probability"]))
            )
        found: dict[str, list[Law]] = {one.key: [] for one in self.learners}
        for (key, _), atoms in parts.items():
            values, mass = np.array(atoms).T
            found[key].append(Law(values, mass))
        return found

    def mixed_law(self, laws: list[Law]) -> Law:
        """The return where one of the runs is drawn by chance and its final policy played."""
        values = np.concatenate([law.values for law in laws])
        return Law(values, np.concatenate([law.probabilities for law in laws]) / len(laws))

    def best_quantiles(self, variant: str = "") -> tuple[FloatArray, FloatArray]:
        """The best achievable quantile: values[i] for levels in (levels[i], levels[i + 1]]."""
        name = f"laws/{self.name}_best_quantile.csv"
        columns = self._columns(f"{variant}/{name}" if variant else name)
        return columns["level_above"], columns["value"]

    def policy(self, tau: float) -> tuple[list[str], FloatArray] | None:
        """States and actions (states, stages) of the final policy picked for show; 1 = Continue."""
        key = self.settings["final_policy"]
        if key is None or repr(tau) not in self.found["final_policies"]:
            return None
        rows = self._rows(f"{self._stem(tau)}_{str(key).upper()}_final_policy.csv")
        stages = [name for name in rows[0] if name.startswith("stage_")]
        return [row["offer"] for row in rows], np.array([[float(row[name]) for name in stages] for row in rows])

    def _stem(self, tau: float) -> str:
        return f"{self.name}_tau{level_name(tau)}"

    def _columns(self, name: str) -> dict[str, FloatArray]:
        if name in self._kept:
            kept: dict[str, FloatArray] = self._kept[name]
            return kept
        rows = self._rows(name)
        try:
            self._kept[name] = found = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}
            return found
        except (ValueError, TypeError) as fault:
            raise ValueError(f"{self.folder / name} is damaged: {fault}") from None

    def _rows(self, name: str) -> list[dict[str, str]]:
        path = self.folder / name
        if not path.is_file():
            raise FileNotFoundError(
                f"{self.folder} holds no {name}; `bqrl reproduce` with the same folder writes it anew"
            )
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        if not rows:
            raise ValueError(f"{path} is damaged: it has no rows")
        return rows
