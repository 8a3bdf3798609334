"""Planning and learning for quantiles of the total return.

Names load on first use, so that `import bqrl` stays quick: Numba, SciPy and the plotting libraries wait until something
needs them. Importing also registers our problems with Gymnasium, e.g. `gymnasium.make("bqrl/AssetSelling-v0")`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register, registry

if TYPE_CHECKING:
    from bqrl import envs, theory
    from bqrl.files import load, load_policy, save
    from bqrl.laws.law import Law
    from bqrl.learners.record import Record
    from bqrl.learners.run import learn
    from bqrl.mdp.gymnasium import from_gymnasium
    from bqrl.mdp.model import MDP
    from bqrl.mdp.policy import LabelPolicy, MarkovPolicy, MixturePolicy, QuantileLevelPolicy, TargetPolicy
    from bqrl.planners.evaluate import evaluate, simulate
    from bqrl.planners.plan import Plan
    from bqrl.planners.solve import guarantee_curve, solve

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "LabelPolicy",
    "Law",
    "MarkovPolicy",
    "MixturePolicy",
    "Plan",
    "QuantileLevelPolicy",
    "Record",
    "TargetPolicy",
    "envs",
    "evaluate",
    "from_gymnasium",
    "guarantee_curve",
    "learn",
    "load",
    "load_policy",
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
    "LabelPolicy": "bqrl.mdp.policy",
    "MarkovPolicy": "bqrl.mdp.policy",
    "MixturePolicy": "bqrl.mdp.policy",
    "QuantileLevelPolicy": "bqrl.mdp.policy",
    "TargetPolicy": "bqrl.mdp.policy",
    "load_policy": "bqrl.files",
    "evaluate": "bqrl.planners.evaluate",
    "simulate": "bqrl.planners.evaluate",
    "Plan": "bqrl.planners.plan",
    "guarantee_curve": "bqrl.planners.solve",
    "solve": "bqrl.planners.solve",
    "Record": "bqrl.learners.record",
    "learn": "bqrl.learners.run",
}
_MODULES = ("envs", "theory")


def __getattr__(name: str) -> Any:
    """The public object called `name`, imported from its home on first use."""
    if name in _MODULES:
        return import_module(f"bqrl.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'bqrl' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value  # the next use skips this function
    return value


def __dir__() -> list[str]:
    """Every public name, loaded or not."""
    return sorted({*globals(), *__all__})


for _name in ("AssetSelling",):
    # The guard keeps a reload quiet: Gymnasium warns about an id that is registered twice.
    if f"bqrl/{_name}-v0" not in registry:
        register(f"bqrl/{_name}-v0", entry_point="bqrl.envs:make_env", kwargs={"name": _name})
