"""Planning and learning for quantiles of the total return.

Names are imported on first use, which keeps `import bqrl` fast: Numba, SciPy and the plotting libraries are imported only
when needed. Importing also registers our problems with Gymnasium, e.g. `gymnasium.make("bqrl/AssetSelling-v0")`.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register, registry

if TYPE_CHECKING:
    from bqrl import envs, theory
    from bqrl.files import load, load_policy, save
    from bqrl.laws.law import Law
    from bqrl.learners.protocol import Learner
    from bqrl.learners.record import Record
    from bqrl.learners.run import learn
    from bqrl.mdp.gymnasium import from_gymnasium
    from bqrl.mdp.model import MDP
    from bqrl.mdp.policy import (
        LabelPolicy,
        MarkovPolicy,
        MixturePolicy,
        Policy,
        QuantileLevelPolicy,
        TargetPolicy,
    )
    from bqrl.mdp.step import from_step
    from bqrl.planners.confidence import constant_buffer, log_buffer, power_buffer
    from bqrl.planners.evaluate import evaluate, simulate
    from bqrl.planners.plan import Plan
    from bqrl.planners.solve import solve
    from bqrl.planners.target import GuaranteeCurve, guarantee_curve
    from bqrl.study.compare import Experiment, compare

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "Experiment",
    "GuaranteeCurve",
    "LabelPolicy",
    "Law",
    "Learner",
    "MarkovPolicy",
    "MixturePolicy",
    "Plan",
    "Policy",
    "QuantileLevelPolicy",
    "Record",
    "TargetPolicy",
    "compare",
    "constant_buffer",
    "envs",
    "evaluate",
    "from_gymnasium",
    "from_step",
    "guarantee_curve",
    "learn",
    "load",
    "load_policy",
    "log_buffer",
    "power_buffer",
    "save",
    "simulate",
    "solve",
    "theory",
]

_HOME = {
    "Law": "bqrl.laws.law",
    "MDP": "bqrl.mdp.model",
    "load": "bqrl.files",
    "save": "bqrl.files",
    "from_gymnasium": "bqrl.mdp.gymnasium",
    "from_step": "bqrl.mdp.step",
    "LabelPolicy": "bqrl.mdp.policy",
    "MarkovPolicy": "bqrl.mdp.policy",
    "MixturePolicy": "bqrl.mdp.policy",
    "Policy": "bqrl.mdp.policy",
    "QuantileLevelPolicy": "bqrl.mdp.policy",
    "TargetPolicy": "bqrl.mdp.policy",
    "load_policy": "bqrl.files",
    "constant_buffer": "bqrl.planners.confidence",
    "log_buffer": "bqrl.planners.confidence",
    "power_buffer": "bqrl.planners.confidence",
    "evaluate": "bqrl.planners.evaluate",
    "simulate": "bqrl.planners.evaluate",
    "Plan": "bqrl.planners.plan",
    "solve": "bqrl.planners.solve",
    "GuaranteeCurve": "bqrl.planners.target",
    "guarantee_curve": "bqrl.planners.target",
    "Learner": "bqrl.learners.protocol",
    "Record": "bqrl.learners.record",
    "learn": "bqrl.learners.run",
    "Experiment": "bqrl.study.compare",
    "compare": "bqrl.study.compare",
}
_MODULES = ("envs", "theory")
_DEPRECATED: dict[str, str] = {}  # old public name -> new public name; kept for one version


def __getattr__(name: str) -> Any:
    """The public object called `name`, imported from its module on first use."""
    if name in _DEPRECATED:
        warnings.warn(f"bqrl.{name} is deprecated; use bqrl.{_DEPRECATED[name]}", DeprecationWarning, stacklevel=2)
        name = _DEPRECATED[name]
    if name in _MODULES:
        return import_module(f"bqrl.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bqrl' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next use skips this function
    return value


def __dir__() -> list[str]:
    """The public names, whether imported yet or not."""
    return sorted(__all__)


_PROBLEMS = """
AmericanPut AssetSelling Bandit BettingGame DeepSea Gambler Garnet ICUSepsis Inventory Liquidation MachineReplacement
PerishableInventory Portfolio RiverSwim SafeOrRisky SlipperyCliff Staffing TreatmentChoice
""".split()
for _name in _PROBLEMS:
    # Gymnasium warns if an id is registered twice, for example on reload.
    if f"bqrl/{_name}-v0" not in registry:
        register(f"bqrl/{_name}-v0", entry_point="bqrl.envs:make_env", kwargs={"name": _name})
