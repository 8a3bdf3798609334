"""Charts, each specified once in Altair: interactive in a notebook and on the page, static as PNG, SVG and PDF.

Three kinds serve nearly everything: lines with bands, the bars of a law, and a map of actions. A chart with a parameter
called `tau` or `policy` follows the control of that name on the page; one with selectors has drop-down lists of its own.
Numbers are embedded as CSV text, which is a third of the size of JSON. Lines are thinned to MAX_POINTS points, laws to
MAX_BARS bars, maps to MAX_STATES by MAX_STAGES cells; the subtitle says so.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.results.words import Words, number, runs
from bqrl.study.compare import bootstrap_band, evenly

MAX_POINTS, MAX_BLOCKS, MAX_BARS, MAX_STATES, MAX_STAGES = 400, 100, 60, 30, 30
OUTSIDE = 0.005  # probability at either end of the returns that is shown in the last bar
WIDTH, HEIGHT = 520, 300
# The palette of Okabe and Ito, which colour-blind people can tell apart, in an order that suits light and dark.
BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY, BROWN, PURPLE, OLIVE = "#888888", "#8C5A2B", "#7B5EA7", "#8A8D1E"
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, RED, BROWN, PURPLE, OLIVE, GREY)
LEARNERS = {
    "ucb-bqrl": BLUE, "psrl": PURPLE, "ucbvi": RED, "thompson": GREEN, "q-learning": PINK, "sarsa": ORANGE,
    "ppo": BROWN, "trpo": OLIVE,
}  # fmt: skip
BELOW, REACHED = "below the promise", "at least the promise"
MISSING = 'charts need Altair and vl-convert; install them with: pip install "bqrl[plots]"'
LEVEL_TITLE = "level τ: share of runs that may end below the promise"


class Specified(NamedTuple):
    """Charts as a result stores them: specifications and image files by name, and what is left out."""

    specs: dict[str, dict[str, Any]]
    files: dict[str, bytes]
    left_out: list[str]


def altair() -> ModuleType:
    """The module altair; ImportError with the remedy if it is not installed."""
    try:
        import altair
    except ImportError:
        raise ImportError(MISSING) from None
    return altair


def image(chart: Any, kind: str) -> bytes:
    """A chart, or its specification, as the bytes of a "png", "svg" or "pdf" file."""
    try:
        import vl_convert
    except ImportError:
        raise ImportError(MISSING) from None
    spec = dict(chart if isinstance(chart, Mapping) else chart.to_dict())
    if kind == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=2.0))
    return bytes(vl_convert.vegalite_to_pdf(spec)) if kind == "pdf" else vl_convert.vegalite_to_svg(spec).encode()


def specified(charts: Callable[[], Mapping[str, Any]], folder: str = "", *, images: bool = True) -> Specified:
    """The specifications of charts and, with `images`, a PNG and a PDF file of each; a line if Altair is missing."""
    try:
        specs = {name: chart.to_dict() for name, chart in charts().items()}
        kinds = ("png", "pdf") if images else ()
        files = {f"{folder}{name}.{kind}": image(spec, kind) for name, spec in specs.items() for kind in kinds}
    except ImportError as fault:
        return Specified({}, {}, [str(fault)])
    return Specified(specs, files, [])


def learner_colours(labels: Sequence[str]) -> list[str]:
    """One colour per label; a learner has the same colour in every chart, its greedy variant another one.

    >>> learner_colours(["UCBVI", "mine", "UCB-BQRL", "ucb-bqrl (planner=greedy)"])
    ['#D55E00', '#E69F00', '#0072B2', '#56B4E9']
    """
    chosen: list[str | None] = []
    for label in labels:
        base = re.split(r"[\s,(:]", label.lower(), maxsplit=1)[0]
        colour = SKY if base == "ucb-bqrl" and "greedy" in label else LEARNERS.get(base)
        chosen.append(colour if colour not in chosen else None)
    free = iter([colour for colour in PALETTE if colour not in chosen] * len(labels) or PALETTE)
    return [colour or next(free) for colour in chosen]


def csv_data(columns: Sequence[str], rows: Iterable[Sequence[Any]], texts: Sequence[str] = ()) -> Any:
    """Embedded data: columns in `texts` hold text, all others numbers of six digits; the level `tau` is exact."""
    alt, text = altair(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = zip(columns, row, strict=True)
        writer.writerow([f"{x:.6g}" if isinstance(x, float) and name != "tau" else x for name, x in cells])
    parse = {name: "string" if name in texts else "number" for name in columns}
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=parse))


class Selector(NamedTuple):
    """A drop-down list of a chart; rows of its data hold the index of the option in the column `name`."""

    name: str
    title: str
    options: Sequence[str]


def chosen(selectors: Sequence[Selector]) -> str:
    """The expression that keeps the rows of the selected view."""
    return " && ".join(f"datum.{one.name} == {one.name}" for one in selectors) or "true"


def folded(text: Any, width: int = 74) -> Any:
    """Texts, in nested lists or alone, as lines of at most `width` characters."""
    if not isinstance(text, str):
        return [folded(part, width) for part in text]
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def titled(chart: Any, title: Any, note: str) -> Any:
    """The chart with a title that says what to see, and a line below it."""
    style = {"anchor": "start", "fontSize": 15, "subtitleFontSize": 12, "offset": 10}
    text = folded(title) if isinstance(title, str) else title
    return chart.properties(title=altair().TitleParams(text, subtitle=folded(note), **style))


def with_title(chart: Any, title: Any, note: str, height: int = HEIGHT, selectors: Sequence[Selector] = ()) -> Any:
    """The finished chart; with selectors, `title` is a list of titles nested in their order."""
    alt, text = altair(), title
    for one in selectors:
        labels = {"options": list(range(len(one.options))), "labels": list(one.options), "name": f"{one.title}: "}
        chart = chart.add_params(alt.param(name=one.name, value=0, bind=alt.binding_select(**labels)))
    if selectors:  # the page breaks the lines of the titles in `usermeta`
        text = alt.ExprRef(json.dumps(folded(title)) + "".join(f"[{one.name}]" for one in selectors))
        chart = chart.properties(usermeta={"selectors": [one.name for one in selectors], "titles": title})
    return (
        titled(chart, text, note)
        .properties(width=WIDTH, height=height)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridOpacity=0.35, titleFontWeight="normal")
        .configure_legend(labelFontSize=12, labelLimit=320, columns=3)
    )


def thinned(x: FloatArray, y: FloatArray, size: int = MAX_POINTS) -> IntArray:
    """Indices of at most `size` vertices of a line, the ends included, spread evenly along both axes."""
    if x.size <= size:
        return np.arange(x.size)
    along = np.abs(np.diff(x)) / max(float(np.ptp(x)), 1e-300) + np.abs(np.diff(y)) / max(float(np.ptp(y)), 1e-300)
    travelled = np.r_[0.0, np.cumsum(along)]
    places = np.searchsorted(travelled, np.linspace(0.0, travelled[-1], size - 1))
    return np.unique(np.r_[0, np.minimum(places, x.size - 1), x.size - 1])


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A line with its band, if it has one; `view` holds the options of the selectors under which it is shown."""

    label: str
    x: FloatArray
    y: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    view: tuple[int, ...] = ()


