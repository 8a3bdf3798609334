"""Settings of the theory experiments, read from a TOML file into frozen records.

    [theory]          name, title, seed
    [problems.KEY]    label, and one of: name with params, hard, transitions with rewards and horizon
    [coverage] [bounds] [hard] [buffer] [knapsack]    one table an experiment, its keys as in the records below
    [quick.NAME]      what a quick look replaces in an experiment's table

An unknown name is refused with the nearest valid one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from bqrl.experiments.values import Params, frozen, known, listed, number, one_of, table_of, text, whole
from bqrl.mdp.model import MDP


@dataclass(frozen=True, slots=True)
class ProblemSpec:
    """A small problem by one of three forms."""

    key: str
    label: str
    form: str  # "name", "hard" or "transitions"
    given: Any

    def build(self) -> MDP:
        """The problem itself."""
        try:
            if self.form == "name":
                from bqrl.envs import make

                return make(self.given["name"], **self.given.get("params", {}))
            if self.form == "hard":
                from bqrl.theory import hard_instance

                own: dict[str, Any] = dict(self.given["hard"])
                known(own, ("tau", "rho", "actions", "horizon", "best"), "key", f"[problems.{self.key}]")
                names = {"actions": "A", "horizon": "H"}
                return hard_instance(**{names.get(name, name): value for name, value in own.items()})
            own = {name: value for name, value in self.given.items() if name != "label"}
            return MDP(own.pop("transitions"), own.pop("rewards", None), **own)
        except (ValueError, TypeError) as fault:
            raise ValueError(f"[problems.{self.key}] {fault}") from None


@dataclass(frozen=True, slots=True)
class Case:
    """A problem and the level at which it is looked at."""

    problem: str
    tau: float


@dataclass(frozen=True, slots=True)
class LearnerSpec:
    """A learner with its parameters."""

    learner: str
    label: str
    params: Params = ()


@dataclass(frozen=True, slots=True)
class CoverageSpec:
    """Many runs, and whether their confidence sets hold throughout."""

    runs: int
    episodes: int
    delta: float
    cases: tuple[Case, ...]
    confidence: float = 0.95
    params: Params = ()


@dataclass(frozen=True, slots=True)
class BoundsSpec:
    """Runs of several lengths, and the bounds for each length."""

    runs: int
    episodes: tuple[int, ...]
    delta: float
    cases: tuple[Case, ...]
    params: Params = ()


@dataclass(frozen=True, slots=True)
class HardSpec:
    """The hard family for shrinking rho, and long runs at one rho."""

    tau: float
    actions: int
    horizon: int
    rhos: tuple[float, ...]
    runs: int
    learners: tuple[LearnerSpec, ...]
    growth_rho: float
    growth_factor: float
    growth_runs: int
    growth_points: int


@dataclass(frozen=True, slots=True)
class BufferSpec:
    """Buffering gaps by buffer, and when schedules clear them."""

    points: int
    powers: tuple[float, ...]
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class KnapsackSpec:
    """How many weights are packed one by one."""

    weights: int


TABLES: dict[str, type[Any]] = {
    "coverage": CoverageSpec,
    "bounds": BoundsSpec,
    "hard": HardSpec,
    "buffer": BufferSpec,
    "knapsack": KnapsackSpec,
}


@dataclass(frozen=True, slots=True)
class TheorySpec:
    """All settings of one file; experiments by name, in the order of reading."""

    name: str
    title: str
    seed: int
    quick: bool
    problems: dict[str, ProblemSpec]
    experiments: dict[str, Any]

    def problem(self, key: str) -> ProblemSpec:
        """The problem of that key."""
        return self.problems[key]


def read_theory(path: str | Path, quick: bool = False) -> TheorySpec:
    """The settings in a TOML file; ValueError of one line where something in it is wrong."""
    place = Path(path)
    if not place.is_file():
        raise FileNotFoundError(f"there is no settings file {place}")
    try:
        tables = tomllib.loads(place.read_text(encoding="utf-8"))
        return theory_of(tables, quick)
    except (ValueError, TypeError) as fault:
        raise ValueError(f"{place.name}: {fault}") from None


def theory_of(tables: Mapping[str, Any], quick: bool = False) -> TheorySpec:
    """The settings that the tables of a TOML file describe."""
    known(tables, ("theory", "problems", *TABLES, "quick"), "table")
    top = table_of(tables, "theory")
    known(top, ("name", "title", "seed"), "key", "[theory]")
    problems = {key: _problem(key, given) for key, given in tables.get("problems", {}).items()}
    changes = tables.get("quick", {})
    known(changes, TABLES, "table", "[quick]")
    experiments = {}
    for name, kind in TABLES.items():
        if name in tables:
            own = dict(table_of(tables, name)) | (dict(changes.get(name, {})) if quick else {})
            experiments[name] = _record(kind, own, f"[{name}]")
            for case in getattr(experiments[name], "cases", ()):
                one_of(case.problem, problems, "problem", f"[{name}]")
    _check_hard(experiments.get("hard"))
    if not experiments:
        raise ValueError(f"no experiment is set; give one of the tables {', '.join(TABLES)}")
    name = text(top.get("name", "theory"), "[theory] name")
    seed = whole(top.get("seed"), "[theory] seed", 0)
    return TheorySpec(name, text(top.get("title", name), "[theory] title"), seed, quick, problems, experiments)


def _check_hard(own: HardSpec | None) -> None:
    """Refuse what would come out only after the runs of the first learners."""
    from bqrl.learners.run import Run
    from bqrl.theory import hard_instance

    if own is not None:
        try:
            for rho in (*own.rhos, own.growth_rho):
                mdp = hard_instance(own.tau, rho, own.actions, own.horizon)
            for one in own.learners:
                Run(mdp, one.learner, own.tau, 1, 0, **dict(one.params))
        except (ValueError, TypeError) as fault:
            raise ValueError(f"[hard] {fault}") from None


def _problem(key: str, given: Any) -> ProblemSpec:
    where = f"[problems.{key}]"
    if not isinstance(given, Mapping):
        raise TypeError(f"{where} must be a table")
    extras = {"name": ("params",), "hard": (), "transitions": ("rewards", "horizon", "start")}
    forms = [form for form in extras if form in given]
    if len(forms) != 1:
        raise ValueError(f"{where} needs one of name, hard, transitions; got {', '.join(given) or 'nothing'}")
    known(given, ("label", forms[0], *extras[forms[0]]), "key", where)
    return ProblemSpec(key, text(given.get("label", key), f"{where} label"), forms[0], dict(given))


# -- a table as a record ------------------------------------------------------------------------------------------------


def _record(kind: type[Any], table: Any, where: str) -> Any:
    """The record whose fields the table sets; each field's name says how its value is checked."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table, got {table!r}")
    names = [field.name for field in fields(kind)]
    known(table, names, "key", where)
    missing = [one.name for one in fields(kind) if one.name not in table and one.default is MISSING]
    if missing:
        raise ValueError(f"{where} {missing[0]} is missing")
    return kind(**{name: _value(kind, name, given, f"{where} {name}") for name, given in table.items()})


