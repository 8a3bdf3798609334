"""The identity of the software: the versions that a result depends on, and a hash of the library's own code."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

import bqrl

CODE = ("envs", "laws", "learners", "loops", "mdp", "planners", "policies")  # packages whose code determines a result


@cache
def fingerprint() -> str:
    """The library's version and a hash of the code that computes results; runs of other code have other names."""
    root = Path(bqrl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for part in CODE for path in (root / part).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return f"{bqrl.__version__}+{digest.hexdigest()[:16]}"


version_of = cache(metadata.version)  # reads a file


def versions() -> dict[str, str]:
    """Versions of the software that a result depends on."""
    libraries = {name: version_of(name) for name in ("numpy", "numba", "scipy")}
    system = f"{platform.system()} {platform.machine()}"
    python = platform.python_version()
    return {"bqrl": bqrl.__version__, "code": fingerprint(), "python": python, **libraries, "system": system}


def software() -> str:
    """The versions in one line, for exported files."""
    return ", ".join(map(" ".join, versions().items()))
