"""A whole study from its file to its results: run what is missing, then write tables and results.json."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

from bqrl.experiments.findings import FORMAT, findings
from bqrl.experiments.log import Logged
from bqrl.experiments.run import Watch
from bqrl.experiments.scores import score
from bqrl.experiments.settings import read_spec
from bqrl.experiments.spec import Spec
from bqrl.experiments.study import Finished, run_study
from bqrl.experiments.tables import Tables
from bqrl.experiments.workers import Workers
from bqrl.mdp.atomic import write_whole

RESULTS = "results.json"


def reproduce(
    study: str | Path,
    folder: str | Path,
    *,
    quick: bool = False,
    workers: Workers | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """What results.json holds at the end of the study in the file `study`; continues what the folder has of it."""
    spec = read_spec(study, quick)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    check_folder(place, spec)
    log = Logged(place, Watch() if watch is None else watch)
    try:
        return write_results(run_study(spec, place, workers, log))
    except BaseException as fault:
        log.note(f"stopped: {type(fault).__name__}: {fault}")
        raise
    finally:
        log.close()


def write_results(finished: Finished) -> dict[str, Any]:
    """Tables and results.json of a finished study; the last file says that the others are complete."""
    scores = score(finished)
    files = Tables(finished, scores).write()
    found: dict[str, Any] = plain(findings(finished, scores, files))
    content = json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(finished.store.folder / RESULTS, content.encode())
    return found


def check_folder(folder: Path, spec: Spec) -> None:
    """ValueError where a quick look would take the place of a whole study."""
    path = folder / RESULTS
    if not spec.quick or not path.is_file():
        return
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        whole = there.get("format") == FORMAT and there.get("quick") is False
    except (ValueError, AttributeError):
        return
    if whole:
        raise ValueError(f"{folder} holds the results of a whole study; give another folder for a quick look")


def paper_study(name: str = "ucb_bqrl") -> Path:
    """The settings file of a paper's study, in an installed package or in a clone."""
    inside = Path(str(files("bqrl"))) / "papers" / name / "study.toml"
    clone = Path(str(files("bqrl"))).parents[1] / "papers" / name / "study.toml"
    for path in (inside, clone):
        if path.is_file():
            return path
    raise FileNotFoundError(f"the settings of {name} are neither at {inside} nor at {clone}; name a file with --study")


def plain(value: Any) -> Any:
    """The same value in types that JSON knows; what is not finite becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