def mean_curve(label: str, values: FloatArray, points: int = MAX_POINTS, view: tuple[int, ...] = ()) -> Curve:
    """The mean over seeds of values (seeds, episodes) and its bootstrap band, at `points` episodes."""
    drawn = evenly(values.shape[1], points)
    return _banded(label, drawn + 1.0, values[:, drawn], view)


def averaged_curve(label: str, values: FloatArray) -> Curve:
    """The same of values averaged over MAX_BLOCKS blocks of episodes, each at its last episode."""
    T = values.shape[1]
    ends = np.unique(np.linspace(0, T, min(T, MAX_BLOCKS) + 1).round().astype(np.int64))[1:]
    total = np.cumsum(values, axis=1)[:, ends - 1]
    return _banded(label, ends.astype(np.float64), np.diff(total, axis=1, prepend=0.0) / np.diff(ends, prepend=0))


def _banded(label: str, x: Any, values: FloatArray, view: tuple[int, ...] = ()) -> Curve:
    mean = values[0] + (values - values[0]).mean(axis=0)  # equal runs give exactly their value
    low, high = bootstrap_band(values) if len(values) > 1 else (None, None)
    return Curve(label, x, mean, low, high, view)


def thinning(T: int, points: int) -> str:
    """What the subtitle says of curves over T episodes that are drawn through fewer points."""
    return f"Drawn through {points} of {T} episodes." if T > points else ""


