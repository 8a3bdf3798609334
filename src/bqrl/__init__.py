"""Planning and learning for quantiles of the total return.

    models      MDP, load, from_step, from_gymnasium, envs.make
    plans       solve, guarantee_curve, evaluate, simulate, rule_table
    decisions   strategies, sensitivity, tradeoff, stress, expected_outcomes, outcome_law, report
    learning    learn, compare, Learner
    logs        fit, fit_counts
    files       load, save
    theory      bounds and hard instances

`help(bqrl.solve)` describes `solve` with an example, and likewise for every other name.

Names are imported on first use, which keeps `import bqrl` fast: Numba, SciPy and the plotting libraries are imported only
when needed. `__init__.pyi` lists the same names for type checkers and editors. Importing also registers our problems with
Gymnasium, e.g. `gymnasium.make("bqrl/AssetSelling-v0")`.
"""

from importlib import import_module
from typing import Any

from gymnasium.envs.registration import register, registry

from bqrl.problems import PROBLEMS

__version__ = "0.1.0"

_MODULES = ("envs", "errors", "theory")
_NAMES = {  # public names by module
    "files": "load save",
    "laws.law": "Law",
    "laws.objectives": "Buffered CVaR Mean Objective Quantile",
    "laws.sample": "Sample",
    "learners.protocol": "Episode Learner Task",
    "learners.record": "Record",
    "learners.run": "learn",
    "logs.counts": "fit_counts",
    "logs.estimate": "Estimate",
    "logs.fit": "fit",
    "logs.posterior": "PosteriorDraws",
    "mdp.grid_step": "GridModel",
    "mdp.model": "MDP",
    "mdp.step": "from_step",
    "mdp.from_gymnasium": "from_gymnasium",
    "mdp.unstored": "StepModel",
    "policies.earned": "EarnedPolicy",
    "policies.envelope": "EnvelopePolicy",
    "policies.labels": "LabelPolicy",
    "policies.on_grid": "GridPolicy",
    "policies.levels": "QuantileLevelPolicy",
    "policies.markov": "MarkovPolicy",
    "policies.mixture": "MixturePolicy",
    "policies.protocol": "Policy",
    "policies.rule_table": "RuleTable rule_table",
    "policies.stochastic": "StochasticPolicy",
    "policies.target": "TargetPolicy",
    "planners.chance": "Chance",
    "planners.entropic": "Entropic",
    "planners.mean_cvar": "MeanCVaR",
    "planners.utility": "Utility",
    "planners.confidence": "constant_buffer log_buffer power_buffer",
    "planners.evaluate": "evaluate",
    "planners.forecast": "Forecast forecast",
    "planners.grid_curve": "GridCurve",
    "planners.outcomes": "expected_outcomes outcome_law",
    "planners.outlook": "Outlook",
    "planners.plan": "Plan",
    "planners.solve": "solve",
    "planners.strategies": "Strategies sensitivity strategies",
    "planners.stress": "Stress stress",
    "planners.target": "GuaranteeCurve guarantee_curve",
    "planners.tradeoff": "Tradeoff tradeoff",
    "results.report": "report",
    "study.compare": "compare",
    "study.scores": "Experiment",
    "study.simulate": "simulate",
    "study.suite": "Suite",
}
_HOME = {name: f"bqrl.{module}" for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted([*_HOME, *_MODULES])


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
