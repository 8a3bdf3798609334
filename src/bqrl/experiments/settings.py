"""Studies in TOML files: every setting of a study, read into a frozen `Spec`.

    [study]            name, title, levels, episodes, delta, seeds, luck_seeds, variant_seeds, plot
    [problem]          name and the builder's parameters; or file with horizon, start, discount
    [tuning]           points, rungs, seeds, level, tail
    [learners.KEY]     learner, label, per_level, params, grid, plot, open; KEY names the columns of the tables
    [variants.KEY]     parameters of the problem to change; the final configurations run there, too
    [final_policy]     learner, leave_out: whose final policy is written out, and which states are left out
    [[printed]]        a number printed elsewhere, to be set beside ours
    [quick.study]      settings that a quick look replaces; [quick.tuning] likewise

An unknown name is refused with the nearest valid one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.experiments.single import Problem, content_of
from bqrl.experiments.spec import MEASURES, Entry, Printed, Spec, Tuning
from bqrl.experiments.values import frozen, known, listed, number, one_of, table_of, text, whole

TABLES = ("study", "problem", "tuning", "learners", "variants", "final_policy", "printed", "quick")
IN_STUDY = ("name", "title", "levels", "episodes", "delta", "seeds", "luck_seeds", "variant_seeds", "plot")
IN_TUNING = ("points", "rungs", "seeds", "level", "tail")
IN_LEARNER = ("learner", "label", "per_level", "params", "grid", "plot", "open")
IN_POLICY = ("learner", "leave_out")
IN_PRINTED = ("what", "level", "learner", "among", "measure", "value", "where")


def read_spec(path: str | Path, quick: bool = False) -> Spec:
    """The study in a TOML file; ValueError of one line where something in it is wrong."""
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a folder; give the .toml file of a study")
    if not place.is_file():
        raise FileNotFoundError(f"there is no study file {place}")
    try:
        tables = tomllib.loads(place.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise ValueError(f"{place.name}: {fault}") from None
    try:
        return spec_of(tables, place.parent, quick)
    except (ValueError, TypeError, OSError) as fault:
        raise ValueError(f"{place.name}: {fault}") from None


def spec_of(tables: Mapping[str, Any], folder: Path = Path(), quick: bool = False) -> Spec:
    """The study that the tables of a TOML file describe."""
    known(tables, TABLES, "table")
    study = dict(table_of(tables, "study"))
    tuning = dict(table_of(tables, "tuning")) if "tuning" in tables else {}
    variants = table_of(tables, "variants") if "variants" in tables else {}
    if quick:
        changes = table_of(tables, "quick")
        known(changes, ("study", "tuning"), "table", "[quick]")
        study |= table_of(changes, "study") if "study" in changes else {}
        tuning |= table_of(changes, "tuning") if "tuning" in changes else {}
    known(study, IN_STUDY, "key", "[study]")
    known(tuning, IN_TUNING, "key", "[tuning]")
    levels = tuple(number(level, "levels", 0.0, 1.0) for level in listed(study.get("levels"), "[study] levels"))
    plot = tuple(listed(study.get("plot"), "[study] plot")) if "plot" in study else ("capped",) * len(levels)
    if len(set(levels)) < len(levels):
        raise ValueError(f"[study] levels must differ, got {list(levels)}")
    if len(plot) != len(levels):
        raise ValueError(f"plot names {len(plot)} measures for {len(levels)} levels; give one for each")
    for measure in plot:
        one_of(measure, MEASURES, "measure")
    problem = _problem(table_of(tables, "problem"), folder)
    learners = tuple(_entry(key, one) for key, one in table_of(tables, "learners").items())
    name = text(study.get("name"), "[study] name")
    spec = Spec(
        name=name,
        title=str(study.get("title", name)),
        problem=problem,
        variants=tuple((key, _varied(problem, key, change)) for key, change in variants.items()),
        levels=levels,
        plot=plot,
        episodes=whole(study.get("episodes"), "episodes", 1),
        delta=number(study.get("delta", 0.05), "delta", 0.0, 1.0),
        seeds=_seeds(study, "seeds", "[study]", 2),
        luck_seeds=_seeds(study, "luck_seeds", "[study]", 0),
        variant_seeds=_seeds(study, "variant_seeds", "[study]", 2 if variants else 0),
        learners=learners,
        tuning=_tuning(tuning, levels) if tuning else None,
        final_policy=None,
        leave_out=(),
        printed=tuple(_printed(one, learners) for one in _many(tables, "printed", "a study's")),
        quick=quick,
    )
    return _checked(_with_policy(spec, tables.get("final_policy")))


def _with_policy(spec: Spec, table: Any) -> Spec:
    if table is None:
        return spec
    known(table, IN_POLICY, "key", "[final_policy]")
    key = text(table.get("learner"), "[final_policy] learner")
    one_of(key, [entry.key for entry in spec.learners], "learner")
    return replace(spec, final_policy=key, leave_out=tuple(map(str, _many(table, "leave_out", "[final_policy]"))))


def _checked(spec: Spec) -> Spec:
    """The spec, once its parts are known to fit each other and every learner accepts its settings."""
    from bqrl.learners.run import Run

    if not spec.learners:
        raise ValueError("[learners] is empty; a study needs one")
    lists = {"seeds": spec.seeds, "luck_seeds": spec.luck_seeds}
    lists |= {"the seeds of [tuning]": spec.tuning.seeds} if spec.tuning else {}
    seen: dict[int, str] = {}
    for name, seeds in lists.items():
        for seed in seeds:
            if seed in seen:
                raise ValueError(f"seed {seed} occurs in {seen[seed]} and in {name}; every seed may serve once")
            seen[seed] = name
    for entry in spec.learners:
        if entry.grid is not None:
            if spec.tuning is None:
                raise ValueError(f"[learners.{entry.key}] has a grid, but there is no table [tuning]")
            if entry.tuned is None:
                raise ValueError(f"[learners.{entry.key}] has a grid, but {entry.learner} has no parameter to tune")
            if entry.tuned in dict(entry.params):
                raise ValueError(f"[learners.{entry.key}] both fixes and tunes {entry.tuned}; drop it from params")
    for _, problem, _ in spec.problems():
        mdp = problem.build()
        for entry in spec.learners:
            for value in entry.grid or (None,):
                run = spec.run(entry, spec.levels[0], 0, value=value, problem=problem)
                try:
                    Run(mdp, run.learner, run.tau, run.episodes, run.seed, delta=run.delta, **dict(run.params))
                except (ValueError, TypeError) as fault:
                    raise ValueError(f"[learners.{entry.key}] {fault}") from None
    return spec


# -- one table each -----------------------------------------------------------------------------------------------------


def _problem(table: Mapping[str, Any], folder: Path) -> Problem:
    given = dict(table)
    if "file" in given:
        path = folder / str(given.pop("file"))
        known(given, ("name", "horizon", "start", "discount"), "key", "[problem]")
        name = str(given.pop("name", path.stem))
        if not path.is_file():
            raise FileNotFoundError(f"[problem] there is no file {path}")
        return Problem(name, tuple(sorted(given.items())), str(path.resolve()), content_of(path))
    name = text(given.get("name"), "[problem] name")
    given.pop("name")
    return Problem(name, frozen(given))


def _varied(problem: Problem, key: str, change: Any) -> Problem:
    if not isinstance(change, Mapping):
        raise TypeError(f"[variants.{key}] must be a table of the problem's parameters")
    return replace(problem, params=frozen(dict(problem.params) | dict(change)))


def _entry(key: str, table: Any) -> Entry:
    from bqrl.learners.run import find_learner

    where = f"[learners.{key}]"
    if not key.replace("_", "").isalnum():
        raise ValueError(f"{where} the key names columns and files: letters, digits and _ only")
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table")
    known(table, IN_LEARNER, "key", where)
    learner = text(table.get("learner"), f"{where} learner")
    find_learner(learner)
    grid = table.get("grid")
    if grid is not None:
        if not isinstance(grid, list) or len(grid) != 2:
            raise ValueError(f"{where} grid must be [lowest, highest], got {grid!r}")
        low, high = (number(x, f"{where} grid", 0.0) for x in grid)
        if not low < high:
            raise ValueError(f"{where} grid must be [lowest, highest], got {grid!r}")
        grid = (low, high)
    flags = {name: table.get(name, default) for name, default in (("per_level", False), ("plot", True))}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{where} {name} must be true or false, got {flag!r}")
    return Entry(
        key, learner, str(table.get("label", key)), flags["per_level"], frozen(table.get("params", {})), grid,
        flags["plot"], str(table.get("open", "")),
    )  # fmt: skip


def _tuning(table: Mapping[str, Any], levels: tuple[float, ...]) -> Tuning:
    rungs = []
    for rung in listed(table.get("rungs"), "[tuning] rungs"):
        if not isinstance(rung, list) or len(rung) != 2:
            raise ValueError(f"[tuning] a rung is [configurations, episodes], got {rung!r}")
        rungs.append((whole(rung[0], "rungs", 1), whole(rung[1], "rungs", 1)))
    points = whole(table.get("points"), "points", 2)
    counts = [count for count, _ in rungs]
    if counts[0] != points or counts != sorted(counts, reverse=True):
        raise ValueError(f"[tuning] rungs must begin with all {points} points and never grow, got {counts}")
    level = number(table.get("level", levels[0]), "[tuning] level", 0.0, 1.0)
    tail = number(table.get("tail", 0.1), "[tuning] tail", 0.0, 1.0)
    return Tuning(points, tuple(rungs), _seeds(table, "seeds", "[tuning]", 1), level, tail)


def _printed(table: Any, learners: tuple[Entry, ...]) -> Printed:
    where = "[[printed]]"
    known(table, IN_PRINTED, "key", where)
    keys = [entry.key for entry in learners]
    what = str(table.get("what", "end"))
    one_of(what, ("end", "threshold"), "what")
    learner, among = table.get("learner"), tuple(_many(table, "among", where))
    if (learner is None) == (not among):
        raise ValueError(f"{where} names either a learner or, with among, several of them")
    for key in (*among, *([] if learner is None else [learner])):
        one_of(key, keys, "learner")
    measure = str(table.get("measure", "capped"))
    one_of(measure, MEASURES, "measure")
    level, value = number(table.get("level"), "level", 0.0, 1.0), number(table.get("value"), "value", -np.inf)
    return Printed(what, level, value, str(table.get("where", "")), learner, among, measure)


# -- values -------------------------------------------------------------------------------------------------------------


def _many(table: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = table.get(name, [])
    if not isinstance(found, list):
        raise ValueError(f"{where} {name} must be a list, got {found!r}")
    return found


def _seeds(table: Mapping[str, Any], name: str, where: str, least: int) -> tuple[int, ...]:
    found = table.get(name, [])
    if not isinstance(found, list) or len(found) < least:
        raise ValueError(f"{where} {name} must be a list of at least {least} seeds, got {found!r}")
    seeds = tuple(whole(seed, f"{where} {name}", 0) for seed in found)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{where} {name} must differ, got {found!r}")
    return seeds
