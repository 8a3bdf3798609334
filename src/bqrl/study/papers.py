"""The settings and views of published studies, in an installed package or in a clone."""

from __future__ import annotations

import sys
from functools import cache
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType


def paper_file(file: str, paper: str = "ucb_bqrl") -> Path:
    """A file of a published study."""
    package = Path(str(files("bqrl")))
    places = [root / "papers" / paper / file for root in (package, package.parents[1])]
    for path in places:
        if path.is_file():
            return path
    raise FileNotFoundError(f"{file} of {paper} is neither at {places[0]} nor at {places[1]}; name a settings file")


@cache
def paper_view(paper: str = "ucb_bqrl") -> ModuleType:
    """The module view.py of a published study."""
    name = f"bqrl_papers_{paper}_view"
    spec = spec_from_file_location(name, paper_file("view.py", paper))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)  # registered first: annotations are resolved through it
    spec.loader.exec_module(module)
    return module
