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
from collections.abc import Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.experiments.single import Problem, content_of
from bqrl.experiments.spec import MEASURES, Entry, Printed, Spec, Tuning

TABLES = ("study", "problem", "tuning", "learners", "variants", "final_policy", "printed", "quick")
IN_STUDY = ("name", "title", "levels", "episodes", "delta", "seeds", "luck_seeds", "variant_seeds", "plot")
IN_TUNING = ("points", "rungs", "seeds", "level", "tail")
IN_LEARNER = ("learner", "label", "per_level", "params", "grid", "plot", "open")
IN_POLICY = ("learner", "leave_out")
IN_PRINTED = ("what", "level", "learner", "among", "measure", "value", "where")


def read_spec(path: str | Path, quick: bool = False) -> Spec:
    """The study in a TOML file; ValueError of one line where something in it is wrong."""
    place = Path(path)
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
    _known(tables, TABLES, "table")
    study = dict(_table(tables, "study"))
    tuning = dict(_table(tables, "tuning")) if "tuning" in tables else {}
    variants = _table(tables, "variants") if "variants" in tables else {}
    if quick:
        changes = _table(tables, "quick")
        _known(changes, ("study", "tuning"), "table", "[quick]")
        study |= _table(changes, "study") if "study" in changes else {}
        tuning |= _table(changes, "tuning") if "tuning" in changes else {}
    _known(study, IN_STUDY, "key", "[study]")
    _known(tuning, IN_TUNING, "key", "[tuning]")
    levels = tuple(_number(level, "levels", 0.0, 1.0) for level in _list(study, "levels", "[study]"))
    plot = tuple(_list(study, "plot", "[study]")) if "plot" in study else ("capped",) * len(levels)
    if len(set(levels)) < len(levels):
        raise ValueError(f"[study] levels must differ, got {list(levels)}")
    if len(plot) != len(levels):
        raise ValueError(f"plot names {len(plot)} measures for {len(levels)} levels; give one for each")
    for measure in plot:
        _one_of(measure, MEASURES, "measure")
    problem = _problem(_table(tables, "problem"), folder)
    learners = tuple(_entry(key, one) for key, one in _table(tables, "learners").items())
    name = _text(study, "name", "[study]")
    spec = Spec(
        name=name,
        title=str(study.get("title", name)),
        problem=problem,
        variants=tuple((key, _varied(problem, key, change)) for key, change in variants.items()),
        levels=levels,
        plot=plot,
        episodes=_whole(study.get("episodes"), "episodes", 1),
        delta=_number(study.get("delta", 0.05), "delta", 0.0, 1.0),
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
    _known(table, IN_POLICY, "key", "[final_policy]")
    key = _text(table, "learner", "[final_policy]")
    _one_of(key, [entry.key for entry in spec.learners], "learner")
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
        _known(given, ("name", "horizon", "start", "discount"), "key", "[problem]")
        name = str(given.pop("name", path.stem))
        if not path.is_file():
            raise FileNotFoundError(f"[problem] there is no file {path}")
        return Problem(name, tuple(sorted(given.items())), str(path.resolve()), content_of(path))
    name = _text(given, "name", "[problem]")
    given.pop("name")
    return Problem(name, _frozen(given))


def _varied(problem: Problem, key: str, change: Any) -> Problem:
    if not isinstance(change, Mapping):
        raise TypeError(f"[variants.{key}] must be a table of the problem's parameters")
    return replace(problem, params=_frozen(dict(problem.params) | dict(change)))


def _entry(key: str, table: Any) -> Entry:
    from bqrl.learners.run import find_learner

    where = f"[learners.{key}]"
    if not key.replace("_", "").isalnum():
        raise ValueError(f"{where} the key names columns and files: letters, digits and _ only")
    if not isinstance(table, Mapping):
        raise TypeError(f"{where} must be a table")
    _known(table, IN_LEARNER, "key", where)
    learner = _text(table, "learner", where)
    find_learner(learner)
    grid = table.get("grid")
    if grid is not None:
        if not isinstance(grid, list) or len(grid) != 2:
            raise ValueError(f"{where} grid must be [lowest, highest], got {grid!r}")
        low, high = (_number(x, f"{where} grid", 0.0) for x in grid)
        if not low < high:
            raise ValueError(f"{where} grid must be [lowest, highest], got {grid!r}")
        grid = (low, high)
    flags = {name: table.get(name, default) for name, default in (("per_level", False), ("plot", True))}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{where} {name} must be true or false, got {flag!r}")
    return Entry(
        key, learner, str(table.get("label", key)), flags["per_level"], _frozen(table.get("params", {})), grid,
        flags["plot"], str(table.get("open", "")),
    )  # fmt: skip


def _tuning(table: Mapping[str, Any], levels: tuple[float, ...]) -> Tuning:
    rungs = []
    for rung in _list(table, "rungs", "[tuning]"):
        if not isinstance(rung, list) or len(rung) != 2:
            raise ValueError(f"[tuning] a rung is [configurations, episodes], got {rung!r}")
        rungs.append((_whole(rung[0], "rungs", 1), _whole(rung[1], "rungs", 1)))
    points = _whole(table.get("points"), "points", 2)
    counts = [count for count, _ in rungs]
    if counts[0] != points or counts != sorted(counts, reverse=True):
        raise ValueError(f"[tuning] rungs must begin with all {points} points and never grow, got {counts}")
    level = _number(table.get("level", levels[0]), "[tuning] level", 0.0, 1.0)
    tail = _number(table.get("tail", 0.1), "[tuning] tail", 0.0, 1.0)
    return Tuning(points, tuple(rungs), _seeds(table, "seeds", "[tuning]", 1), level, tail)


def _printed(table: Any, learners: tuple[Entry, ...]) -> Printed:
    where = "[[printed]]"
    _known(table, IN_PRINTED, "key", where)
    keys = [entry.key for entry in learners]
    what = str(table.get("what", "end"))
    _one_of(what, ("end", "threshold"), "what")
    learner, among = table.get("learner"), tuple(_many(table, "among", where))
    if (learner is None) == (not among):
        raise ValueError(f"{where} names either a learner or, with among, several of them")
    for key in (*among, *([] if learner is None else [learner])):
        _one_of(key, keys, "learner")
    measure = str(table.get("measure", "capped"))
    _one_of(measure, MEASURES, "measure")
    level, value = _number(table.get("level"), "level", 0.0, 1.0), _number(table.get("value"), "value", -np.inf)
    return Printed(what, level, value, str(table.get("where", "")), learner, among, measure)


# -- values -------------------------------------------------------------------------------------------------------------


def _known(table: Any, valid: Iterable[str], what: str, where: str = "") -> None:
    if not isinstance(table, Mapping):
        raise TypeError(f"{where or 'a study'} must be a table, got {table!r}")
    for key in table:
        _one_of(key, valid, what, where)


def _one_of(given: Any, valid: Iterable[str], what: str, where: str = "") -> None:
    choices = list(valid)
    if given not in choices:
        near = get_close_matches(str(given), choices, 1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(choices)}"
        raise ValueError(f"{where + ' ' if where else ''}there is no {what} {str(given)[:60]!r}; {hint}")


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = tables.get(name)
    if not isinstance(found, Mapping):
        raise ValueError(f"the table [{name}] is missing")
    return found


def _list(table: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = table.get(name)
    if not isinstance(found, list) or not found:
        raise ValueError(f"{where} {name} must be a list with something in it, got {found!r}")
    return found


def _many(table: Mapping[str, Any], name: str, where: str) -> list[Any]:
    found = table.get(name, [])
    if not isinstance(found, list):
        raise ValueError(f"{where} {name} must be a list, got {found!r}")
    return found


def _text(table: Mapping[str, Any], name: str, where: str) -> str:
    found = table.get(name)
    if not isinstance(found, str) or not found:
        raise ValueError(f"{where} {name} must be a text, got {found!r}")
    return found


def _seeds(table: Mapping[str, Any], name: str, where: str, least: int) -> tuple[int, ...]:
    found = table.get(name, [])
    if not isinstance(found, list) or len(found) < least:
        raise ValueError(f"{where} {name} must be a list of at least {least} seeds, got {found!r}")
    seeds = tuple(_whole(seed, f"{where} {name}", 0) for seed in found)
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{where} {name} must differ, got {found!r}")
    return seeds


def _whole(given: Any, name: str, least: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {given!r}")
    return given


def _number(given: Any, name: str, above: float, below: float = np.inf) -> float:
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not above < given < below:
        span = f"between {above:g} and {below:g}" if np.isfinite(below) else f"above {above:g}"
        raise ValueError(f"{name} must be a number {span}, got {given!r}")
    return float(given)


def _frozen(params: Any) -> tuple[tuple[str, Any], ...]:
    """Parameters in the order of their names; lists stay lists within JSON but cannot change here."""
    if not isinstance(params, Mapping):
        raise TypeError(f"params must be a table, got {params!r}")
    return tuple(sorted((str(key), tuple(x) if isinstance(x, list) else x) for key, x in params.items()))
