"""A study as a Result, with its charts. Views of one kind share a chart with drop-down lists, whose title follows the choice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np

from bqrl.planners.solve import guarantee_curve
from bqrl.results import charts
from bqrl.results.charts import Curve, Selector, altair, by_label, chart_of, chosen, lines, tips, with_title
from bqrl.results.plan_charts import LEVEL_TITLE, Steps, policy_chart
from bqrl.results.result import Result, chart_files
from bqrl.results.study_words import QUICK, StudyWords
from bqrl.results.views import experiment_view
from bqrl.study.scores import band_name
from bqrl.study.spec import Spec
from bqrl.study.tables import file_name, level_name, policy_table, shown_states, study_tables

POINTS = 80  # episodes of a curve that are drawn
FIGURES = "figures/"
SEED, HELD_OUT, PUBLISHED = "one seed", "held-out seed", "published value"  # marks of last values
MARKS = {SEED: "circle", HELD_OUT: "diamond", PUBLISHED: "cross"}


class StudyView(StudyWords):
    """A study in the words of its problem. A published study has a view of its own, which adds what was published."""

    table_names: ClassVar = "orderings further_seeds held_out references tuning_winners session".split()
    chart_names: ClassVar = "every_measure seeds promises tuning".split()

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
        mark = " (quick run)" if self.spec.quick else ""
        result = Result(
            kind="study",
            title=(self.spec.study.title or self.spec.study.name) + mark,
            settings=self.settings(),
            tables={name: replace(table, caption=table.caption + mark) for name, table in self.tables().items()},
            sentences=self.sentences(),
            details=self.details(),
            files=study_tables(self.study) | dict(filter(None, policies)),
            left_out=left_out,
        )
        return charts.with_charts(result, self.charts, FIGURES, images)

    def charts(self) -> dict[str, Any]:
        """Charts of the page, by name."""
        spec, picked, found = self.spec, self.study.picked, dict[str, Any]()
        plotted = {key: entry.label for key, entry in spec.learners.items() if entry.plot}
        for i, (tau, measure) in enumerate(zip(spec.levels, spec.plot, strict=True), start=1):
            shown = self.study.shown(tau, names=plotted)
            found[f"figure{i}_tau{level_name(tau)}"] = experiment_view(
                shown, measure, POINTS, colours=self.colours, words=self.words, title=self.ordered(shown, measure)
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
            Selector("level", "level", [f"τ = {tau:g}" for tau in self.spec.levels], self.spec.levels),
            Selector("measure", "measure", [*map(self.measure_name, self.measures)], self.measures),
            Selector("problem", "problem", [*map(self.problem_title, variants)], variants),
        ]

    def every_measure(self) -> Any:
        """Every measure of every learner at every level, on every variant of the problem."""
        spec, selectors, curves = self.spec, self._selectors, []
        for (i, tau), (j, measure), (v, variant) in product(*(enumerate(one.values) for one in selectors)):
            shown = self.study.shown(tau, variant)
            for key, label in self.labels.items():
                curves.append(charts.mean_curve(label, shown.values(key, measure), POINTS, (i, j, v)))
        y_title, scales = self.words.axis("cumulative measure"), {"y": self.scale}
        drawn = lines(curves, "episode", y_title, selectors=selectors, scales=scales, colours=self.colours)
        band = band_name(len(spec.study.seeds))
        band += f", {len(spec.study.variant_seeds)} on the variants" if spec.variants else ""
        note = f"Band: {band}. {charts.thinning(spec.episodes, POINTS)}"
        return drawn.chart(partial(self.order, shown=True), note)

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
        base = chart_of(columns, rows).transform_filter(chosen(selectors))
        base = base.transform_calculate(line=label, sway="sin(datum.seed)")  # that dots of equal values stay apart
        y = alt.Y("line:N", title=None, sort=labels, axis={"labelLimit": 170})
        x = alt.X("value:Q", title=self.words.axis("cumulative measure at the end"), scale=self.scale)
        shown = [kind for kind in MARKS if any(row[5] == kind for row in rows)]
        shapes = {"domain": shown, "range": [MARKS[kind] for kind in shown]}
        # One layer holds all kinds of marks: a layer of which a view has none has no extent, and Vega warns of that.
        marks = base.mark_point(filled=True, opacity=0.7).encode(
            x=x, y=y, yOffset=alt.YOffset("sway:Q", scale={"domain": [-3, 3]}),
            color=colour,
            shape=alt.Shape("kind:N", title=None, scale=shapes, legend={"symbolFillColor": charts.GREY}),
            size=alt.condition(f"datum.kind == '{PUBLISHED}'", alt.value(150), alt.value(40)),
            tooltip=tips(("line:N", "learner"), "kind:N", "seed:N", ("value:Q", "value", ".5~g")),
        )  # fmt: skip
        means = base.transform_filter(f"datum.kind == '{SEED}'").mark_tick(thickness=2.5, size=20)
        means = means.encode(x=alt.X("mean(value):Q"), y=y, color=colour)
        note = f"After {spec.episodes} episodes. Bar: the mean of the circles."
        note += " A published value is a mean over the held-out seeds." if self.published() else ""
        return with_title(alt.layer(marks, means), self.order, note, 30 * len(labels) + 20, selectors)

    def policy_map(self, tau: float) -> Any:
        """The final policy of a level: states by stages, one colour per action."""
        mdp, states, picked = self.study.problem(), shown_states(self.study), self.study.picked[tau]
        names = [[mdp.state_label(s) for s in states], [mdp.action_label(a) for a in range(mdp.A)]]
        note = f"Seed {picked.seed}: of the held-out seeds the one with the smallest final quantile error, then buffered error."
        return policy_chart(
            {tau: np.eye(mdp.A)[picked.actions[:, states]]}, *names, words=self.words, title=self.policy_title(tau),
            note=note, state=self.state_title, visits=False,
        )  # fmt: skip

    def promises(self) -> Any:
        """The best promise by level, and the promises of the final policies at the levels of the study."""
        best, rows, middle = Steps(*guarantee_curve(self.study.problem()).steps), [], 0.5 * (len(self.labels) - 1)
        drawn = lines(
            [best.curve(self.optimum)], LEVEL_TITLE, self.words.axis("promised return"),
            scales={"x": {"domain": [0, 1]}}, colours={self.optimum: charts.GREY}, step=True,
        )  # fmt: skip
        for (k, key), tau in product(enumerate(self.labels), self.spec.levels):
            rows += [[k, tau, tau + 0.011 * (k - middle), promise] for promise in self.promises_of(key, tau)]
        label, colour = by_label(list(self.labels.values()), self.colours, symbol="circle")
        dots = chart_of(["k", "tau", "x", "y"], rows).transform_calculate(line=label)
        shown = tips(("line:N", "learner"), ("tau:Q", "level"), ("y:Q", "promise"))
        points = dots.mark_point(filled=True, size=50, opacity=0.8)
        points = points.encode(x=drawn.x, y=drawn.y, color=colour, tooltip=shown)
        note = f"Grey: the {self.optimum}. Dots: final policies of the held-out seeds, beside their level."
        return drawn.chart(self.reached(), note, points).resolve_scale(color="independent")

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
        ring = chart_of(["search", "x", "y"], best).transform_filter(chosen(selectors))
        ring = ring.mark_point(size=160, color=charts.BLUE, strokeWidth=2).encode(x=drawn.x, y=drawn.y)
        return drawn.chart(verdicts, "Means over the validation seeds. Ring: the winner.", ring)
