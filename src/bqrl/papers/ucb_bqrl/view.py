"""The view of this study: offers, Stop and Continue, and the printed numbers of the paper next to ours.

A printed number is a mean over a few seeds, and so is ours. The further seeds measure how far two of these means differ by
chance. A larger difference has a cause; if the cause is not known, the view says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from bqrl.laws.objectives import Quantile
from bqrl.learners.record import Record
from bqrl.planners.greedy import plan_greedy
from bqrl.policies.markov import MarkovPolicy
from bqrl.results.charts import BLUE, RED, chart_of, lines
from bqrl.results.plan_charts import Steps
from bqrl.results.result import Result, ResultTable
from bqrl.results.study_view import StudyView
from bqrl.results.words import sentence, two_decimals
from bqrl.study.scores import MEASURES
from bqrl.study.settings import Level, Settings, read_settings
from bqrl.study.study import Final, Study
from bqrl.study.tables import shown_states

DIGITS = 0.005  # half of the last printed digit
ERRORS = 2.0  # differences up to this number of standard errors may be chance
VERDICTS = {
    "equal": "equal in all printed digits",
    "chance": "within two standard errors of ours",
    "apart": "further away from ours",
    "none": "without a number of ours",
}
QUICK = "A quick run with fewer episodes than in print: the two numbers are not comparable."
COLUMNS = "where level what label printed ours ours_std difference further_mean further_std reason".split()
TITLES = {
    "level": "τ", "label": "learner", "ours_std": "standard deviation", "further_mean": "further seeds, mean",
    "further_std": "further seeds, standard deviation",
}  # fmt: skip

CONSOLE = {  # columns of the printed numbers that the console shows, by title
    "where": "where", "level": "level", "label": "label", "printed": "printed", "ours": "ours", "ours_std": "ours_std",
    "further seeds": "further_mean", "further seeds_std": "further_std",
}  # fmt: skip


class Printed(Settings):
    """A number that the paper prints: a measure at the last episode, or the threshold of a final policy."""

    level: Level
    value: float
    where: str = ""
    learners: Annotated[tuple[str, ...], Field(min_length=1)]  # if several, the one with the smallest measure is meant
    measure: Literal["capped", "exact", "expected", "threshold"] = "capped"


class PrintedNumbers(Settings):
    """The contents of printed.toml."""

    printed: Annotated[tuple[Printed, ...], Field(min_length=1)]


def read_printed() -> tuple[Printed, ...]:
    """Return the printed numbers from printed.toml."""
    return read_settings(Path(__file__).with_name("printed.toml"), PrintedNumbers).printed


class View(StudyView):
    """The study as the paper presents it."""

    state_title = "offer"
    numbers = True  # 1 = Continue, 0 = Stop, as the figure code of the paper expects
    table_names, chart_names = [*StudyView.table_names, "printed_numbers"], [*StudyView.chart_names, "quantile_jumps"]

    def __init__(self, study: Study, printed: Sequence[Printed] | None = None) -> None:
        super().__init__(study)
        self.comparison = [
            self._compare(one)
            for one in (read_printed() if printed is None else printed)
            if one.level in self.spec.levels and self.labels.keys() >= set(one.learners)
        ]

    def problem_title(self, variant: str) -> str:
        """Return the name of the offers: those of the paper, or a variant."""
        return f"{variant.replace('_', ' ')} offers" if variant else "offers as in the paper"

    def policy_title(self, tau: float) -> str:
        """Return a sentence on the offer up to which the final policy continues at the first stage."""
        rule = self._first_threshold(self.study.picked[tau].actions)
        does = "has no threshold rule" if rule is None else f"continues up to offer {rule}"
        return f"τ = {tau:g}: the final policy {does} at the first stage"

    def headline(self) -> list[str]:
        """Return the number of printed numbers that agree, and the headline of every study."""
        return [*self._agreement(), *super().headline()]

    def _agreement(self) -> list[str]:
        """Return the sentence on the printed numbers that agree; a quick run has none."""
        kinds = [row["verdict"] for row in self.comparison]
        if not kinds or self.spec.quick:
            return []
        counts = [f"{kinds.count(kind)} {words}" for kind, words in VERDICTS.items() if kind in kinds]
        return [f"Of {len(kinds)} printed numbers, {', '.join(counts)}."]

    def sentences(self) -> list[str]:
        """Return the sentences of the study, preceded by the number of printed numbers that agree."""
        found = [*self._agreement(), *super().sentences()]
        if self.spec.variants:
            found.append(
                "Uniform offers are what every learner assumes before it has seen any; on the other offers the same final"
                " configurations run without new tuning."
            )
        return found

    def tables(self) -> dict[str, ResultTable]:
        """Return the tables of the study, preceded by the printed numbers."""
        caption = (
            "Printed numbers and ours. Ours: mean and sample standard deviation over"
            f" {len(self.spec.study.seeds)} held-out seeds; further seeds: the same over {len(self.spec.ranking_seeds())} others."
        )
        rows = [{name: row.get(name) for name in COLUMNS} for row in self.comparison]
        return (
            {"printed_numbers": ResultTable(rows, titles=TITLES, caption=caption)} if rows else {}
        ) | super().tables()

    def console_tables(self, result: Result) -> list[ResultTable]:
        """Return the printed numbers beside ours."""
        printed = result.tables.get("printed_numbers", ResultTable([]))
        return [replace(printed, rows=[{name: row[key] for name, key in CONSOLE.items()} for row in printed.rows])]

    def charts(self) -> dict[str, Any]:
        """Return the charts of every study and the appendix figure of the paper."""
        return {**super().charts(), "quantile_jumps": jumps_chart()}

    def details(self) -> dict[str, Any]:
        """Return the details of the study, with the comparison of printed numbers."""
        return {"comparison": self.comparison, **super().details()}

    def published(self) -> list[tuple[float, str, str, float]]:
        """Return the printed values of measures at the last episode."""
        ends = [row for row in self.comparison if row["measure"] in self.measures]
        return [(row["level"], row["measure"], row["learner"], row["printed"]) for row in ends]

    # -- printed numbers --------------------------------------------------------------------------------------------------

    def _compare(self, one: Printed) -> dict[str, Any]:
        """Return a printed number and ours, with a verdict and the reason for a difference."""
        key = one.learners[0]
        if len(one.learners) > 1:
            ends = self.study.shown(one.level).ends(one.measure)
            key = min(one.learners, key=lambda key: (float(ends[key].mean()), key))
        found = self._compare_threshold(one, key) if one.measure == "threshold" else self._compare_end(one, key)
        found |= {
            "where": one.where,
            "level": one.level,
            "measure": one.measure,
            "learner": key,
            "label": self.labels[key] + (", smallest of the rest" if len(one.learners) > 1 else ""),
            "printed": one.value,
            "difference": None if found["ours"] is None else found["ours"] - one.value,
        }
        return found | ({"verdict": "none", "reason": QUICK} if self.spec.quick else {})

    def _compare_end(self, one: Printed, key: str) -> dict[str, Any]:
        """Return our value of a cumulative measure at the last episode, with a verdict and a reason."""
        held_out, further = (part(one.level).ends(one.measure)[key] for part in (self.study.shown, self.study.ranked))
        ours, mean, std = float(held_out.mean()), float(further.mean()), float(further.std(ddof=1))
        spread = std * np.sqrt(1.0 / held_out.size + 1.0 / further.size)
        near = "chance" if abs(one.value - mean) <= ERRORS * spread else "apart"
        verdict = "equal" if abs(ours - one.value) < DIGITS else near
        usual = f"{two_decimals(mean)} with a standard deviation of {two_decimals(std / np.sqrt(held_out.size))}"
        reasons = [
            sentence(VERDICTS[verdict]),
            f"On {further.size} other seeds a mean of {held_out.size} runs is {usual}.",
        ]
        reasons += [self._open_choices(one, key)] if verdict == "apart" else []
        against = self.study.reference(one.level)
        if one.measure == "capped" and against.capped is not None and abs(against.capped - against.optimum) > 1e-9:
            exact = float(self.study.shown(one.level).ends("exact")[key].mean())
            reasons.append(
                f"The capped reference is {against.capped:.6g} by the printed rules (its value is not printed); the exact"
                f" optimum is {against.optimum:.6g}, and against it ours is {exact:.2f}."
            )
        return {
            "what": f"cumulative {MEASURES[one.measure][0]} after {self.spec.episodes} episodes", "ours": ours,
            "ours_std": float(held_out.std(ddof=1)), "further_mean": mean, "further_std": std, "verdict": verdict,
            "reason": " ".join(reasons),
        }  # fmt: skip

    def _open_choices(self, one: Printed, key: str) -> str:
        """Return what the paper leaves open, and which tried value of the parameter comes nearest to the printed number."""
        final, by_episode = self.study.finals[key, one.level], MEASURES[one.measure][1]
        left = filter(None, (self.spec.learners[key].open, "the ranges of the grids"))
        text = f"The cause is not known; left open in print: {'; '.join(left)}."
        if final.tuned is None or not final.tried:
            return text
        ends = {
            value: float(np.mean([by_episode(record, Quantile(one.level)).sum() for record in records]))
            for value, records in final.tried.items()
        }
        value = min(ends, key=lambda value: (abs(ends[value] - one.value), value))
        nearest = f"{value:g} comes nearest to the printed number: {ends[value]:.2f} on the validation seeds"
        return f"{text} {self._tuning_text(final)}, {nearest}."

    def _tuning_text(self, final: Final) -> str:
        """Return how a learner was tuned, as the beginning of a sentence on the values that were tried."""
        assert final.tuned is not None
        ours, among = f"{final.tuned.parameter} = {final.tuned.winner.value:g}", f"{len(final.tried)} values"
        return f"Ours is tuned to {ours}; of the {among} tried over {self.spec.episodes} episodes"

    def _compare_threshold(self, one: Printed, key: str) -> dict[str, Any]:
        """Return the highest offer at which our final policy continues at its first stage, with a verdict and a reason."""
        records, final = self.study.experiments["", one.level].records[key], self.study.finals[key, one.level]
        picked, held_out = self.study.picked.get(one.level), len(self.spec.study.seeds)
        ours = None if picked is None else self._first_threshold(picked.actions)

        def count(records: Sequence[Record]) -> int:
            """Return the number of final policies with the printed threshold."""
            policies = [record.final_policy for record in records]
            return sum(isinstance(p, MarkovPolicy) and self._first_threshold(p.actions) == one.value for p in policies)

        reason = (
            f"{count(records[:held_out])} of {held_out} held-out and {count(records[held_out:])} of"
            f" {len(records) - held_out} further final policies have the printed threshold."
        )
        if ours != one.value and final.tuned is not None and final.tried:
            values = [f"{value:g}" for value, records in final.tried.items() if count(records) > len(records) / 2]
            reason += f" {self._tuning_text(final)}, these end with it on most validation seeds: {', '.join(values) or 'none'}."
        policy = plan_greedy(self.study.problem(), one.level).policy
        if final.learner.params.get("planner") == "greedy" and isinstance(policy, MarkovPolicy):
            rule = self._first_threshold(policy.actions)
            reason += f" The same planner on the true kernel without a buffer continues up to {rule}."
        verdict = "none" if ours is None else "equal" if ours == one.value else "apart"
        what = "first stage of the final policy: continue up to offer"
        return {"what": what, "ours": ours, "verdict": verdict, "reason": reason}

    def _first_threshold(self, actions: Any) -> int | None:
        """Return the highest offer at which a policy continues at its first stage; None if it has no threshold there."""
        continues = actions[0, shown_states(self.study)] == 1
        count = int(continues.sum())
        return count - 1 if continues[:count].all() else None


def jumps_chart(tau: float = 0.5, rho: float = 0.0625, H: int = 2) -> Any:
    """Return the appendix figure of the paper: the levels at which the quantiles of the actions jump."""
    rho_sign = "\N{GREEK SMALL LETTER RHO}"
    named = {"best action": tau - rho, "every other action": tau + rho}  # the levels at which the quantiles jump
    values = np.array([0.0, H - 1.0])
    curves = [Steps(np.array([0.0, jump]), values).curve(name) for name, jump in named.items()]
    scale = {"x": {"domain": [tau - 3.5 * rho, tau + 3.5 * rho]}}
    colours = dict(zip(named, (BLUE, RED), strict=True))
    drawn = lines(curves, "level q", "q-quantile of the return", scales=scale, colours=colours, step=True, dashed=True)
    rule = chart_of(["x"], [[tau]]).mark_rule(strokeDash=[4, 3]).encode(x=drawn.x)
    best = f"the quantile of the best action is H \N{MINUS SIGN} 1 = {H - 1}, that of every other action 0"
    finding = f"Within {rho_sign} = {rho:g} of τ {best}."
    title = "Where the quantiles of the actions jump"
    return drawn.chart(title, f"Dashed line: τ = {tau:g}.", rule, finding=finding)
