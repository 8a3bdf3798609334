"""A study as a Result, with its charts. Views of one kind share a chart with drop-down lists, whose title follows the choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, ClassVar

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.solve import guarantee_curve
from bqrl.results import charts
from bqrl.results.charts import Curve, Selector, altair, by_label, chosen, csv_data, lines, tips, with_title
from bqrl.results.plan_charts import LEVEL_TITLE, Steps, policy_chart
from bqrl.results.result import Result
from bqrl.results.study_words import QUICK, StudyWords
from bqrl.results.views import experiment_view
from bqrl.study.scores import BAND
from bqrl.study.spec import Spec
from bqrl.study.tables import KINDS, file_name, level_name, policy_table, shown_states, study_tables

POINTS = 80  # episodes of a curve that are drawn
FIGURES = "figures/"
SYMLOG: dict[str, Any] = {"type": "symlog", "constant": 1}


class StudyView(StudyWords):
    """A study in the words of its problem. A published study has a view of its own, which adds what was published."""

    own_tables: ClassVar[tuple[str, ...]] = ()  # beside those of every study
    own_charts: ClassVar[tuple[str, ...]] = ()

    @property
    def colours(self) -> dict[str, str]:
        """The colour of every learner of the study, by label: the same in all charts."""
        return charts.learner_colours(self.study.shown(self.spec.levels[0], names=self.labels).learners)

    @classmethod
    def files(cls, spec: Spec) -> list[str]:
        """Names of the files that the folder of a study may hold."""
        name, levels = file_name(spec.problem.name), [f"tau{level_name(tau)}" for tau in spec.levels]
        drawn = [f"figure{i}_{level}" for i, level in enumerate(levels, start=1)]
        drawn += [f"final_policy_{level}" for level in levels]
        drawn += ["every_measure", "seeds", "promises", "return_laws", "variants", "tuning", *cls.own_charts]
        found = [f"{FIGURES}{chart}.{kind}" for chart in drawn for kind in ("png", "pdf")]
        found += [f"{chart}.vl.json" for chart in drawn]
        shown = "" if spec.final_policy is None else spec.final_policy.learner.upper()
        found += [f"{name}_{level}_{kind}.csv" for level in levels for kind in ("plot", f"{shown}_final_policy")]
        parts = {measure: KINDS[measure] for measure in spec.measures}
        parts |= {"replications": "ends", "laws": "final_laws"}
        for place in ("", *(f"{variant}/" for variant in spec.variants)):
            found += [f"{place}{part}/{name}_{level}_{kind}.csv" for part, kind in parts.items() for level in levels]
            found.append(f"{place}laws/{name}_best_quantile.csv")
        trained = ((entry.key, tau) for entry in spec.entries for tau in spec.training_levels(entry))
        found += [f"tuning/{key}_tau{level_name(tau)}.csv" for key, tau in trained]
        tables = ["orderings", "further_seeds", "held_out", "references", "tuning_winners", "session", *cls.own_tables]
        return found + [f"{table}.csv" for table in (*tables, *(f"variant_{variant}" for variant in spec.variants))]

    def result(self, *, images: bool = True) -> Result:
        """The study as a Result, with `images` of its charts."""
        policies = [policy_table(self.study, tau, self.state_title, numbers=self.numbers) for tau in self.spec.levels]
        chosen, left_out = self.spec.final_policy, list[str]()
        if chosen is not None and None in policies:
            left_out = [f"the final policy of {chosen.learner} is not written: it depends on more than the state"]
        mark = " (quick run)" if self.spec.quick else ""
        tables = {name: replace(table, caption=table.caption + mark) for name, table in self.tables().items()}
        result = Result(
            kind="study",
            title=(self.spec.study.title or self.spec.name) + mark,
            settings=self.settings(),
            tables=tables,
            charts={},
            sentences=self.sentences(),
            details=self.details(),
            files=study_tables(self.study) | dict(filter(None, policies)),
            left_out=left_out,
        )
        return charts.with_charts(result, self._marked_charts, FIGURES, images)

    def _marked_charts(self) -> dict[str, Any]:
        """The charts; those of a quick run say so below their titles."""
        found = self.charts()
        for chart in found.values() if self.spec.quick else ():
            chart.title.subtitle = [*chart.title.subtitle, QUICK]
        return found

    def charts(self) -> dict[str, Any]:
        """Charts of the page, by name."""
        spec, levels = self.spec, {tau: f"tau{level_name(tau)}" for tau in self.spec.levels}
        plotted = enumerate(zip(levels, spec.plot, strict=True), start=1)
        found = {f"figure{i}_{levels[tau]}": self.figure(tau, measure) for i, (tau, measure) in plotted}
        for tau, name in levels.items():
            if tau in self.study.picked:
                found[f"final_policy_{name}"] = self.policy_map(tau)
        found["every_measure"] = self.every_measure()
        found["seeds"] = self.strip([""], self.measures, self.published())
        found["promises"] = self.promises()
        found["return_laws"] = self.return_laws()
        if spec.variants:
            found["variants"] = self.strip(list(spec.variants), ("exact", "expected"))
        return found | ({"tuning": self.tuning()} if self.study.tunings else {})

    @property
    def measures(self) -> list[str]:
        """The measures in the order of the selectors, the gap to the exact optimum first."""
        return sorted(self.spec.measures, key=("exact", "capped", "expected").index)

    def published(self) -> Sequence[Sequence[float]]:
        """Published last values, as (level, measure, learner, value) with indices."""
        return []

    def _selectors(self, measures: Sequence[str], variants: Sequence[str] = ()) -> list[Selector]:
        """The lists of levels, of several measures and of several variants."""
        levels, names = self.spec.levels, [self.problem_title(variant) for variant in variants]
        found = [
            Selector("level", "level", [f"τ = {tau:g}" for tau in levels], levels),
            Selector("measure", "measure", [self.measure_name(measure) for measure in measures], measures),
            Selector("problem", "problem", names, variants),
        ]
        return [one for one in found if one.name == "level" or len(one.values) > 1]

    def figure(self, tau: float, measure: str) -> Any:
        """The main figure of a level."""
        names = {entry.key: entry.label for entry in self.spec.entries if entry.plot}
        shown = self.study.shown(tau, names=names)
        return experiment_view(shown, measure, POINTS, colours=self.colours, words=self.words)

    def every_measure(self) -> Any:
        """Every measure of every learner at every level, on every variant of the problem."""
        spec, variants, curves = self.spec, ["", *self.spec.variants], []
        selectors = self._selectors(self.measures, variants)
        cases = product(enumerate(variants), enumerate(spec.levels), enumerate(self.measures), self.labels.items())
        for (v, variant), (i, tau), (j, measure), (key, label) in cases:
            values = self.study.shown(tau, variant).values(key, measure)
            curves.append(charts.mean_curve(label, values, POINTS, (i, j, v)[: len(selectors)]))
        drawn = lines(
            curves,
            "episode",
            self.words.axis("cumulative measure"),
            selectors=selectors,
            scales={"y": SYMLOG},
            colours=self.colours,
        )
        band = BAND.format(seeds=len(spec.study.seeds))
        band += f", {len(spec.study.variant_seeds)} on the variants" if spec.variants else ""
        note = f"Band: {band}. {charts.thinning(spec.episodes, POINTS)}"
        return drawn.chart(partial(self.order, shown=True, title=True), note)

    def strip(self, variants: Sequence[str], measures: Sequence[str], published: Sequence[Sequence[float]] = ()) -> Any:
        """Last values of every run: one row per learner, one dot per seed; crosses mark what was `published`."""
        alt, spec, labels = altair(), self.spec, list(self.labels.values())
        selectors, rows = self._selectors(measures, variants), []
        cases = product(enumerate(variants), enumerate(spec.levels), enumerate(measures))
        for (v, variant), (i, tau), (j, measure) in cases:
            experiment, ranking = self.study.experiments[variant, tau], spec.ranking_seeds(variant)
            for k, ends in enumerate(experiment.ends(measure).values()):
                runs = enumerate(zip(experiment.seeds, ends.tolist(), strict=True))
                rows += [[v, i, j, k, seed, x, int(seed in ranking), n] for n, (seed, x) in runs]
        label, colour = by_label(labels, self.colours)
        colour.legend = None
        base = alt.Chart(csv_data(["problem", "level", "measure", "k", "seed", "value", "further", "n"], rows))
        base = base.transform_filter(chosen(selectors)).transform_calculate(line=label, sway="sin(2.4 * datum.n)")
        y = alt.Y("line:N", title=None, sort=labels, axis={"labelLimit": 170})
        x = alt.X("value:Q", title=self.words.axis("cumulative measure at the end"), scale=SYMLOG)
        seen = {"x": x, "y": y, "color": colour}
        seen["tooltip"] = tips(("line:N", "learner"), ("seed:Q", "seed", "d"), ("value:Q", "value", ".5~g"))
        further, held_out = base.transform_filter("datum.further == 1"), base.transform_filter("datum.further == 0")
        sway = alt.YOffset("sway:Q", scale={"domain": [-3, 3]})
        layers = [
            further.mark_point(filled=True, size=26, opacity=0.6).encode(**seen, yOffset=sway),
            further.mark_tick(thickness=2.5, size=20).encode(x=alt.X("mean(value):Q"), y=y, color=colour),
        ]
        note = f"After {spec.episodes} episodes. Dots: one seed each; bar: their mean"
        if any(not row[6] for row in rows):  # held-out seeds that are not among the dots
            layers.append(held_out.mark_point(size=60).encode(**seen))
            note += "; rings: held-out seeds"
        if published:
            # Every view has a cross of size 0 on a dot: a layer without rows has no extent, and Vega warns of that.
            unseen = {(row[1], row[2]): [*row[1:4], row[5], 0] for row in rows}
            crosses = [*([*one, 90] for one in published), *unseen.values()]
            marks = alt.Chart(csv_data(["level", "measure", "k", "value", "size"], crosses))
            marks = marks.transform_filter(chosen(selectors)).transform_calculate(line=label)
            cross = marks.mark_point(shape="cross", angle=45, color=charts.RED, filled=True)
            size = alt.Size("size:Q", scale=None)
            layers.append(cross.encode(x=x, y=y, size=size, tooltip=tips(("value:Q", "published value"))))
            note += "; red cross: the published value, if there is one, a mean over the held-out seeds"
        title = partial(self.order, title=True)
        title = partial(title, variant=variants[0]) if len(variants) == 1 else title
        return with_title(alt.layer(*layers), title, f"{note}.", 30 * len(labels) + 20, selectors)

    def policy_map(self, tau: float) -> Any:
        """The final policy of a level: states by stages, one colour per action."""
        mdp, states, picked = self.study.problem(), shown_states(self.study), self.study.picked[tau]
        played: FloatArray = np.eye(mdp.A)[picked.actions[:, states]]
        names = [[mdp.state_label(s) for s in states], [mdp.action_label(a) for a in range(mdp.A)]]
        note = f"Seed {picked.seed}: of the held-out seeds the one with the smallest final quantile error, then buffered error."
        return policy_chart(
            {tau: played}, *names, words=self.words, title=self.policy_title(tau), note=note, state=self.state_title,
            visits=False,
        )  # fmt: skip

    def return_laws(self) -> Any:
        """Distribution functions of the return if the final policy of a held-out seed, drawn at random, is played."""
        alt, levels, selectors = altair(), self.spec.levels, self._selectors(())
        curves = []
        for (i, tau), entry in product(enumerate(levels), self.spec.entries):
            laws = self.final_laws(entry.key, tau)
            law = Law.mixture(laws, np.full(len(laws), 1.0 / len(laws)))
            curves.append(Curve(entry.label, np.r_[law.values[0], law.values], np.r_[0.0, law.running], view=(i,)))
        drawn = lines(
            curves, self.words.returns, "probability of a return at or below it",
            selectors=selectors, colours=self.colours, step=True,
        )  # fmt: skip
        best = [[i, self.study.reference(tau).optimum, tau] for i, tau in enumerate(levels)]
        marks = alt.Chart(csv_data(["level", "x", "y"], best)).transform_filter(chosen(selectors))
        rule = marks.mark_rule(strokeDash=[3, 3], color=charts.GREY)
        note = "Final policies of the held-out seeds, each seed equally likely."
        note += f" Dotted: the level and the {self.best_promise} at it."
        return drawn.chart(self.laws_title, note, rule.encode(x=drawn.x), rule.encode(y=drawn.y))

    def promises(self) -> Any:
        """The best promise by level, and the promises of the final policies at the levels of the study."""
        alt, entries = altair(), self.spec.entries
        best, scale = Steps(*guarantee_curve(self.study.problem()).steps), {"x": {"domain": [0, 1]}}
        drawn = lines(
            [best.curve(self.best_promise)], LEVEL_TITLE, self.words.axis("promised return"),
            scales=scale, colours={self.best_promise: charts.GREY}, step=True,
        )  # fmt: skip
        rows = []
        for (k, entry), tau in product(enumerate(entries), self.spec.levels):
            place = tau + 0.011 * (k - 0.5 * (len(entries) - 1))
            rows += [[k, tau, place, law.quantile(tau)] for law in self.final_laws(entry.key, tau)]
        label, colour = by_label([entry.label for entry in entries], self.colours, symbol="circle")
        dots = alt.Chart(csv_data(["k", "tau", "x", "y"], rows)).transform_calculate(line=label)
        shown = tips(("line:N", "learner"), ("tau:Q", "level"), ("y:Q", "promise"))
        points = dots.mark_point(filled=True, size=50, opacity=0.8)
        points = points.encode(x=drawn.x, y=drawn.y, color=colour, tooltip=shown)
        note = f"Grey: the {self.best_promise}. Dots: final policies of the held-out seeds, beside their level."
        return drawn.chart(self.promise_title(), note, points).resolve_scale(color="independent")

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
        selectors, scales = [Selector("search", "learner", names)], {"x": {"type": "log"}, "y": SYMLOG}
        drawn = lines(
            curves,
            "tuned parameter",
            self.words.axis("mean cumulative gap"),
            selectors=selectors,
            scales=scales,
            points=True,
        )
        ring = altair().Chart(csv_data(["search", "x", "y"], best)).transform_filter(chosen(selectors))
        ring = ring.mark_point(size=160, color=charts.BLUE, strokeWidth=2).encode(x=drawn.x, y=drawn.y)
        note = (
            f"Mean cumulative {self.measure_name(self.spec.measures[0])} over the validation seeds. Ring: the winner."
        )
        return drawn.chart(verdicts, note, ring)