class Lines(NamedTuple):
    """Layers of a line chart with their channels, for further layers, and what the subtitle says of thinned lines."""

    layers: list[Any]
    x: Any
    y: Any
    note: str


def by_label(labels: Sequence[str], colours: Sequence[str] | None = None, symbol: str = "stroke") -> tuple[str, Any]:
    """The expression that turns the column `k` into a label, and the colour of each label."""
    scale = {"domain": list(labels), "range": list(colours or learner_colours(labels))}
    legend = {"orient": "top", "symbolOpacity": 1, "symbolType": symbol, "symbolStrokeWidth": 3}
    colour = altair().Color("line:N", title=None, scale=scale, legend=legend if len(labels) > 1 else None)
    return f"{json.dumps(list(labels))}[datum.k]", colour


def lines(
    curves: Sequence[Curve],
    x_title: str,
    y_title: str,
    *,
    selectors: Sequence[Selector] = (),
    scales: Mapping[str, Mapping[str, Any]] | None = None,  # of the axes "x" and "y"
    colours: Sequence[str] | None = None,
    step: bool = False,
    points: bool = False,
    dashed: bool = False,  # all but the first label
) -> Lines:
    """Lines with their bands, one colour per label."""
    alt, scales = altair(), scales or {}
    labels = list(dict.fromkeys(curve.label for curve in curves))
    rows, longest = [], max(curve.x.size for curve in curves)
    for curve in curves:
        head, at = [*curve.view, labels.index(curve.label)], thinned(curve.x, curve.y)
        low, high = (curve.y if end is None else end for end in (curve.low, curve.high))
        columns = (curve.x[at], curve.y[at], low[at], high[at])
        rows += [[*head, *row] for row in zip(*(column.tolist() for column in columns), strict=True)]
    label, colour = by_label(labels, colours)
    base = alt.Chart(csv_data([*(one.name for one in selectors), "k", "x", "y", "low", "high"], rows))
    base = base.transform_filter(chosen(selectors)) if selectors else base
    base = base.transform_calculate(line=label)
    x = alt.X("x:Q", title=x_title, scale={"nice": False, **scales.get("x", {})})
    upright = {"zero": False, **scales.get("y", {})}
    y = alt.Y("y:Q", title=y_title, scale=upright)
    tips = [alt.Tooltip(key, title=title, format=".6~g") for key, title in (("x:Q", x_title), ("y:Q", y_title))]
    shape = {"clip": True, "interpolate": "step-after" if step else "linear"}
    layers = []
    if any(curve.low is not None for curve in curves):
        band = alt.Y("low:Q", title=y_title, scale=upright)
        layers.append(base.mark_area(opacity=0.2, **shape).encode(x=x, y=band, y2="high:Q", color=colour))
    line = base.mark_line(strokeWidth=2, point=points or longest == 1, **shape)
    line = line.encode(x=x, y=y, color=colour, tooltip=[alt.Tooltip("line:N", title=" "), *tips])
    if dashed:
        patterns = {"domain": labels, "range": [[1, 0], *[[6, 3]] * (len(labels) - 1)]}
        line = line.encode(strokeDash=alt.StrokeDash("line:N", title=None, scale=patterns))
    note = f"Drawn through {MAX_POINTS} of {longest} points." if longest > MAX_POINTS else ""
    return Lines([*layers, line], x, y, note)


