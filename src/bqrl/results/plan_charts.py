"""Charts of plans: the guarantee curve, the law of the return, and the map of a policy, for pages and notebooks.

A chart with a parameter called `tau` or `policy` follows the control of that name on the page. Laws are drawn with at most
MAX_BARS bars, maps with at most MAX_STATES by MAX_STAGES cells; the subtitle says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bqrl.display import format_number, spread_indices
from bqrl.laws.law import Law
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.outcomes import REWARD
from bqrl.planners.cvar import CVaRCurve
from bqrl.planners.plan import Plan
from bqrl.planners.target import GuaranteeCurve, best_steps
from bqrl.planners.tradeoff import Tradeoff
from bqrl.policies.target import TargetPolicy
from bqrl.results import charts
from bqrl.results.charts import Curve, altair, chart_of, colour_channel, lines, tooltips, with_title
from bqrl.results.words import PLAIN, Words

MAX_BARS, MAX_STATES, MAX_STAGES, MAX_LEGEND = 60, 30, 30, 30
OUTSIDE = 0.005  # probability at each end of the returns that is collected in the outermost bar
FAINT = "Where faint, the {} also depends on what was earned so far or on a random draw."
LEVEL_TITLE = "share of {} that may fall short"
WORST_TITLE = "share of the worst {}"
DRAWN = np.r_[0.001, 0.0025, np.arange(1.0, 201.0) / 200.0]  # levels at which CVaR is drawn


class Steps(NamedTuple):
    """A step function of the level: values[i] for levels in (levels[i], levels[i + 1]], the last up to 1."""

    levels: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, law: Law) -> Steps:
        """The quantiles of a law."""
        return cls(np.r_[0.0, law.running[:-1]], law.values)

    def at(self, x: Any) -> Any:
        """The value just above the level(s) x."""
        return self.values[np.maximum(np.searchsorted(self.levels, x, side="right") - 1, 0)]

    def curve(self, name: str, upper: Steps | None = None) -> Curve:
        """The line of the function, with a band up to the function `upper`."""
        grid = np.unique(np.r_[self.levels, [] if upper is None else upper.levels, 1.0])
        y = self.at(grid)
        return Curve(name, grid, y) if upper is None else Curve(name, grid, y, y, upper.at(grid))


class Averages(NamedTuple):
    """The CVaR of some levels, in their order."""

    levels: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, value: Callable[[float], float]) -> Averages:
        """The values of a function of the level."""
        return cls(DRAWN, np.array([value(tau) for tau in DRAWN.tolist()]))

    def at(self, x: Any) -> Any:
        """The value at the level(s) x."""
        return np.interp(x, self.levels, self.values)

    def curve(self, name: str, upper: Averages | None = None) -> Curve:
        """The line of the function, with a band up to the function `upper`."""
        y = self.values
        return Curve(name, self.levels, y) if upper is None else Curve(name, self.levels, y, y, upper.values)


def plan_charts(
    plans: Sequence[Plan], curve: GuaranteeCurve | CVaRCurve | None, neutral: Law | None = None, words: Words = PLAIN,
    further: Mapping[float, Mapping[str, tuple[Law, float]]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Charts by name: the guarantee curve, if given, and the laws of the returns; `neutral` is the risk-neutral law.

    `further` holds by level the laws and promises of further values of the parameter `policy`.
    """
    others: dict[str, Steps | Averages] = {}
    if neutral is not None:
        averaged = isinstance(curve, CVaRCurve)
        others["risk-neutral policy"] = Averages.of(neutral.cvar) if averaged else Steps.of(neutral)
    drawn = {} if curve is None else {"guarantee_curve": curve_chart(curve, plans, others, words)}
    laws, rounded = {plan_key(plan): plan.law for plan in plans}, any(not plan.law_exact for plan in plans)
    what, promises = _promises(plans)
    shown = law_chart(laws, promises, what=what, neutral=neutral, rounded=rounded, words=words, further=further)
    return drawn | {"return_law": shown}


def plan_key(plan: Plan) -> float:
    """The value of the parameter `tau` that shows a plan: its level, or 0 if the objective has none."""
    return plan.tau if plan.by_level else 0.0


def _promises(plans: Sequence[Plan]) -> tuple[str, dict[float, float]]:
    """What charts mark, and its value by level: the promise or, for buffered plans that are not robust, the quantile."""
    plans = [plan for plan in plans if plan.by_level]  # the values of others are not returns of a level
    if any(plan.beta > 0.0 and plan.attitude != "robust" for plan in plans):
        return "the quantile", {plan.tau: plan.law.quantile(plan.tau) for plan in plans}
    return "the promise", {plan.tau: plan.value for plan in plans}


