"""The public names, one line each; `__init__.py` reads this list and imports them on first use."""

# ruff: noqa: I001 (one line per module)

from bqrl import envs as envs
from bqrl import errors as errors
from bqrl import theory as theory
from bqrl.files import load as load, save as save
from bqrl.laws.law import Law as Law
from bqrl.laws.objectives import (
    Buffered as Buffered,
    CVaR as CVaR,
    Mean as Mean,
    Objective as Objective,
    Quantile as Quantile,
)
from bqrl.laws.sample import Sample as Sample
from bqrl.learners.protocol import Episode as Episode, Learner as Learner, Task as Task
from bqrl.learners.record import Record as Record
from bqrl.learners.run import learn as learn
from bqrl.logs.counts import fit_counts as fit_counts
from bqrl.logs.estimate import Estimate as Estimate
from bqrl.logs.fit import fit as fit
from bqrl.logs.posterior import PosteriorDraws as PosteriorDraws
from bqrl.mdp.grid_step import GridModel as GridModel
from bqrl.mdp.model import MDP as MDP
from bqrl.mdp.step import from_step as from_step
from bqrl.mdp.unstored import StepModel as StepModel
from bqrl.mdp.from_gymnasium import from_gymnasium as from_gymnasium
from bqrl.planners.chance import Chance as Chance
from bqrl.planners.entropic import Entropic as Entropic
from bqrl.planners.terminal import MeanCVaR as MeanCVaR
from bqrl.planners.terminal import Utility as Utility
from bqrl.planners.confidence import (
    constant_buffer as constant_buffer,
    log_buffer as log_buffer,
    power_buffer as power_buffer,
)
from bqrl.planners.evaluate import evaluate as evaluate
from bqrl.planners.curve import GridCurve as GridCurve, guarantee_curve as guarantee_curve
from bqrl.planners.cvar import CVaRCurve as CVaRCurve
from bqrl.planners.outcomes import expected_outcomes as expected_outcomes, outcome_law as outcome_law
from bqrl.planners.outlook import Outlook as Outlook, outlook as outlook
from bqrl.planners.plan import Plan as Plan
from bqrl.planners.room import Forecast as Forecast, forecast as forecast
from bqrl.planners.solve import solve as solve
from bqrl.planners.strategies import Strategies as Strategies, sensitivity as sensitivity, strategies as strategies
from bqrl.planners.stress import Stress as Stress, stress as stress
from bqrl.planners.target import GuaranteeCurve as GuaranteeCurve
from bqrl.planners.tradeoff import Tradeoff as Tradeoff, tradeoff as tradeoff
from bqrl.policies.earned import EarnedPolicy as EarnedPolicy
from bqrl.policies.envelope import EnvelopePolicy as EnvelopePolicy
from bqrl.policies.labels import LabelPolicy as LabelPolicy
from bqrl.policies.levels import QuantileLevelPolicy as QuantileLevelPolicy
from bqrl.policies.on_grid import GridPolicy as GridPolicy
from bqrl.policies.markov import MarkovPolicy as MarkovPolicy
from bqrl.policies.mixture import MixturePolicy as MixturePolicy
from bqrl.policies.protocol import Policy as Policy
from bqrl.policies.rule_table import RuleTable as RuleTable, rule_table as rule_table
from bqrl.policies.stochastic import StochasticPolicy as StochasticPolicy
from bqrl.policies.target import TargetPolicy as TargetPolicy
from bqrl.results.report import report as report
from bqrl.study.compare import compare as compare
from bqrl.study.scores import Experiment as Experiment
from bqrl.study.simulate import simulate as simulate
from bqrl.study.suite import Suite as Suite

__version__: str
__all__: list[str]
