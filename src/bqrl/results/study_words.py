"""What a study says in the words of its problem: sentences, tables, settings and numbers for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import numpy as np

from bqrl.envs import about
from bqrl.mdp.model import MDP
from bqrl.results.charts import learner_colours
from bqrl.results.result import Table, versions
from bqrl.results.words import Words, cell, fixed, listed, number, order_of
from bqrl.study.problems import Problem
from bqrl.study.scores import PROVEN, Experiment
from bqrl.study.store import fingerprint
from bqrl.study.study import Study
from bqrl.study.tables import level_name, shown_states
from bqrl.theory import reward_spans

QUICK = "Quick run: few episodes and seeds; these are not the numbers of the study."


class StudyWords:
    """A study in words and tables; states and actions have the names of the problem."""

    state_title = "state"
    numbers = False  # whether tables of policies hold the numbers of actions instead of their names

    def __init__(self, study: Study) -> None:
        self.study, self.spec = study, study.spec
        self.labels = {key: entry.label for key, entry in study.spec.learners.items()}
        self.colours = learner_colours(study.shown(study.spec.levels[0], names=self.labels).learners)  # in all charts
        self.measures: list[str] = [name for name in ("exact", "capped", "expected") if name in study.spec.measures]
        self.versions = versions() | {"code": fingerprint()}
        words, own = words_of(study.spec.problem, study.problem()), study.spec.study
        self.words = replace(words, unit=own.unit or words.unit, stage=own.stage or words.stage)
        self.span = float(reward_spans(study.problem()).max()) or 1.0  # of the rewards of one stage
        self.scale: dict[str, Any] = {"type": "symlog", "constant": self.span}  # of cumulative measures
        widest = max(study.experiments.values(), key=lambda one: one.error)
        self.measure_name = widest.measure_name
        self.optimum = PROVEN if widest.error else "exact optimum"  # what gaps are measured against
        self.bracket = self.words.bracket(widest.error, max(one.score_error for one in study.experiments.values()))

    def problem_title(self, variant: str) -> str:
        """Name of the problem or of one of its variants."""
        return variant.replace("_", " ") if variant else self.spec.problem.name

    def promises_of(self, key: str, tau: float) -> list[float]:
        """Quantiles of the policies of the last episode, one per held-out seed."""
        return [float(record.quantile(tau)[-1]) for record in self.study.shown(tau).records[key]]

    def order(self, tau: float, measure: str, variant: str = "", *, shown: bool = False) -> str:
        """Which learner ends best, on the seeds of the curves that are `shown` or on those that no choice was made on."""
        return self.ordered((self.study.shown if shown else self.study.ranked)(tau, variant, self.labels), measure)

    def ordered(self, part: Experiment, measure: str) -> str:
        """Which learner of a part of the study ends best, and on which seeds."""
        return f"τ = {part.tau:g}, {self.seeds_of(part)}: {order_of(part, measure, self.words)}"

    def seeds_of(self, part: Experiment) -> str:
        """Number and kind of the seeds of a part of the study."""
        names = {self.spec.study.seeds: "held-out seed", self.spec.study.replication_seeds: "further seed"}
        return self.words.count(names.get(part.seeds, "seed"), len(part.seeds))

    def reached(self) -> str:
        """Whose final policies all reach the optimum at each level."""
        parts, least = [], 1e-9 * self.span
        for tau in self.spec.levels:
            best = self.study.reference(tau).optimum
            reach = [label for key, label in self.labels.items() if min(self.promises_of(key, tau)) >= best - least]
            reaches = f"{listed(reach or ['no learner'])} reach{'' if len(reach) > 1 else 'es'}"
            parts.append(f"{reaches} it on every held-out seed at τ = {tau:g} ({self.words.amount(number(best))})")
        return f"The {self.optimum}: {'; '.join(parts)}"

    def policy_title(self, tau: float) -> str:
        """What the final policy of a level does at its first stage, in the states that are shown."""
        mdp = self.study.problem()
        shares = np.bincount(self.study.picked[tau].actions[0, shown_states(self.study)], minlength=mdp.A)
        played = [mdp.action_label(a) for a in np.argsort(-shares, kind="stable").tolist() if shares[a]]
        return f"τ = {tau:g}: in the first {self.words.stage} the final policy plays {listed(played)}"

    def sentences(self) -> list[str]:
        """What a reader should not miss."""
        found = [QUICK] if self.spec.quick else []
        for tau in self.spec.levels:
            against = self.study.reference(tau)
            found.append(f"{self.order(tau, 'exact')}.")
            if against.capped is not None and abs(against.capped - against.optimum) > 1e-9 * self.span:
                capped, exact = (self.words.amount(number(x)) for x in (against.capped, against.optimum))
                found.append(f"τ = {tau:g}: the capped reference is {capped}, the {self.optimum} {exact}.")
        found += [self.bracket] if self.bracket else []
        flat = [tuned.edge[1] for tuned in self.study.tunings.values() if tuned.edge is not None]
        if flat:
            lie = "lies" if len(flat) == 1 else "lie"
            found.append(
                f"{len(flat)} of {len(self.study.tunings)} winners of the tuning {lie} on an edge of the grid,"
                f" {len(flat) - flat.count(True)} of them where the criterion is not known to be flat."
            )
        return found

    # -- tables -----------------------------------------------------------------------------------------------------------

    def tables(self) -> dict[str, Table]:
        """Tables of the page, by name."""
        found = {"orderings": self._orderings()}
        if self.spec.study.replication_seeds:
            found["further_seeds"] = self._ends(self.study.ranked)
        found["held_out"] = self._ends(self.study.shown)
        for variant in self.spec.variants:
            found[f"variant_{variant}"] = self._ends(self.study.shown, variant)
        found["references"] = self._references()
        if self.study.tunings:
            found["tuning_winners"] = self._tuning()
        facts = self.versions | self.study.session
        rows = [{"what": name.replace("_", " "), "value": cell(value)} for name, value in facts.items()]
        caption = "How the study was made: versions, runs and times."
        return found | {"session": Table(rows, titles={"what": "", "value": ""}, caption=caption)}

    def _orderings(self) -> Table:
        rows = []
        for tau, measure in product(self.spec.levels, self.spec.measures):
            text = ""
            for row in self.study.ranked(tau).order(measure):
                mean = fixed(row["mean"]) if self.span > 0.1 else number(row["mean"])  # the decimals of small amounts
                text += f"{self.labels[row['learner']]} {mean}"
                text += {True: " < ", False: " ≈ ", None: ""}[row["clear"]]
            rows.append({"tau": tau, "measure": self.measure_name(measure), "order": text})
        on = self.seeds_of(self.study.ranked(self.spec.levels[0]))
        on += ", on which no choice was made" if self.spec.study.replication_seeds else ""
        signs = "<: the next mean is more than two standard errors larger, seed by seed; ≈: it is not"
        caption = f"Learners from the smallest mean on; {on}. {signs}."
        return Table(rows, titles={"tau": "τ", "order": self.words.titled("smallest first")}, caption=caption)

    def _ends(self, part: Callable[[float, str], Experiment], variant: str = "") -> Table:
        rows, titles = [], {}
        for measure, (key, label) in product(self.spec.measures, self.labels.items()):
            row: dict[str, Any] = {"measure": self.measure_name(measure), "learner": label}
            for tau in self.spec.levels:
                name, values = f"tau{level_name(tau)}", part(tau, variant).ends(measure)[key]
                std = float(values.std(ddof=1)) if values.size > 1 else None
                row |= {f"{name}_mean": float(values.mean()), f"{name}_std": std}
                titles[f"{name}_mean"] = self.words.titled(f"τ = {tau:g}, mean")
                titles[f"{name}_std"] = self.words.titled(f"τ = {tau:g}, standard deviation")
            rows.append(row)
        on = f"{self.seeds_of(part(self.spec.levels[0], variant))}, {self.problem_title(variant)}"
        caption = f"Last cumulative values on {on}: mean and sample standard deviation."
        return Table(rows, titles=titles, caption=caption)

    def _references(self) -> Table:
        rows = []
        for variant, tau in self.study.experiments:
            found = self.study.reference(tau, variant)
            row = {"problem": self.problem_title(variant), "tau": tau}
            row |= {} if found.capped is None else {"capped": found.capped}
            rows.append(row | {"exact": found.optimum, "best_mean": found.best_mean, "margin": found.margin})
        amounts = {"capped": "capped reference", "exact": self.optimum, "best_mean": "best mean"}
        titles = {"tau": "τ"} | {key: self.words.titled(title) for key, title in amounts.items()}
        caption = (
            "What gaps and regrets are measured against. The margin says how far the level lies above the probability of"
            " ending below the optimum; an optimum with a small margin is fragile."
        )
        return Table(rows, titles=titles, caption=f"{caption} {self.bracket}".rstrip())

    def _tuning(self) -> Table:
        rows = [
            {
                "learner": self.labels[key], "tau": tau, "parameter": tuned.parameter, "winner": tuned.winner.value,
                "lowest": tuned.values[0], "highest": tuned.values[-1], "verdict": tuned.verdict(),
            }
            for (key, tau), tuned in self.study.tunings.items()
        ]  # fmt: skip
        titles = {"tau": "tuned at τ", "lowest": "lowest value of the grid", "highest": "highest value"}
        return Table(rows, titles=titles | {"verdict": "where it lies"}, caption="Winners of the tuning.")

    # -- data -------------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """Every setting that is not empty, by table and name."""
        problem = self.spec.problem
        found: dict[str, Any] = {
            "quick": self.spec.quick,
            "problem": {"name": problem.name, "params": dict(problem.given)},
        }
        for table, settings in self.spec.model_dump(exclude={"quick", "problem"}, exclude_none=True).items():
            found |= {f"{table} {name}": value for name, value in settings.items() if value not in ("", ())}
        return found

    def details(self) -> dict[str, Any]:
        """All numbers of the study, for programs; `session` is all that may differ between two executions."""
        orderings: dict[str, Any] = {}
        for variant, tau in self.study.experiments:
            rows = {measure: self.study.ranked(tau, variant).order(measure) for measure in self.spec.measures}
            orderings.setdefault(self.problem_title(variant), {})[repr(tau)] = rows
        picked = {repr(tau): {"seed": one.seed, "errors": one.errors} for tau, one in self.study.picked.items()}
        return {
            "orderings": orderings,
            "final_policies": picked,
            "tuning": {f"{key} {tau!r}": asdict(tuned) for (key, tau), tuned in self.study.tunings.items()},
            "versions": self.versions,
            "session": self.study.session,
        }


def words_of(problem: Problem, mdp: MDP) -> Words:
    """The words of the problem of a study: those of a named problem, else the unit of its model."""
    if problem.form != "name":
        return Words.of(mdp)
    known = about(problem.name)
    return Words(title=problem.name, unit=known.unit, stage=known.stage)