def curve_chart(
    curve: GuaranteeCurve | CVaRCurve, plans: Sequence[Plan] = (), others: Mapping[str, Steps | Averages] | None = None,
    words: Words = PLAIN,
) -> Any:  # fmt: skip
    """Chart of the best value by level, with the bracket of rounded returns shaded and `others` dashed.

    The promise of the plan at the parameter `tau` is marked. For plans over a ball of kernels, a further dashed curve shows the
    values that hold over the ball.
    """
    alt, others, (what, promises) = altair(), dict(others or {}), _promises(plans)
    averaged = isinstance(curve, CVaRCurve)
    if averaged:
        what, promises = "the CVaR", {plan.tau: plan.value for plan in plans if plan.by_level}
    name, where = "best policy" if curve.exact else "proven value", "for each level"
    if plans and plans[0].attitude != "nominal":
        where, first = "in the model as given", plans[0]
        if isinstance(first.policy, TargetPolicy) and "shortfall" in first.details and not averaged:
            kernel = "with any probabilities" if first.attitude == "robust" else "with the best probabilities"
            over = best_steps(first.policy.grid.points(0), np.asarray(first.details["shortfall"]))
            others = {f"{kernel} within the radius": Steps(*over), **others}
    drawn_curve, best = _best_curve(curve, f"{name} {where}")
    curves = [drawn_curve, *(steps.curve(label) for label, steps in others.items())]
    ends = [steps.at([OUTSIDE, 1.0 - OUTSIDE]) for steps in (best, *others.values())]
    shown = np.concatenate([*ends, list(promises.values())])  # within the axis
    low, high = float(shown.min()), float(shown.max())
    room = 0.05 * (high - low or 1.0)
    scales: dict[str, Any] = {"x": {"domain": [0, 1]}, "y": {"domain": [low - room, high + room]}}
    colours = dict(zip([one.label for one in curves], (charts.BLUE, charts.GREY, charts.BROWN), strict=False))
    titles = LEVEL_TITLE.format(words.runs), words.axis(f"guaranteed {words.total}")
    if averaged:
        titles = WORST_TITLE.format(words.runs), words.axis(f"mean {words.total} of the worst {words.runs}")
    drawn = lines(curves, *titles, scales=scales, colours=colours, step=not averaged, dashed=True)
    mark = chart_of(["tau", "x", "y", "text"], [[tau, tau, y, format_number(y, 5, -1)] for tau, y in promises.items()])
    mark = mark.transform_filter("datum.tau == tau").encode(x=drawn.x)
    side = {"align": alt.expr("tau > 0.7 ? 'right' : 'left'"), "dx": alt.expr("tau > 0.7 ? -9 : 9")}
    text = mark.mark_text(**side, dy=14, fontWeight="bold", color=charts.RED, fontSize=12)
    layers = [
        *drawn.layers,
        mark.mark_rule(strokeDash=[2, 2], opacity=0.8, color=charts.RED),
        mark.mark_point(filled=True, size=110, color=charts.RED, opacity=1).encode(y=drawn.y),
        text.encode(y=drawn.y, text="text:N"),
    ]
    said = (
        f"The mean over this share of the worst {words.runs}."
        if averaged
        else f"All but this share of {words.runs} reach the curve."
    )
    said += f" Red: {what} of the planned policy." if promises else ""
    said += "" if curve.exact else " Shaded: the uncertainty from rounding the returns."
    # a click sets tau
    chart = follow_controls(alt.layer(*layers), promises or [0.1]).properties(usermeta={"click": "tau"})
    title = f"The best mean of the worst {words.runs}" if averaged else "What can be guaranteed"
    return with_title(chart, title, f"{said} {drawn.note}")


def _best_curve(curve: GuaranteeCurve | CVaRCurve, name: str) -> tuple[Curve, Steps | Averages]:
    """The line of a curve with its band, and its function of the level."""
    if isinstance(curve, CVaRCurve):
        mean = Averages.of(curve)
        return mean.curve(name, None if curve.exact else Averages.of(curve.upper)), mean
    best, upper = Steps(*curve.steps), None if curve.optimistic is None else Steps(*best_steps(*curve.optimistic))
    return best.curve(name, upper), best