def curves_chart(
    curves: Sequence[Curve], *, title: str, y_title: str, band: str = "", note: str = "",
    references: Sequence[tuple[str, float]] = (),
) -> Any:  # fmt: skip
    """Curves over episodes; `band` says what their bands are, `references` are dashed lines with a name and a value."""
    alt, drawn = altair(), lines(curves, "episode", y_title)
    layers = list(drawn.layers)
    for name, value in references:
        line = alt.Chart(csv_data(["y", "name"], [[value, f"{name}: {number(value, 5)}"]], texts=("name",)))
        text = {"align": "right", "dy": -6, "color": GREY, "fontWeight": "bold"}
        layers.append(line.mark_rule(strokeDash=[5, 3], color=GREY).encode(y=drawn.y))
        layers.append(line.mark_text(**text).encode(y=drawn.y, x=alt.value("width"), text="name:N"))
    said = [f"Band: {band}." if band else "", note, drawn.note]
    return with_title(alt.layer(*layers), title, " ".join(filter(None, said)))


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A step function of the level: values[i] for levels in (levels[i], levels[i + 1]], the last up to 1."""

    levels: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, law: Law) -> Steps:
        """The quantiles of a law."""
        return cls(np.r_[0.0, law.running[:-1]], law.values)

    @classmethod
    def best(cls, shortfall: FloatArray, points: FloatArray) -> Steps:
        """The best value by level from shortfalls by target; of targets with one shortfall the highest counts."""
        grown = np.maximum.accumulate(shortfall)
        last = np.r_[np.diff(grown) > 1e-12, True]
        return cls(grown[last], points[last])

    def at(self, x: Any) -> Any:
        """The value just above the level(s) x."""
        return self.values[np.maximum(np.searchsorted(self.levels, x, side="right") - 1, 0)]

    def curve(self, name: str, upper: Steps | None = None) -> Curve:
        """The line of the function, with the band up to another one."""
        grid = np.unique(np.r_[self.levels, [] if upper is None else upper.levels, 1.0])
        y = self.at(grid)
        return Curve(name, grid, y) if upper is None else Curve(name, grid, y, y, upper.at(grid))


def guarantee_chart(
    best: Steps,
    *,
    upper: Steps | None = None,
    others: Mapping[str, Steps] | None = None,
    marks: Sequence[tuple[float, float]] = (),
    words: Words | None = None,
    name: str = "best policy for each level",
) -> Any:
    """The best guaranteed return at every level, up to `upper` where rounding leaves something open.

    `others` are dashed curves by name; of `marks`, level and value of each plan, the one at the parameter `tau` is shown.
    """
    alt, words, others = altair(), words or Words(""), others or {}
    values = [value for _, value in marks]
    low = min([*values, *(float(steps.at(OUTSIDE)) for steps in (best, *others.values()))])
    high = max([*values, *(float(steps.at(1.0 - OUTSIDE)) for steps in (best, *others.values()))])
    room = 0.05 * ((high - low) or 1.0)
    drawn = lines(
        [best.curve(name, upper), *(steps.curve(label) for label, steps in others.items())],
        LEVEL_TITLE,
        words.titled("guaranteed return"),
        scales={"x": {"domain": [0, 1]}, "y": {"domain": [low - room, high + room]}},
        colours=[BLUE, *([GREY, BROWN, PURPLE] * 2)][: 1 + len(others)],
        step=True,
        dashed=True,
    )
    shown = alt.Chart(csv_data(["tau", "x", "y"], [[tau, tau, y] for tau, y in marks]))
    shown = shown.transform_filter("datum.tau == tau")
    side = {"align": alt.expr("tau > 0.7 ? 'right' : 'left'"), "dx": alt.expr("tau > 0.7 ? -9 : 9")}
    text = shown.mark_text(**side, dy=14, fontWeight="bold", color=RED, fontSize=12)
    layers = [
        *drawn.layers,
        shown.mark_rule(strokeDash=[2, 2], opacity=0.8, color=RED).encode(x=drawn.x),
        shown.mark_point(filled=True, size=110, color=RED, opacity=1).encode(x=drawn.x, y=drawn.y),
        text.encode(x=drawn.x, y=drawn.y, text=alt.Text("y:Q", format=".5~g")),
    ]
    said = "At level τ, more than 1 \N{MINUS SIGN} τ of all runs reach the curve."
    said += "" if upper is None else " Shaded: what rounding of the returns leaves open."
    tau = alt.param(name="tau", value=marks[0][0] if marks else 0.1)
    chart = alt.layer(*layers).add_params(tau).properties(usermeta={"click": "tau"})  # a click on the page sets tau
    return with_title(chart, "What can be guaranteed, and how surely", f"{said} {drawn.note}")


def law_chart(
    laws: Mapping[float, Law],
    promises: Mapping[float, float],
    *,
    neutral: Law | None = None,
    bracketed: bool = False,
    words: Words | None = None,
) -> Any:
    """The probability of each return by level, the part below the promise in another colour.

    The parameters `tau` and `policy` choose between the laws and that of the risk-neutral policy. The subtitle says if the
    laws are `bracketed`, that is, proven lower ends.
    """
    alt, words = altair(), words or Words("")
    edges, left_out = _bins([*laws.values(), *([] if neutral is None else [neutral])])
    rows = []
    for tau, own in laws.items():
        for policy, law in (("best", own), ("risk-neutral", neutral)):
            rows += [] if law is None else [[tau, policy, *bar] for bar in _bars(law, edges, promises.get(tau))]
    data = csv_data(["tau", "policy", "kind", "from", "to", "share"], rows, texts=("policy", "kind"))
    bars = alt.Chart(data).transform_filter("datum.tau == tau && datum.policy == policy")
    ends = {"domain": [float(edges[0]), float(edges[-1])], "nice": False, "zero": False}
    x = alt.X("from:Q", title=words.returns, scale=ends)
    legend = {"orient": "top"} if promises else None
    kinds = {"domain": [BELOW, REACHED], "range": [ORANGE, BLUE]}
    tips = [alt.Tooltip(f"{key}:Q", format=form) for key, form in (("from", ".6~g"), ("to", ".6~g"), ("share", ".4~%"))]
    layers = [
        bars.mark_bar(stroke=None, binSpacing=1).encode(
            x=x,
            x2="to:Q",
            y=alt.Y("sum(share):Q", title="share of runs", axis={"format": ".0~%"}),
            color=alt.Color("kind:N", title=None, scale=kinds, legend=legend),
            order=alt.Order("kind:N", sort="ascending"),
            tooltip=tips,
        )
    ]
    if promises:
        line = alt.Chart(csv_data(["tau", "from"], list(promises.items()))).transform_filter("datum.tau == tau")
        layers.append(line.mark_rule(color=RED, strokeDash=[4, 2], strokeWidth=1.5).encode(x=x))
    said = [
        "Dashed line: the promise." if promises else "",
        "Returns are rounded down." if bracketed else "",
        "The first and the last bar hold all rarer returns." if left_out else "",
    ]
    params = alt.param(name="tau", value=next(iter(laws))), alt.param(name="policy", value="best")
    chart = alt.layer(*layers).add_params(*params)
    return with_title(chart, "How the return is distributed", " ".join(filter(None, said)))


def _bins(laws: Sequence[Law]) -> tuple[FloatArray, bool]:
    """Edges of the bars, and whether some returns lie outside: one bar per return if they are few, else MAX_BARS."""
    values = np.unique(np.concatenate([law.values for law in laws]))
    low = min(law.quantile(OUTSIDE) for law in laws)
    high = max(law.quantile(1.0 - OUTSIDE) for law in laws)
    step = float(np.diff(values).min()) if values.size > 1 else 1.0
    if (values[-1] - values[0]) / step < MAX_BARS:
        count = round((values[-1] - values[0]) / step) + 1
        return values[0] - step / 2 + step * np.arange(count + 1), False
    if high <= low:
        low, high = float(values[0]), float(values[-1])
    edges = np.linspace(low, np.nextafter(high, np.inf), MAX_BARS + 1)
    return edges, bool(values[0] < edges[0] or values[-1] >= edges[-1])


def _bars(law: Law, edges: FloatArray, promise: float | None) -> Iterator[list[Any]]:
    """Kind, ends and share of the bars of a law, those below the promise first."""
    line = -np.inf if promise is None else promise - 1e-9 * max(1.0, abs(promise))
    places = np.clip(np.searchsorted(edges, law.values, side="right") - 1, 0, edges.size - 2)
    for kind, some in ((BELOW, law.values < line), (REACHED, law.values >= line)):
        mass = np.bincount(places[some], law.probabilities[some], edges.size - 1)
        for i in np.flatnonzero(mass).tolist():
            yield [kind, float(edges[i]), float(edges[i + 1]), float(mass[i])]


def policy_chart(
    shares: Mapping[float, FloatArray],
    states: Sequence[str],
    actions: Sequence[str],
    *,
    neutral: FloatArray | None = None,
    words: Words | None = None,
    title: str = "What the policy does",
    note: str = "Blank: never met. Paler: the action also depends on the rewards so far.",
    state: str = "state",
) -> Any:
    """The action that is played most often at each stage in each state.

    `shares` are by level the probabilities, shape (H, S, A), of being in a state at a stage and playing an action;
    `neutral` are those of the risk-neutral policy, shown when the parameter `policy` is "risk-neutral".
    """
    alt, words = altair(), words or Words("")
    maps = [(tau, "best", share) for tau, share in shares.items()]
    maps += [] if neutral is None else [(next(iter(shares)), "risk-neutral", neutral)]
    met = np.sum([share.sum(axis=2) for _, _, share in maps], axis=0)  # (H, S)
    H, places = met.shape[0], np.flatnonzero(met.any(axis=0))
    if places.size > MAX_STATES:
        note += f" The {MAX_STATES} states met most often of {places.size}."
        places = np.sort(np.argsort(-met.sum(axis=0), kind="stable")[:MAX_STATES])
    stages = np.unique(np.linspace(0, H - 1, min(H, MAX_STAGES)).round().astype(int))
    note += f" {MAX_STAGES} of {words.count(words.stage, H)}." if stages.size < H else ""
    rows = [
        [tau, policy, h + 1, states[s], actions[int(share[h, s].argmax())], float(share[h, s].max() / total), total]
        for tau, policy, share in maps
        for h in stages.tolist()
        for s in places.tolist()
        if (total := float(share[h, s].sum())) > 0.0
    ]
    played = np.flatnonzero(np.sum([share.sum(axis=(0, 1)) for _, _, share in maps], axis=0)).tolist()
    numbers = sum(states[s].lstrip("-").replace(".", "", 1).isdigit() for s in places.tolist())
    order = places[::-1].tolist() if 2 * numbers > places.size else places.tolist()  # numbers grow upwards
    colours = {"range": list(PALETTE[: len(played)])} if len(played) <= len(PALETTE) else {"scheme": "viridis"}
    named = {"h:O": words.stage, "s:N": state, "a:N": "most often played"}
    parts = {"part:Q": "share of visits", "met:Q": "probability of a visit"}
    data = csv_data(["tau", "policy", "h", "s", "a", "part", "met"], rows, texts=("policy", "s", "a"))
    cells = alt.Chart(data).transform_filter("datum.policy == policy && (policy != 'best' || datum.tau == tau)")
    axis, across = {"labelAngle": 0, "labelOverlap": True}, {"domain": (stages + 1).tolist()}
    down, legend = {"domain": [states[s] for s in order]}, {"orient": "top", "symbolLimit": 20}
    kinds = {"domain": [actions[a] for a in played], **colours}
    chart = cells.mark_rect().encode(
        x=alt.X("h:O", title=words.stage, scale=across, axis=axis),
        y=alt.Y("s:N", title=state, scale=down, axis={"labelLimit": 110, "labelOverlap": True}),
        color=alt.Color("a:N", title="action", scale=kinds, legend=legend),
        opacity=alt.Opacity("part:Q", scale={"domain": [0, 1], "range": [0.1, 1]}, legend=None),
        tooltip=[alt.Tooltip(key, title=text) for key, text in named.items()]
        + [alt.Tooltip(key, title=text, format=".3~%") for key, text in parts.items()],
    )
    params = alt.param(name="tau", value=next(iter(shares))), alt.param(name="policy", value="best")
    return with_title(chart.add_params(*params), title, note, int(min(420, max(90, 17 * places.size))))


def promise_axis(tau: float, words: Words) -> str:
    """Title of an axis of promises at one level."""
    return words.titled(f"return reached in {runs(tau)}")
