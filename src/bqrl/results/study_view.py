"""A study as a Result, in the words of its problem: sentences, tables, charts, settings, and numbers for programs.

Similar charts are combined into one chart with drop-down lists; the finding under its title depends on the selection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from bqrl.display import PROVEN, format_number, level_name
from bqrl.envs import about
from bqrl.laws.objectives import Quantile
from bqrl.planners.curve import guarantee_curve
from bqrl.progress import ProgressBar
from bqrl.results import charts
from bqrl.results.charts import Curve, Selector, altair, by_label, chart_of, lines, tooltips, view_filter, with_title
from bqrl.results.learning_curves import learner_colours, mean_curve, thinning_note
from bqrl.results.page import PAGE, page
from bqrl.results.plan_charts import LEVEL_TITLE, Steps, policy_chart
from bqrl.results.result import Result, ResultTable, Sentence, Shown, chart_files
from bqrl.results.views import experiment_view
from bqrl.results.words import Words, cell, list_words, order_of, two_decimals
from bqrl.study.problems import Problem, file_name
from bqrl.study.scores import Experiment, band_name
from bqrl.study.spec import Spec
from bqrl.study.study import Study, run_study
from bqrl.study.tables import policy_table, shown_states, study_tables
from bqrl.study.workers import Workers
from bqrl.theory.perturbation import reward_spans
from bqrl.versions import versions

POINTS = 80  # episodes of a curve that are drawn
FIGURES = "figures/"
SEED, HELD_OUT, PUBLISHED = "one seed", "held-out seed", "published value"  # marks of last values
MARKS = {SEED: "circle", HELD_OUT: "diamond", PUBLISHED: "cross"}
QUICK = "Quick run: few episodes and seeds; these are not the numbers of the study."


class StudyView:
    """A study in the words of its problem; the view of a published study is a subclass, which adds what was published."""

    state_title = "state"
    numbers = False  # whether tables of policies hold the numbers of actions instead of their names
    table_names: ClassVar = "orderings further_seeds held_out references tuning_winners session".split()
    chart_names: ClassVar = "every_measure seeds promises tuning".split()

    def __init__(self, study: Study) -> None:
        self.study, self.spec = study, study.spec
        self.labels = {key: entry.label for key, entry in study.spec.learners.items()}
        first = study.shown(study.spec.levels[0], names=self.labels)
        self.colours = learner_colours(first.learners)  # in all charts
        self.measures: list[str] = [name for name in ("exact", "capped", "expected") if name in study.spec.measures]
        self.versions = versions()
        words, own = words_of(study.spec.problem), study.spec.study
        self.words = replace(words, unit=own.unit or words.unit, stage=own.stage or words.stage)
        self.span = float(reward_spans(study.problem()).max()) or 1.0  # of the rewards of one stage
        self.scale: dict[str, Any] = {"type": "symlog", "constant": self.span}  # of cumulative measures
        widest = max(study.experiments.values(), key=lambda one: one.error)
        self.measure_name = widest.measure_name
        self.optimum = PROVEN if widest.error else "exact optimum"  # what gaps are measured against
        self.bracket = self.words.bracket(widest.error, max(one.score_error for one in study.experiments.values()))

    @classmethod
    def files(cls, spec: Spec) -> list[str]:
        """Patterns of the files that the folder of a study may hold."""
        name, tables, charts = file_name(spec.problem.name), ["tuning/*_tau*", *cls.table_names], list(cls.chart_names)
        for level in (f"tau{level_name(tau)}" for tau in spec.levels):
            tables += [f"{name}_{level}_plot", f"{name}_{level}_*_final_policy"]
            charts += [f"figure*_{level}", f"final_policy_{level}"]
        for folder in ("", *(f"{variant}/" for variant in spec.variants)):
            tables += [f"{folder}{part}/{name}_*" for part in (*spec.measures, "replications", "laws")]
        tables += [f"variant_{variant}" for variant in spec.variants]
        return [*(f"{table}.csv" for table in tables), *chart_files(charts, FIGURES)]

    def result(self, *, images: bool = True) -> Result:
        """The study as a Result, with `images` of its charts."""
        policies = [policy_table(self.study, tau, self.state_title, numbers=self.numbers) for tau in self.spec.levels]
        chosen, left_out = self.spec.final_policy, list[str]()
        if chosen is not None and None in policies:
            left_out = [f"the final policy of {chosen.learner} is not written: it depends on more than the state"]
        mark, headline = " (quick run)" if self.spec.quick else "", self.headline()
        result = Result(
            kind="study", title=(self.spec.study.title or self.spec.study.name) + mark, settings=self.settings(),
            tables={name: replace(table, caption=table.caption + mark) for name, table in self.tables().items()},
            sentences=[*headline, *(Sentence(text, aside=True) for text in self.sentences() if text not in headline)],
            details=self.details(), files=study_tables(self.study) | dict(filter(None, policies)), left_out=left_out,
        )  # fmt: skip
        return charts.with_charts(result, self.charts, FIGURES, images)

    def console_tables(self, result: Result) -> list[ResultTable]:
        """The tables of the result that the console shows."""
        return []

    def problem_title(self, variant: str) -> str:
        """Name of the problem or of one of its variants."""
        return variant.replace("_", " ") if variant else self.spec.problem.name

    def at(self, tau: float) -> str:
        """The level of a quantile, or the name of another objective."""
        goal = self.spec.goals[tau]
        return f"τ = {tau:g}" if isinstance(goal, Quantile) else goal.label

    def promises_of(self, key: str, tau: float) -> list[float]:
        """Quantiles of the policies of the last episode, one per held-out seed."""
        return [float(record.quantile(tau)[-1]) for record in self.study.shown(tau).records[key]]

    def order(self, tau: float, measure: str, variant: str = "", *, shown: bool = False) -> str:
        """Sentence on which learner ends best, on the seeds of the `shown` curves or on those that decide rankings."""
        return self.ordered((self.study.shown if shown else self.study.ranked)(tau, variant, self.labels), measure)

    def ordered(self, part: Experiment, measure: str) -> str:
        """Sentence on which learner of a part of the study ends best, with the seeds."""
        return f"{self.at(part.tau)}, {self.seeds_of(part)}: {order_of(part, measure, self.words)}"

    def seeds_of(self, part: Experiment) -> str:
        """Number and kind of the seeds of a part of the study."""
        names = {self.spec.study.seeds: "held-out seed", self.spec.study.replication_seeds: "further seed"}
        return self.words.count(names.get(part.seeds, "seed"), len(part.seeds))

    def reached(self) -> str:
        """Sentence on the learners whose final policies all reach the optimum, by level."""
        parts, least = [], 1e-9 * self.span
        for tau in self.spec.levels:
            best = self.study.reference(tau).optimum
            goal, shown = self.spec.goals[tau], self.study.shown(tau).records
            worst = {key: min(float(record.value(goal)[-1]) for record in shown[key]) for key in self.labels}
            reach = [label for key, label in self.labels.items() if worst[key] >= best - least]
            reaches = f"{list_words(reach or ['no learner'])} reach{'' if len(reach) > 1 else 'es'}"
            parts.append(
                f"{reaches} it on every held-out seed at {self.at(tau)} ({self.words.amount(format_number(best))})"
            )
        return f"The {self.optimum}: {'; '.join(parts)}"

    def policy_title(self, tau: float) -> str:
        """What the final policy of a level does at its first stage, in the states that are shown."""
        mdp = self.study.problem()
        shares = np.bincount(self.study.picked[tau].actions[0, shown_states(self.study)], minlength=mdp.A)
        played = [mdp.action_label(a) for a in np.argsort(-shares, kind="stable").tolist() if shares[a]]
        return f"{self.at(tau)}: in the first {self.words.stage} the final policy plays {list_words(played)}"

    def headline(self) -> list[str]:
        """The finding in a sentence or two: the learners with the smallest mean gap at each level."""
        parts = []
        for tau in self.spec.levels:
            rows = self.study.ranked(tau, "", self.labels).order("exact")
            texts = [format_number(self.span * round(row["mean"] / self.span, 9), 4) for row in rows]
            leaders = [row["learner"] for row, text in zip(rows, texts, strict=True) if text == texts[0]]
            parts.append(f"{list_words(leaders)} at {self.at(tau)} ({self.words.amount(texts[0])})")
        said = f"Smallest mean cumulative {self.measure_name('exact')}: {'; '.join(parts)}."
        return [*([QUICK] if self.spec.quick else []), said]

    def sentences(self) -> list[str]:
        """The findings level by level, and what they rest on."""
        found = [QUICK] if self.spec.quick else []
        for tau in self.spec.levels:
            against = self.study.reference(tau)
            found.append(f"{self.order(tau, 'exact')}.")
            if against.capped is not None and abs(against.capped - against.optimum) > 1e-9 * self.span:
                capped, exact = (self.words.amount(format_number(x)) for x in (against.capped, against.optimum))
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

    def tables(self) -> dict[str, ResultTable]:
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
        return found | {"session": ResultTable(rows, titles={"what": "", "value": ""}, caption=caption)}

    def _orderings(self) -> ResultTable:
        rows = []
        for tau, measure in product(self.spec.levels, self.spec.measures):
            text = ""
            for row in self.study.ranked(tau).order(measure):
                # small amounts need more decimals
                mean = two_decimals(row["mean"]) if self.span > 0.1 else format_number(row["mean"])
                text += f"{self.labels[row['learner']]} {mean}"
                text += {True: " < ", False: " ≈ ", None: ""}[row["clear"]]
            rows.append({"tau": tau, "measure": self.measure_name(measure), "order": text})
        on = self.seeds_of(self.study.ranked(self.spec.levels[0]))
        on += ", which were not used for any choice" if self.spec.study.replication_seeds else ""
        signs = "<: the next mean is larger at 95 % confidence (t interval of the differences by seed); ≈: this is not clear"
        caption = f"Learners from the smallest mean on; {on}. {signs}."
        return ResultTable(rows, titles={"tau": "τ", "order": self.words.titled("smallest first")}, caption=caption)

    def _ends(self, part: Callable[[float, str], Experiment], variant: str = "") -> ResultTable:
        rows, titles = [], {}
        for measure, (key, label) in product(self.spec.measures, self.labels.items()):
            row: dict[str, Any] = {"measure": self.measure_name(measure), "learner": label}
            for tau in self.spec.levels:
                name, values = f"tau{level_name(tau)}", part(tau, variant).ends(measure)[key]
                std = float(values.std(ddof=1)) if values.size > 1 else None
                row |= {f"{name}_mean": float(values.mean()), f"{name}_std": std}
                titles[f"{name}_mean"] = self.words.titled(f"{self.at(tau)}, mean")
                titles[f"{name}_std"] = self.words.titled(f"{self.at(tau)}, standard deviation")
            rows.append(row)
        on = f"{self.seeds_of(part(self.spec.levels[0], variant))}, {self.problem_title(variant)}"
        caption = f"Last cumulative values on {on}: mean and sample standard deviation."
        return ResultTable(rows, titles=titles, caption=caption)

    def _references(self) -> ResultTable:
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
        return ResultTable(rows, titles=titles, caption=f"{caption} {self.bracket}".rstrip())

    def _tuning(self) -> ResultTable:
        rows = [
            {
                "learner": self.labels[key], "tau": tau, "parameter": tuned.parameter, "winner": tuned.winner.value,
                "lowest": tuned.values[0], "highest": tuned.values[-1], "verdict": tuned.verdict(),
            }
            for (key, tau), tuned in self.study.tunings.items()
        ]  # fmt: skip
        titles = {"tau": "tuned at τ", "lowest": "lowest value of the grid", "highest": "highest value"}
        return ResultTable(rows, titles=titles | {"verdict": "where it lies"}, caption="Winners of the tuning.")

    # -- settings and numbers ------------------------------------------------------------------------------------------------

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
        """All numbers of the study, for programs; only `session` may differ between two executions."""
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

    # -- charts --------------------------------------------------------------------------------------------------------------

    def charts(self) -> dict[str, Any]:
        """Charts of the page, by name."""
        spec, picked, found = self.spec, self.study.picked, dict[str, Any]()
        plotted = {key: entry.label for key, entry in spec.learners.items() if entry.plot}
        for i, (tau, measure) in enumerate(zip(spec.levels, spec.plot, strict=True), start=1):
            shown = self.study.shown(tau, names=plotted)
            found[f"figure{i}_tau{level_name(tau)}"] = experiment_view(
                shown, measure, POINTS, colours=self.colours, words=self.words, finding=self.ordered(shown, measure)
            )
        found |= {f"final_policy_tau{level_name(tau)}": self.policy_map(tau) for tau in spec.levels if tau in picked}
        found |= {"every_measure": self.every_measure(), "seeds": self.last_values(), "promises": self.promises()}
        found |= {"tuning": self.tuning()} if self.study.tunings else {}
        for chart in found.values() if spec.quick else ():
            chart.title.subtitle = [*chart.title.subtitle, QUICK]
        return found

    def published(self) -> list[tuple[float, str, str, float]]:
        """Published last values: level, measure, key of the learner, value."""
        return []

    @property
    def _selectors(self) -> list[Selector]:
        """The lists of levels, of measures and of variants."""
        variants = ["", *self.spec.variants]
        return [
            Selector("level", "level", list(map(self.at, self.spec.levels)), self.spec.levels),
            Selector("measure", "measure", [*map(self.measure_name, self.measures)], self.measures),
            Selector("problem", "problem", [*map(self.problem_title, variants)], variants),
        ]

    def every_measure(self) -> Any:
        """Every measure of every learner at every level, on every variant of the problem."""
        spec, selectors, curves = self.spec, self._selectors, []
        for (i, tau), (j, measure), (v, variant) in product(*(enumerate(one.values) for one in selectors)):
            shown = self.study.shown(tau, variant)
            for key, label in self.labels.items():
                curves.append(mean_curve(label, shown.values(key, measure), POINTS, (i, j, v), measure))
        y_title, scales = self.words.axis("cumulative measure"), {"y": self.scale}
        drawn = lines(curves, "episode", y_title, selectors=selectors, scales=scales, colours=self.colours)
        band = band_name(len(spec.study.seeds))
        band += f", {len(spec.study.variant_seeds)} on the variants" if spec.variants else ""
        note = f"Band: {band}. {thinning_note(spec.episodes, POINTS)}"
        return drawn.chart("Every measure over the episodes", note, finding=partial(self.order, shown=True))

    def last_values(self) -> Any:
        """Last values of every run: one row per learner, one mark per seed."""
        alt, spec, labels = altair(), self.spec, list(self.labels.values())
        selectors, rows = self._selectors, []
        for (i, tau), (j, measure), (v, variant) in product(*(enumerate(one.values) for one in selectors)):
            experiment, ranking = self.study.experiments[variant, tau], spec.ranking_seeds(variant)
            for k, ends in enumerate(experiment.ends(measure).values()):
                runs = zip(experiment.seeds, ends.tolist(), strict=True)
                rows += [[i, j, v, k, x, SEED if seed in ranking else HELD_OUT, seed] for seed, x in runs]
        for tau, measure, key, x in self.published():
            place = spec.levels.index(tau), self.measures.index(measure), 0, list(self.labels).index(key)
            rows.append([*place, x, PUBLISHED, ""])
        label, colour = by_label(labels, self.colours)
        colour.legend = None
        columns = ["level", "measure", "problem", "k", "value", "kind", "seed"]
        base = chart_of(columns, rows).transform_filter(view_filter(selectors))
        base = base.transform_calculate(line=label, sway="sin(datum.seed)")  # keeps dots of equal values apart
        y = alt.Y("line:N", title=None, sort=labels, axis={"labelLimit": 170})
        # the names of learners take the room
        along = charts.fold_text(self.words.axis("cumulative measure at the end"), 30)
        x = alt.X("value:Q", title=along, scale=self.scale)
        shown = [kind for kind in MARKS if any(row[5] == kind for row in rows)]
        shapes = {"domain": shown, "range": [MARKS[kind] for kind in shown]}
        # One layer holds all kinds of marks, because Vega warns about a layer without marks.
        marks = base.mark_point(filled=True, opacity=0.7).encode(
            x=x, y=y, yOffset=alt.YOffset("sway:Q", scale={"domain": [-3, 3]}),
            color=colour,
            shape=alt.Shape("kind:N", title=None, scale=shapes, legend={"symbolFillColor": charts.GREY}),
            size=alt.condition(f"datum.kind == '{PUBLISHED}'", alt.value(150), alt.value(40)),
            tooltip=tooltips(("line:N", "learner"), "kind:N", "seed:N", ("value:Q", "value", ".5~g")),
        )  # fmt: skip
        means = base.transform_filter(f"datum.kind == '{SEED}'").mark_tick(thickness=2.5, size=20)
        means = means.encode(x=alt.X("mean(value):Q"), y=y, color=colour)
        note = f"After {spec.episodes} episodes. Bar: the mean of the circles."
        note += " A published value is a mean over the held-out seeds." if self.published() else ""
        height = 30 * len(labels) + 20
        return with_title(alt.layer(marks, means), "The last value of every run", note, height, selectors, self.order)

    def policy_map(self, tau: float) -> Any:
        """The final policy of a level: states by stages, one colour per action."""
        mdp, states, picked = self.study.problem(), shown_states(self.study), self.study.picked[tau]
        names = [[mdp.state_label(s) for s in states], [mdp.action_label(a) for a in range(mdp.A)]]
        note = f"Seed {picked.seed}: the held-out seed with the smallest final quantile error, then buffered error."
        return policy_chart(
            {tau: np.eye(mdp.A)[picked.actions[:, states]]}, *names, words=self.words, title=f"Final policy at {self.at(tau)}",
            finding=self.policy_title(tau), note=note, state=self.state_title, visits=False,
        )  # fmt: skip

    def promises(self) -> Any:
        """The best promise by level, and the promises of the final policies at the levels of the study."""
        best, rows, middle = Steps(*guarantee_curve(self.study.problem()).steps), [], 0.5 * (len(self.labels) - 1)
        drawn = lines(
            [best.curve(self.optimum)], LEVEL_TITLE.format(self.words.runs), self.words.axis(f"promised {self.words.total}"),
            scales={"x": {"domain": [0, 1]}}, colours={self.optimum: charts.GREY}, step=True,
        )  # fmt: skip
        for (k, key), tau in product(enumerate(self.labels), self.spec.levels):
            rows += [[k, tau, tau + 0.011 * (k - middle), promise] for promise in self.promises_of(key, tau)]
        label, colour = by_label(list(self.labels.values()), self.colours, symbol="circle")
        dots = chart_of(["k", "tau", "x", "y"], rows).transform_calculate(line=label)
        shown = tooltips(("line:N", "learner"), ("tau:Q", "level"), ("y:Q", "promise"))
        points = dots.mark_point(filled=True, size=50, opacity=0.8)
        points = points.encode(x=drawn.x, y=drawn.y, color=colour, tooltip=shown)
        note = f"Grey: the {self.optimum}. Dots: final policies of the held-out seeds, beside their level."
        drawn_chart = drawn.chart("What the final policies promise", note, points, finding=self.reached())
        return drawn_chart.resolve_scale(color="independent")

    def tuning(self) -> Any:
        """The criterion over each grid, rung by rung."""
        curves, best, names, verdicts = [], [], [], []
        for s, ((key, tau), tuned) in enumerate(self.study.tunings.items()):
            names.append(f"{self.labels[key]}, τ = {tau:g}")
            verdicts.append(f"{names[-1]}: {tuned.verdict()}")
            best.append([s, tuned.winner.value, tuned.winner.gap])
            for r, rung in enumerate(tuned.rungs, start=1):
                values, gaps = np.array([(trial.value, trial.gap) for trial in rung.trials]).T
                curves.append(Curve(f"rung {r}: {rung.episodes} episodes", values, gaps, view=(s,)))
        selectors, scales = [Selector("search", "learner", names)], {"x": {"type": "log"}, "y": self.scale}
        y_title = self.words.axis(f"mean cumulative {self.measure_name(self.spec.measures[0])}")
        drawn = lines(curves, "tuned parameter", y_title, selectors=selectors, scales=scales, points=True)
        ring = chart_of(["search", "x", "y"], best).transform_filter(view_filter(selectors))
        ring = ring.mark_point(size=160, color=charts.BLUE, strokeWidth=2).encode(x=drawn.x, y=drawn.y)
        note = "Means over the validation seeds. Ring: the winner."
        return drawn.chart("The criterion of the tuning by parameter", note, ring, finding=verdicts)


def words_of(problem: Problem) -> Words:
    """The words of the problem of a study: those of a named problem, else the unit of its model."""
    if problem.form != "name":
        return Words.of(problem.model)
    known = about(problem.name)
    return Words(title=problem.name, unit=known.unit, stage=known.stage)


def show_study(spec: Spec, folder: Path, workers: Workers, kind: type[StudyView], bar: ProgressBar) -> Shown:
    """Run a study, continue where it stopped, and describe it; the result has the charts and the page."""
    with bar as watch:
        view = kind(run_study(spec, folder, workers, watch))
        watch.phase("drawing the charts and the page")
        result = view.result()
        try:
            result = replace(result, files={**result.files, PAGE: page(result).encode()})
        except ImportError as error:
            result = replace(result, left_out=[*result.left_out, str(error)])
    document = {"settings": result.settings, "sentences": result.sentences, **result.details}
    return Shown(document, result, tables=view.console_tables(result), lines=[line.text for line in result.lines])