def trade_chart(trades: Sequence[Tradeoff], words: Words = PLAIN, marked: Sequence[Sequence[Any]] = ()) -> Any:
    """Chart of the best mean by guarantee, one line per level, with the distance to the proven bound shaded.

    `marked` holds rows [tau, policy, guarantee, mean]; that of the parameters `tau` and `policy` is shown in red.
    """
    curves, first = [], trades[0]
    levels = trades if len(trades) > 1 else ()  # lines of several levels can lie far apart: each begins at its best
    best = {one.objective.tau: float(one.guarantee[-1]) for one in levels}
    for trade in trades:
        x, y, bound = trade.guarantee - best.get(trade.objective.tau, 0.0), trade.mean, trade.bound
        # a policy that guarantees more serves every guarantee below: steps
        if trade.objective.beta < trade.objective.tau:
            x = np.r_[x[0] - 0.05 * (np.ptp(x) or 1.0), np.repeat(x, 2)[:-1]]
            y, bound = (np.repeat(part, 2) for part in (y, bound))
        label = "best mean" if len(trades) == 1 else trade.objective.label
        band = (y, bound) if np.any(bound != y) else (None, None)
        curves.append(Curve(label, x, y, *band))
    kind = "guarantee" if first.objective.beta == 0.0 else first.objective.kind
    kept = first.objective.axis(words.runs, words.total) if len(trades) == 1 else f"{kind} minus the best of its level"
    title = words.axis(kept)
    colours = dict(zip([one.label for one in curves], charts.PALETTE * len(curves), strict=False))
    single = any(one.x.size < 2 for one in curves)
    own = first.outcome == REWARD
    upwards = words.axis(f"mean {words.total}") if own else f"mean {first.outcome.replace('_', ' ')}"
    ends = [x for one in curves for x in (one.y, one.high) if x is not None]
    seen = np.concatenate([*ends, [row[3] for row in marked]])  # all marks, so that the axis stays as the control moves
    room = 0.03 * (float(np.ptp(seen)) or 1.0)
    marked = [[tau, policy, value - best.get(tau, 0.0), mean] for tau, policy, value, mean in marked]
    across = np.concatenate([*(one.x for one in curves), [row[2] for row in marked]])
    edge = 0.02 * (float(np.ptp(across)) or 1.0)
    scales: dict[str, Any] = {
        "x": {"domain": [float(across.min()), float(across.max()) + edge]},
        "y": {"domain": [float(seen.min()) - room, float(seen.max()) + room], "nice": False},
    }
    drawn = lines(curves, title, upwards, scales=scales, colours=colours, points=single)
    said = (
        f"Left: {'the risk-neutral policy' if own and not first.minimise else 'the best mean'}. Right: the best {kind}."
    )
    if any(one.low is not None for one in curves):
        said += f" Shaded: no policy with this {kind} has a mean {'below' if first.minimise else 'above'} the band."
    if not marked:
        return drawn.chart("The price of certainty", said)
    mark = chart_of(["tau", "policy", "x", "y"], marked).encode(x=drawn.x, y=drawn.y)
    mark = mark.transform_filter("datum.tau == tau && datum.policy == policy")
    point = mark.mark_point(filled=True, size=110, color=charts.RED, opacity=1)
    shown = follow_controls(altair().layer(*drawn.layers, point), [marked[0][0]])
    said += " Red: the policy that is shown."
    plans, slack = {row[0]: row[2:] for row in marked if row[1] == "best"}, 1e-9 * float(np.abs(seen).max())
    for one in trades:
        value, mean = plans.get(one.objective.tau, (-np.inf, np.inf))
        keeps = one.objective.beta == 0.0 and value >= one.guarantee[-1] - best.get(one.objective.tau, 0.0)
        if one.exact and keeps and mean < one.mean[-1] - slack:
            said += " The planned policy lies below the line: others with its guarantee have a better mean,"
            said += " but may keep less margin for errors."
            break
    return with_title(shown, "The price of certainty", f"{said} {drawn.note}".strip())


