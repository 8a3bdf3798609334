"""Public names for type checkers and editors; `__init__.py` imports them on first use."""

# ruff: noqa: I001 (one line per module)

from bqrl import envs as envs
from bqrl import errors as errors
from bqrl import theory as theory
from bqrl.files import load as load, save as save
from bqrl.laws.law import Law as Law
from bqrl.learners.protocol import Learner as Learner
from bqrl.learners.record import Record as Record
from bqrl.learners.run import learn as learn
from bqrl.logs.estimate import Estimate as Estimate
from bqrl.logs.fit import fit as fit
from bqrl.mdp.model import MDP as MDP
from bqrl.mdp.policy import (
    LabelPolicy as LabelPolicy,
    MarkovPolicy as MarkovPolicy,
    MixturePolicy as MixturePolicy,
    Policy as Policy,
    QuantileLevelPolicy as QuantileLevelPolicy,
    StochasticPolicy as StochasticPolicy,
    TargetPolicy as TargetPolicy,
)
from bqrl.mdp.step import from_step as from_step
from bqrl.mdp.toy_text import from_gymnasium as from_gymnasium
from bqrl.planners.confidence import (
    constant_buffer as constant_buffer,
    log_buffer as log_buffer,
    power_buffer as power_buffer,
)
from bqrl.planners.evaluate import evaluate as evaluate, simulate as simulate
from bqrl.planners.plan import Plan as Plan
from bqrl.planners.solve import solve as solve
from bqrl.planners.target import GuaranteeCurve as GuaranteeCurve, guarantee_curve as guarantee_curve
from bqrl.study.compare import compare as compare
from bqrl.study.scores import Experiment as Experiment

__version__: str
__all__: list[str]
