"""A whole study: tune every learner, then run the winners on held-out seeds, on further seeds, and on variants.

One job is one learner trained for one level, or once for all levels if its training does not depend on the level.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.display import Watch
from bqrl.laws.law import size_of
from bqrl.laws.objectives import Objective, Quantile, check_objective
from bqrl.learners.record import Record, capped_reference
from bqrl.learners.score import optimum, scoring_grid
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.model import MDP, per_model
from bqrl.planners.confidence import log_buffer
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.expected import best_mean
from bqrl.policies.markov import MarkovPolicy
from bqrl.study.runner import Batch, Engine, Job
from bqrl.study.scores import Contender, Experiment, late_return
from bqrl.study.spec import Entry, Spec
from bqrl.study.store import RunSpec, Store
from bqrl.study.tune import Tuned, halving
from bqrl.study.workers import LocalWorkers, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Reference values for runs on a problem at one level."""

    tau: float
    capped: float | None  # the paper's numerical reference, where the study shows gaps to it
    optimum: float  # the best objective value of any policy
    best_mean: float
    # tau - P(G < optimum) under the optimal policy: how far the level is from the next lower quantile
    margin: float | None


@per_model
def reference(mdp: MDP, objective: Objective | float, capped: bool = True) -> Reference:
    """References of a model for an objective or a level; the capped one only on request, because not every problem has one."""
    goal = check_objective(objective)
    tau = float(getattr(goal, "tau", np.nan))
    return Reference(
        tau=tau, capped=capped_reference(mdp, tau) if capped else None, optimum=optimum(mdp, goal).value(goal),
        best_mean=best_mean(mdp)[0], margin=guarantee_curve(mdp).margin(tau).below if isinstance(goal, Quantile) else None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Final:
    """A learner trained for one level: how it was tuned, and the records of its final runs."""

    learner: Contender  # under its key
    tau: float
    tuned: Tuned | None
    tried: dict[float, list[Record]]  # by value: tuning runs as long as a final run, one per validation seed
    records: dict[str, tuple[Record, ...]]  # by variant or "", one per seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Picked:
    """The final policy shown for a level, from the seed with the least quantile error; ties go to the least buffered error.

    If this ties, too, the smallest seed decides.
    """

    seed: int
    actions: IntArray  # (H, S)
    errors: dict[int, tuple[float, float]]  # quantile and buffered error of the last episode, by held-out seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A finished study."""

    spec: Spec
    finals: dict[tuple[str, float], Final]  # by the learner's key and the level at which it is scored
    experiments: dict[tuple[str, float], Experiment]  # the final runs by variant or "" and level; labels are keys
    tunings: dict[tuple[str, float], Tuned]  # by the learner's key and the level that it was tuned for
    picked: dict[float, Picked]  # by level
    session: dict[str, Any]  # times and counts, which may differ between two executions of the study

    def problem(self, variant: str = "") -> MDP:
        """The model of a variant."""
        return self.experiments[variant, self.spec.levels[0]].problem

    def shown(self, tau: float, variant: str = "", names: Mapping[str, str] | None = None) -> Experiment:
        """The final runs on the seeds of tables and curves: the held-out seeds or, for a variant, its own."""
        seeds = self.spec.study.variant_seeds if variant else self.spec.study.seeds
        return self.experiments[variant, tau].part(seeds, names)

    def ranked(self, tau: float, variant: str = "", names: Mapping[str, str] | None = None) -> Experiment:
        """The final runs on the seeds that decide rankings."""
        return self.experiments[variant, tau].part(self.spec.ranking_seeds(variant), names)

    def reference(self, tau: float, variant: str = "") -> Reference:
        """Reference values of a variant at one level."""
        return reference(self.problem(variant), self.spec.goals[tau], "capped" in self.spec.measures)


def run_study(spec: Spec, folder: str | Path, workers: Workers | None = None, watch: Watch | None = None) -> Study:
    """Carry out the missing runs of a study and score it.

    The folder stores every finished run, so that a second call continues. The workers, by default processes on all cores, are
    always closed. Raises FailedRunsError if runs failed; all others are stored.
    """
    workers = LocalWorkers() if workers is None else workers
    try:
        for (_, problem, _), goal in product(spec.problems, spec.goals.values()):
            reference(problem.model, goal, "capped" in spec.measures)  # an impossible one must fail before the runs
        watch = Watch() if watch is None else watch
        with Store(folder, watch.say) as store:
            jobs = []
            for entry in spec.learners.values():
                runs, episodes = spec.workload(entry)
                for tau in spec.training_levels(entry):
                    label = f"{entry.label}, tau {tau:g}" if entry.per_level else entry.label
                    steps = _steps(spec, entry, tau, store)
                    jobs.append(Job(label=label, steps=steps, total_runs=runs, total_episodes=episodes))
            engine, quick = Engine(jobs, store, workers, watch), " (quick run)" if spec.quick else ""
            total = f"{sum(job.total_runs for job in jobs)} runs, {engine.episodes()[1]} episodes"
            store.say(f"{spec.study.name}{quick}: {total}, {workers.size} at a time")
            engine.drive()
            store.say(f"{engine.made} runs made, {engine.skipped} skipped because they were finished before")
            times = store.times()  # includes the times of runs from earlier sessions
            session = {
                "seconds": engine.seconds, "workers": workers.size, "runs": len(engine.used), "runs_made": engine.made,
                "runs_skipped": engine.skipped, "episodes": sum(run.episodes for run in engine.used.values()),
                "core_seconds": sum(times[name].core for name in engine.used if name in times),
            }  # fmt: skip
            return _study(spec, [job.outcome for job in jobs], session)
    finally:
        workers.close()


def _steps(spec: Spec, entry: Entry, tau: float, store: Store) -> Generator[Batch, None, Final]:
    """Tune the learner, then run the winner."""
    tuned, value, best, plan = None, None, "", spec.tuning
    tried: dict[float, list[Record]] = {}
    if plan is not None and entry.tuned is not None:
        validation, tail = plan.seeds, plan.tail

        def runs(value: float, episodes: int) -> list[RunSpec]:
            return [spec.run(entry, tau, seed, value=value, episodes=episodes) for seed in validation]

        def score(run: RunSpec) -> tuple[float, float]:
            record = store.load(run)
            goal = spec.goals.get(tau, Quantile(tau))
            return float(record.gap(goal, spec.measures[0]).sum()), late_return(record, tail)

        size = size_of(scoring_grid(spec.problem.model).points(0))
        tuned = yield from halving(entry.tuned, entry.values(plan.points), plan.rungs, runs, score, size)
        value = tuned.winner.value
        best = f"{tuned.parameter} = {value:g}"
        for rung in tuned.rungs:
            if rung.episodes == spec.episodes:
                tried |= {trial.value: list(map(store.load, runs(trial.value, spec.episodes))) for trial in rung.trials}
    final = {
        variant: [spec.run(entry, tau, seed, value=value, problem=problem) for seed in seeds]
        for variant, problem, seeds in spec.problems
    }
    yield Batch("final runs", list(chain(*final.values())), best)
    return Final(
        learner=Contender(label=entry.key, learner=final[""][0].learner, params=dict(final[""][0].params)), tau=tau,
        tuned=tuned, tried=tried, records={variant: tuple(map(store.load, some)) for variant, some in final.items()},
    )  # fmt: skip


def _study(spec: Spec, done: list[Final], session: dict[str, Any]) -> Study:
    """The final runs as one experiment per problem and level; a learner that is trained once takes part at every level."""
    finals = {
        (final.learner.label, tau): final
        for final in done
        for tau in spec.levels
        if final.tau == tau or not spec.learners[final.learner.label].per_level
    }
    experiments = {}
    for (variant, problem, seeds), tau in product(spec.problems, spec.levels):
        chosen = [finals[key, tau] for key in spec.learners]
        experiments[variant, tau] = Experiment(
            problem=problem.model, objective=spec.goals[tau], episodes=spec.episodes, seeds=seeds,
            learners=tuple(final.learner for final in chosen),
            records={final.learner.label: final.records[variant] for final in chosen},
        )  # fmt: skip
    picked = {tau: _pick_policy(spec, experiments["", tau]) for tau in spec.levels}
    return Study(
        spec=spec, finals=finals, experiments=experiments,
        tunings={(final.learner.label, final.tau): final.tuned for final in done if final.tuned is not None},
        picked={tau: one for tau, one in picked.items() if one is not None}, session=session,
    )  # fmt: skip


def _pick_policy(spec: Spec, experiment: Experiment) -> Picked | None:
    """The final policy to show; None if the study names no learner for it or the policy is not Markov."""
    if spec.final_policy is None:
        return None
    seeds, tau, beta = spec.study.seeds, experiment.tau, log_buffer(experiment.tau)(spec.episodes - 1)
    runs = dict(zip(seeds, experiment.part(seeds).records[spec.final_policy.learner], strict=True))
    errors = {
        seed: (
            float(record.gap(experiment.objective, spec.measures[0])[-1]),
            float(record.buffered_error(tau, beta)[-1]),
        )
        for seed, record in runs.items()
    }
    seed = min(errors, key=lambda seed: (*np.round(errors[seed], 12), seed))
    policy = runs[seed].final_policy
    if not isinstance(policy, MarkovPolicy):
        return None
    return Picked(seed=seed, actions=policy.actions.astype(np.int64), errors=errors)