def law_chart(
    laws: Mapping[float, Law], promises: Mapping[float, float], *, what: str = "the promise",
    neutral: Law | None = None, rounded: bool = False, words: Words = PLAIN,
    further: Mapping[float, Mapping[str, tuple[Law, float]]] | None = None,
) -> Any:  # fmt: skip
    """Chart of the probability of each return by level; returns below `what`, such as the promise, have another colour.

    The parameters `tau` and `policy` choose between the laws, that of the risk-neutral policy, and `further` ones by level and
    policy, each with its own promise.
    """
    alt, promises, further = altair(), {tau: x for tau, x in promises.items() if x > -np.inf}, further or {}
    others = [] if neutral is None else [neutral]
    edges, width, left_out = _bins(
        [*laws.values(), *others, *(law for some in further.values() for law, _ in some.values())]
    )
    rows, marks, colours = [], [], {f"below {what}": charts.ORANGE, f"at least {what}": charts.BLUE}
    for tau, own in laws.items():
        policies = {"best": own} | ({} if neutral is None else {"risk-neutral": neutral})
        shown_laws = {policy: (law, promises.get(tau)) for policy, law in policies.items()} | dict(further.get(tau, {}))
        for policy, (law, promise) in shown_laws.items():
            rows += [[tau, policy, *bar] for bar in _bars(law, edges, promise, *colours)]
            marks += [] if promise is None else [[tau, policy, promise]]
    shown = [*edges.tolist(), *(mark[2] for mark in marks)]
    scale = {"domain": [min(shown), max(shown)], "nice": False, "zero": False}
    x = alt.X("from:Q", title=words.axis(words.total), scale=scale)
    bars = chart_of(["tau", "policy", "kind", "from", "to", "share"], rows)
    bars = bars.transform_filter("datum.tau == tau && datum.policy == policy")
    bars = bars.mark_bar(stroke=None, binSpacing=1).encode(
        x=x,
        x2="to:Q",
        y=alt.Y("sum(share):Q", title=f"share of {words.runs}", axis={"format": "~%"}),
        color=colour_channel("kind:N", colours) if promises else alt.value(charts.BLUE),
        order=alt.Order("kind:N", sort="ascending"),
        tooltip=tooltips(("from:Q", "from", ".6~g"), ("to:Q", "to", ".6~g"), ("share:Q", "share", ".4~%")),
    )
    layers, said = [bars], ""
    if promises:
        line = chart_of(["tau", "policy", "from"], marks)
        line = line.transform_filter("datum.tau == tau && datum.policy == policy")
        layers.append(line.mark_rule(color=charts.RED, strokeDash=[4, 2], strokeWidth=1.5).encode(x=x))
        said += (
            f"Dashed line: {what} of the {'policy that is shown' if further or len(laws) > 1 else 'planned policy'}."
        )
    said += " Returns are rounded down." if rounded else ""
    said += f" Each bar is {words.amount(format_number(width, 3))} wide." if width else ""
    said += " The first and the last bar include all returns beyond them." if left_out else ""
    return with_title(follow_controls(alt.layer(*layers), laws), f"How the {words.total} is distributed", said.strip())


def follow_controls(chart: Any, levels: Iterable[float]) -> Any:
    """The chart with the parameters that the controls of the page set; at first the first level and the best policy."""
    start = {"tau": next(iter(levels)), "policy": "best"}
    return chart.add_params(*(altair().param(name=name, value=value) for name, value in start.items()))


def _bins(laws: Sequence[Law]) -> tuple[FloatArray, float, bool]:
    """Edges of at most MAX_BARS bars, the width of a bar, and whether some returns lie outside.

    Edges lie half a step beside the returns. The width is 0 if each bar holds one return. Returns lie outside only if there
    are too many for one bar each.
    """
    values = np.unique(np.concatenate([law.values for law in laws]))
    gaps = np.diff(values)
    step = float(min(gaps[gaps > 1e-9 * np.abs(values).max()], default=1.0))
    low, high = float(values[0]), float(values[-1])
    if (high - low) / step > MAX_BARS - 0.5:
        ends = min(law.quantile(OUTSIDE) for law in laws), max(law.quantile(1.0 - OUTSIDE) for law in laws)
        low, high = ends if ends[0] < ends[1] else (low, high)
    count = np.floor((high - low) / step + 0.5) + 1.0  # of returns one step apart
    each = np.ceil(count / MAX_BARS)
    edges = low - step / 2 + each * step * np.arange(np.ceil(count / each) + 1.0)
    return edges, each * step if each > 1.0 else 0.0, bool(values[0] < edges[0] or values[-1] > edges[-1])


def _bars(law: Law, edges: FloatArray, promise: float | None, below: str, reached: str) -> Iterator[list[Any]]:
    """Bars of a law as [kind, from, to, share]; those below the promise come first."""
    line = -np.inf if promise is None else promise - 1e-9 * max(1.0, abs(promise))
    values = np.clip(law.values, edges[0], edges[-1])
    for kind, some in ((below, law.values < line), (reached, law.values >= line)):
        mass, _ = np.histogram(values[some], edges, weights=law.probabilities[some])
        for i in np.flatnonzero(mass).tolist():
            yield [kind, float(edges[i]), float(edges[i + 1]), float(mass[i])]


