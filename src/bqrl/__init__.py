"""Planning and learning for quantiles of the total return.

    models      MDP, load, from_step, from_gymnasium, envs.make
    plans       solve, guarantee_curve, evaluate, simulate, rule_table
    decisions   strategies, sensitivity, tradeoff, stress, outlook, expected_outcomes, outcome_law, report
    learning    learn, compare, Learner
    logs        fit, fit_counts
    files       load, save
    theory      bounds and hard instances

`help(bqrl.solve)` describes `solve` with an example, and likewise for every other name.

Names are imported on first use, which keeps `import bqrl` fast: Numba, SciPy and the plotting libraries are imported only
when needed. `__init__.pyi` lists them, for this module as for type checkers and editors. Importing also registers our problems
with Gymnasium, e.g. `gymnasium.make("bqrl/AssetSelling-v0")`.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import register, registry

from bqrl.problems import PROBLEMS

__version__ = "0.1.0"

# The stub is the list of public names: every line of it reads "from MODULE import NAME as NAME".
_LINES = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
_LISTED = {name.name: str(line.module) for line in _LINES if isinstance(line, ast.ImportFrom) for name in line.names}
_MODULES = tuple(name for name, module in _LISTED.items() if module == __name__)
_HOME = {name: module for name, module in _LISTED.items() if module != __name__}
__all__ = sorted(_LISTED)


def __getattr__(name: str) -> Any:
    """The public object called `name`, imported from its module on first use."""
    if name in _MODULES:
        return import_module(f"bqrl.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bqrl' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next use skips this function
    return value


def __dir__() -> list[str]:
    """The public names, whether imported yet or not."""
    return list(__all__)


for _name in PROBLEMS:
    # Gymnasium warns if an id is registered twice, for example on reload.
    if f"bqrl/{_name}-v0" not in registry:
        register(f"bqrl/{_name}-v0", entry_point="bqrl.envs:make_env", kwargs={"name": _name})