def _value(kind: type[Any], name: str, given: Any, where: str) -> Any:
    if name in ("cases", "learners"):
        part = Case if name == "cases" else LearnerSpec
        return tuple(_record(part, one, where) for one in listed(given, where))
    if name == "params":
        return frozen(given, where)
    if name in ("problem", "learner", "label"):
        return text(given, where)
    if name in ("rhos", "powers"):
        return tuple(number(x, where, 0.0, 1.0) for x in listed(given, where))
    if name == "episodes" and kind is BoundsSpec:
        return tuple(whole(x, where, 1) for x in listed(given, where))
    if name in ("tau", "delta", "confidence", "growth_rho"):
        return number(given, where, 0.0, 1.0)
    if name == "growth_factor":
        return number(given, where, 1.0, 1e6)
    return whole(given, where, _LEAST.get(name, 1))


_LEAST = {"actions": 2, "horizon": 2, "growth_points": 3, "points": 3, "growth_runs": 2}


def chosen(spec: TheorySpec, only: Iterable[str] | None) -> list[str]:
    """Names of the experiments to run, in the order of the file's records; all where `only` names none."""
    wanted = list(only or ())
    for name in wanted:
        one_of(name, TABLES, "experiment")
        if name not in spec.experiments:
            raise ValueError(f"the settings have no table [{name}]")
    return [name for name in spec.experiments if not wanted or name in wanted]