def policy_chart(
    shares: Mapping[float, FloatArray], states: Sequence[str], actions: Sequence[str], *, neutral: FloatArray | None = None,
    further: Mapping[float, Mapping[str, FloatArray]] | None = None, words: Words = PLAIN,
    title: str = "What the policy does", finding: str = "", note: str = "Blank: never reached.", state: str | None = None,
    visits: bool = True,
) -> Any:  # fmt: skip
    """Map of the most frequent action by stage and state; the title says so if the map is not a rule to follow.

    `shares` holds for each level the probability, shape (H, S, A), of being in a state at a stage and playing an action;
    `neutral` is that of the risk-neutral policy, shown when the parameter `policy` is "risk-neutral"; `further` holds more by
    level and policy. Without `visits` the shares only say which action is played, and tooltips leave them out.
    """
    alt, state = altair(), state or words.state
    maps = [(tau, "best", share) for tau, share in shares.items()]
    maps += [] if neutral is None else [(next(iter(shares)), "risk-neutral", neutral)]
    maps += [(tau, policy, share) for tau, some in (further or {}).items() for policy, share in some.items()]
    met = np.sum([share.sum(axis=2) for _, _, share in maps], axis=0)  # (H, S)
    places, stages = np.flatnonzero(met.any(axis=0)), spread_indices(len(met), MAX_STAGES)
    if places.size > MAX_STATES:
        note += f" The {words.count(words.state, MAX_STATES)} met most often of {places.size}."
        places = np.sort(np.argsort(-met.sum(axis=0), kind="stable")[:MAX_STATES])
    note += f" {MAX_STAGES} of {words.count(words.stage, len(met))}." if stages.size < len(met) else ""
    blurred = {policy for _, policy, share in maps if (share > 0.0).sum(axis=2).max() > 1}
    note = f"{FAINT.format(words.action)} {note}" if blurred else note
    if "best" in blurred:
        title += " most often"
        note += " This map is not a rule to follow; the table of decisions (policy) is."
    rows = [
        [tau, policy, h + 1, states[s], actions[int(share[h, s].argmax())], _part(share[h, s]), total]
        for tau, policy, share in maps
        for h in stages.tolist()
        for s in places.tolist()
        if (total := float(share[h, s].sum())) > 0.0
    ]
    cells = chart_of(["tau", "policy", "h", "s", "a", "part", "met"], rows)
    cells = cells.transform_filter("datum.policy == policy && (policy == 'risk-neutral' || datum.tau == tau)")
    names = [states[s] for s in places.tolist()]
    if 2 * sum(name.lstrip("-").replace(".", "", 1).isdigit() for name in names) > len(names):
        names.reverse()  # numbers grow upwards
    played = [name for name in actions if any(row[4] == name for row in rows)]
    colours = {"range": charts.PALETTE[: len(played)]} if len(played) <= len(charts.PALETTE) else {"scheme": "viridis"}
    shown = [("h:O", words.stage), ("s:N", state), ("a:N", "most often played" if visits else words.action)]
    often = [("part:Q", "share of visits", ".3~%"), ("met:Q", "probability of a visit", ".3~%")]
    axis, faint = {"labelOverlap": True, "labelLimit": 110}, {"domain": [0, 1], "range": [0.1, 0.6]}
    chart = cells.mark_rect().encode(
        x=alt.X("h:O", title=words.stage, scale={"domain": (stages + 1).tolist()}, axis={**axis, "labelAngle": 0}),
        y=alt.Y("s:N", title=state, scale={"domain": names}, axis=axis),
        color=alt.Color(
            "a:N", title=words.action, scale={"domain": played, **colours}, legend={"symbolLimit": MAX_LEGEND}
        ),
        opacity=alt.condition("datum.part == 1", alt.value(1), alt.Opacity("part:Q", scale=faint, legend=None)),
        tooltip=tooltips(*shown, *(often if visits else ())),
    )
    height = int(min(420, max(90, 17 * places.size)))
    return with_title(follow_controls(chart, shares), title, note, height, finding=finding)


def _part(shares: FloatArray) -> float:
    """Share of the most frequent action; it is printed as less than 1 if there are other actions."""
    return 1.0 if (shares > 0.0).sum() == 1 else min(float(shares.max() / shares.sum()), 0.999999)
