"""Charts, each specified once in Altair: interactive in a notebook and on the page, static as PNG, SVG and PDF.

Every function takes plain numbers. A chart with a parameter called `tau` or `policy` follows the control of that name on
the page. Long curves are thinned to MAX_POINTS points, laws to MAX_BARS bars, maps to MAX_STATES by MAX_STAGES cells; the
subtitle says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.results.words import Words, number, runs

MAX_POINTS, MAX_BARS, MAX_STATES, MAX_STAGES = 400, 60, 30, 30
OUTSIDE = 0.005  # probability at either end of the returns that is shown in the last bar
WIDTH, HEIGHT = 520, 300
# The palette of Okabe and Ito, which colour-blind people can tell apart, in an order that suits light and dark.
BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY, BROWN, PURPLE, OLIVE = "#888888", "#8C5A2B", "#7B5EA7", "#8A8D1E"
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, RED, BROWN, PURPLE, OLIVE, GREY)
LEARNERS = {
    "ucb-bqrl": BLUE,
    "psrl": PURPLE,
    "ucbvi": RED,
    "thompson": GREEN,
    "q-learning": PINK,
    "sarsa": ORANGE,
    "ppo": BROWN,
    "trpo": OLIVE,
}
BELOW, REACHED = "below the promise", "at least the promise"
MISSING = 'charts need Altair and vl-convert; install them with: pip install "bqrl[plots]"'


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
    spec = chart if isinstance(chart, Mapping) else chart.to_dict()
    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(dict(spec))).encode()
    if kind == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(dict(spec)))
    return bytes(vl_convert.vegalite_to_png(dict(spec), scale=2.0))


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


def thinned(x: FloatArray, y: FloatArray, size: int = MAX_POINTS) -> IntArray:
    """Indices of at most `size` vertices of a line, the ends included, spread evenly along both axes."""
    if x.size <= size:
        return np.arange(x.size)
    along = np.abs(np.diff(x)) / max(float(np.ptp(x)), 1e-300) + np.abs(np.diff(y)) / max(float(np.ptp(y)), 1e-300)
    travelled = np.r_[0.0, np.cumsum(along)]
    chosen = np.searchsorted(travelled, np.linspace(0.0, travelled[-1], size - 1))
    return np.unique(np.r_[0, np.minimum(chosen, x.size - 1), x.size - 1])


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
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

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Vertices for a chart."""
        x, y = np.r_[self.levels, 1.0], np.r_[self.values, self.values[-1]]
        chosen = thinned(x, y)
        return [
            {"curve": name, "level": a, "value": b} for a, b in zip(x[chosen].tolist(), y[chosen].tolist(), strict=True)
        ]


def guarantee_chart(
    best: Steps,
    *,
    upper: Steps | None = None,
    others: Mapping[str, Steps] | None = None,
    marks: Sequence[tuple[float, float]] = (),
    words: Words | None = None,
    name: str = "best policy for each level",
) -> Any:
    """The best guaranteed return at every level, with the plans as points.

    Parameters
    ----------
    best, upper
        The proven curve, and a proven upper curve where rounding leaves something open.
    others
        Further curves by name, such as the quantiles of the risk-neutral policy; drawn dashed.
    marks
        Level and value of each plan; the page shows the one at the slider.
    words
        The problem's words.
    """
    alt, words = altair(), words or Words("")
    curves = {name: best, **(others or {})}
    colours = [BLUE, *([GREY, BROWN, PURPLE] * 2)][: len(curves)]
    rows = [row for label, steps in curves.items() for row in steps.rows(label)]
    low = min([float(steps.at(OUTSIDE)) for steps in curves.values()] + [value for _, value in marks])
    high = max([float(steps.at(1.0 - OUTSIDE)) for steps in curves.values()] + [value for _, value in marks])
    room = 0.05 * ((high - low) or 1.0)
    x = alt.X("level:Q", title="level τ: share of runs that may end below the promise", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y(
        "value:Q",
        title=words.titled("guaranteed return"),
        scale=alt.Scale(domain=[low - room, high + room], zero=False),
    )
    colour = alt.Color(
        "curve:N", title=None, scale=alt.Scale(domain=list(curves), range=colours), legend=alt.Legend(orient="top")
    )
    dashes = alt.StrokeDash(
        "curve:N", scale=alt.Scale(domain=list(curves), range=[[1, 0], *[[6, 3]] * (len(curves) - 1)]), title=None
    )
    tips = [alt.Tooltip("curve:N"), alt.Tooltip("level:Q", format=".4~g"), alt.Tooltip("value:Q", format=".6~g")]
    layers = []
    if upper is not None:
        band = alt.Chart(_data(_between(best, upper)))
        band = band.mark_area(interpolate="step-after", opacity=0.3, color=BLUE, clip=True)
        layers.append(band.encode(x=x, y=y, y2="upper:Q"))
    layers.append(
        alt.Chart(_data(rows))
        .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
        .encode(x=x, y=y, color=colour, strokeDash=dashes, tooltip=tips)
    )
    layers += _marks(marks, x, y)
    said = "At level τ, more than 1 \N{MINUS SIGN} τ of all runs reach the curve."
    if upper is not None:
        said += " Shaded: what rounding of the returns leaves open."
    if best.levels.size >= MAX_POINTS:
        said += f" Drawn through {MAX_POINTS} of {best.levels.size} steps."
    tau = alt.param(name="tau", value=marks[0][0] if marks else 0.1)
    chart = alt.layer(*layers).add_params(tau).properties(usermeta={"click": "tau"})  # a click on the page sets tau
    return _finish(chart, "What can be guaranteed, and how surely", said)


def _between(low: Steps, high: Steps) -> list[dict[str, float]]:
    """Vertices of the band between two curves."""
    grid = np.unique(np.r_[low.levels, high.levels, 1.0])
    grid = grid[np.unique(np.linspace(0, grid.size - 1, min(grid.size, MAX_POINTS)).astype(int))]
    columns = zip(grid.tolist(), low.at(grid).tolist(), high.at(grid).tolist(), strict=True)
    return [{"level": a, "value": b, "upper": c} for a, b, c in columns]


def _marks(marks: Sequence[tuple[float, float]], x: Any, y: Any) -> list[Any]:
    """The plan at the level tau: a line, a point and its value."""
    alt = altair()
    points = [{"level": level, "value": value} for level, value in marks]
    shown = alt.Chart(_data(points)).transform_filter("datum.level == tau")
    side = {"align": alt.expr("tau > 0.7 ? 'right' : 'left'"), "dx": alt.expr("tau > 0.7 ? -9 : 9")}
    text = shown.mark_text(**side, dy=14, fontWeight="bold", color=RED, fontSize=12)
    return [
        shown.mark_rule(strokeDash=[2, 2], opacity=0.8, color=RED).encode(x=x),
        shown.mark_point(filled=True, size=110, color=RED, opacity=1).encode(x=x, y=y),
        text.encode(x=x, y=y, text=alt.Text("value:Q", format=".5~g")),
    ]


def law_chart(
    laws: Mapping[float, Law],
    promises: Mapping[float, float],
    *,
    neutral: Law | None = None,
    bracketed: bool = False,
    words: Words | None = None,
) -> Any:
    """The probability of each return under the plan of each level, the part below the promise in another colour.

    Parameters
    ----------
    laws
        Law of the return by level; one of them is shown at a time.
    promises
        The value that is promised, by level; returns below it are marked. Empty: nothing is marked.
    neutral
        Law of the return of the risk-neutral policy, shown when the parameter `policy` is "risk-neutral".
    bracketed
        Whether the laws are proven lower ends; the subtitle says so.
    words
        The problem's words.
    """
    alt, words = altair(), words or Words("")
    everything = [*laws.values(), *([] if neutral is None else [neutral])]
    edges, left_out = _bins(everything)
    rows = []
    for level, law in laws.items():
        promise = promises.get(level, -np.inf)
        rows += [{"tau": level} | bar for bar in _bars(law, edges, promise)]
        if neutral is not None:
            rows += [{"tau": level, "policy": "risk-neutral"} | bar for bar in _bars(neutral, edges, promise)]
    first = next(iter(laws))
    tau, policy = alt.param(name="tau", value=first), alt.param(name="policy", value="best")
    bins = alt.Chart(_data(rows)).transform_filter("datum.tau == tau && (datum.policy || 'best') == policy")
    x = alt.X(
        "from:Q",
        title=words.returns,
        scale=alt.Scale(domain=[float(edges[0]), float(edges[-1])], nice=False, zero=False),
    )
    y = alt.Y("sum(share):Q", title="share of runs", axis=alt.Axis(format=".0~%"))
    scale = alt.Scale(domain=[BELOW, REACHED], range=[ORANGE, BLUE])
    colour = alt.Color("kind:N", title=None, scale=scale, legend=alt.Legend(orient="top") if promises else None)
    tips = [alt.Tooltip(f"{key}:Q", format=form) for key, form in (("from", ".6~g"), ("to", ".6~g"), ("share", ".4~%"))]
    bars = bins.mark_bar(stroke=None, binSpacing=1).encode(
        x=x, x2="to:Q", y=y, color=colour, order=alt.Order("kind:N", sort="ascending"), tooltip=tips
    )
    lines = [{"tau": level, "from": value} for level, value in promises.items()]
    line = (
        alt.Chart(_data(lines))
        .transform_filter("datum.tau == tau")
        .mark_rule(color=RED, strokeDash=[4, 2], strokeWidth=1.5)
    )
    said = [
        "Dashed line: the promise." if promises else "",
        "Returns are rounded down." if bracketed else "",
        "The first and the last bar hold all rarer returns." if left_out else "",
    ]
    layers = [bars, line.encode(x=x)] if promises else [bars]
    chart = alt.layer(*layers).add_params(tau, policy)
    return _finish(chart, "How the return is distributed", " ".join(filter(None, said)))


def _bins(laws: Sequence[Law]) -> tuple[FloatArray, bool]:
    """Edges of the bars of several laws: one bar per return if they are few, else MAX_BARS of equal width."""
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


def _bars(law: Law, edges: FloatArray, promise: float) -> list[dict[str, Any]]:
    """Bars of a law, those below the promise first."""
    below = law.values < promise - 1e-9 * max(1.0, abs(promise)) if np.isfinite(promise) else law.values < promise
    places = np.clip(np.searchsorted(edges, law.values, side="right") - 1, 0, edges.size - 2)
    rows = []
    for kind, chosen in ((BELOW, below), (REACHED, ~below)):
        mass = np.bincount(places[chosen], law.probabilities[chosen], edges.size - 1)
        for i in np.flatnonzero(mass).tolist():
            share = float(f"{mass[i]:.6g}")
            rows.append({"kind": kind, "from": float(edges[i]), "to": float(edges[i + 1]), "share": share})
    return rows


def policy_chart(
    shares: Mapping[float, FloatArray],
    states: Sequence[str],
    actions: Sequence[str],
    *,
    neutral: FloatArray | None = None,
    words: Words | None = None,
) -> Any:
    """The action that is played most often at each stage in each state.

    Parameters
    ----------
    shares
        For each level the probabilities, shape (H, S, A), of being in a state at a stage and playing an action.
    states, actions
        Names.
    neutral
        The same of the risk-neutral policy, shown when the parameter `policy` is "risk-neutral".
    words
        The problem's words.
    """
    alt, words = altair(), words or Words("")
    maps = [(level, "best", share) for level, share in shares.items()]
    if neutral is not None:
        maps += [(level, "risk-neutral", neutral) for level in list(shares)[:1]]
    met = np.sum([share.sum(axis=2) for _, _, share in maps], axis=0)  # (H, S)
    H = met.shape[0]
    places = np.flatnonzero(met.any(axis=0))
    said = "Blank: never met. Paler: the action also depends on the rewards so far."
    if places.size > MAX_STATES:
        said += f" The {MAX_STATES} states met most often of {places.size}."
        places = np.sort(np.argsort(-met.sum(axis=0), kind="stable")[:MAX_STATES])
    stages = np.unique(np.linspace(0, H - 1, min(H, MAX_STAGES)).round().astype(int))
    if stages.size < H:
        said += f" {MAX_STAGES} of {words.count(words.stage, H)}."
    rows = [
        ({"tau": level} if policy == "best" else {"policy": policy}) | cell
        for level, policy, share in maps
        for cell in _map_cells(share, stages, places, states, actions)
    ]
    used = [
        actions[a] for a in np.flatnonzero(np.sum([share.sum(axis=(0, 1)) for _, _, share in maps], axis=0)).tolist()
    ]
    tau, policy_param = alt.param(name="tau", value=next(iter(shares))), alt.param(name="policy", value="best")
    numbers = sum(states[s].lstrip("-").replace(".", "", 1).isdigit() for s in places.tolist())
    order = places[::-1].tolist() if 2 * numbers > places.size else places.tolist()  # numbers grow upwards
    height = int(min(420, max(90, 17 * places.size)))
    scheme: dict[str, Any] = (
        {"range": list(PALETTE[: len(used)])} if len(used) <= len(PALETTE) else {"scheme": "viridis"}
    )
    axis = alt.Axis(labelAngle=0, labelOverlap=True)
    x = alt.X("h:O", title=words.stage, scale=alt.Scale(domain=(stages + 1).tolist()), axis=axis)
    domain = alt.Scale(domain=[states[s] for s in order])
    y = alt.Y("s:N", title="state", scale=domain, axis=alt.Axis(labelLimit=110, labelOverlap=True))
    legend = alt.Legend(orient="top", symbolLimit=40)
    colour = alt.Color("a:N", title="action", scale=alt.Scale(domain=used, **scheme), legend=legend)
    opacity = alt.Opacity("part:Q", scale=alt.Scale(domain=[0, 1], range=[0.1, 1]), legend=None)
    named = {"h:O": words.stage, "s:N": "state", "a:N": "most often played"}
    shares_named = {"part:Q": "share of visits", "met:Q": "probability of a visit"}
    tips = [alt.Tooltip(key, title=title) for key, title in named.items()]
    tips += [alt.Tooltip(key, title=title, format=".3~%") for key, title in shares_named.items()]
    cells = alt.Chart(_data(rows)).transform_filter("policy == 'best' ? datum.tau == tau : datum.policy == policy")
    chart = cells.mark_rect().encode(x=x, y=y, color=colour, opacity=opacity, tooltip=tips)
    return _finish(chart.add_params(tau, policy_param), "What the policy does", said, height)


def _map_cells(
    share: FloatArray, stages: IntArray, places: IntArray, states: Sequence[str], actions: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The action played most often in each cell that is met, and how often."""
    for h in stages.tolist():
        for s in places.tolist():
            total = float(share[h, s].sum())
            if total > 0.0:
                a = int(share[h, s].argmax())
                part = float(f"{share[h, s, a] / total:.3g}")
                yield {"h": h + 1, "s": states[s], "a": actions[a], "part": part, "met": float(f"{total:.3g}")}


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A curve over episodes with its band; `low` and `high` are the curve itself where there is no band."""

    label: str
    x: FloatArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray

    def rows(self) -> list[dict[str, Any]]:
        """Vertices for a chart."""
        columns = {"x": self.x, "y": self.mean, "low": self.low, "high": self.high}
        return [
            {"learner": self.label} | {key: float(f"{values[i]:.6g}") for key, values in columns.items()}
            for i in thinned(self.x, self.mean).tolist()
        ]


def curves_chart(
    curves: Sequence[Curve],
    *,
    title: str,
    y_title: str,
    band: str = "",
    x_title: str = "episode",
    references: Sequence[tuple[str, float]] = (),
    log: bool = False,
    note: str = "",
) -> Any:
    """Curves over episodes with bands, one colour per learner.

    Parameters
    ----------
    curves
        The curves; each is thinned to MAX_POINTS points.
    title, y_title, x_title
        What to see, and the axes.
    band
        What the band is, such as "95 % confidence band of the mean over 20 seeds"; empty without one.

    References
    ----------
        Horizontal dashed lines: name and value.
    log
        Whether both axes are logarithmic.
    note
        What else the subtitle says.
    """
    alt = altair()
    rows = [row for curve in curves for row in curve.rows()]
    labels = [curve.label for curve in curves]
    scale: dict[str, Any] = {"type": "log"} if log else {"zero": False}
    x = alt.X("x:Q", title=x_title, scale=alt.Scale(nice=False, **({"type": "log"} if log else {})))
    y = alt.Y("y:Q", title=y_title, scale=alt.Scale(**scale))
    colour = alt.Color(
        "learner:N",
        title=None,
        scale=alt.Scale(domain=labels, range=learner_colours(labels)),
        legend=alt.Legend(orient="top", symbolOpacity=1, symbolType="stroke", symbolStrokeWidth=3)
        if len(labels) > 1
        else None,
    )
    base = alt.Chart(_data(rows))
    layers = []
    if band:
        layers.append(
            base.mark_area(opacity=0.2, clip=True).encode(
                x=x, y=alt.Y("low:Q", title=y_title), y2="high:Q", color=colour
            )
        )
    tips = [
        alt.Tooltip("learner:N"),
        alt.Tooltip("x:Q", title=x_title),
        alt.Tooltip("y:Q", title=y_title, format=".5~g"),
    ]
    point = len(rows) == len(labels)
    layers.append(base.mark_line(strokeWidth=2, point=point, clip=True).encode(x=x, y=y, color=colour, tooltip=tips))
    for name, value in references:
        line = alt.Chart(_data([{"y": value, "name": f"{name}: {number(value, 5)}"}]))
        layers.append(line.mark_rule(strokeDash=[5, 3], color=GREY).encode(y=y))
        layers.append(
            line.mark_text(align="right", dy=-6, color=GREY, fontWeight="bold").encode(
                y=y, x=alt.value("width"), text="name:N"
            )
        )
    said = (f"Band: {band}." if band else "") + note
    longest = max(curve.x.size for curve in curves)
    if longest > MAX_POINTS:
        said += f" Drawn through {MAX_POINTS} of {longest} points."
    return _finish(alt.layer(*layers), title, said.strip())


def experiment_chart(experiment: Any, measure: str | None = None) -> Any:
    """Learning curves of an experiment with their bands.

    Parameters
    ----------
    experiment
        What `bqrl.compare` returns.
    measure
        "gap", "regret" or "return", summed over the episodes; by default the gap if the kernel is known.
    """
    measure = measure or ("gap" if experiment.exact else "return")
    titles = {
        "gap": ("How far the policies fall short of the best promise", "cumulative quantile gap"),
        "regret": ("How far the policies fall short of the best mean", "cumulative regret of the mean"),
        "return": ("What was earned", "cumulative return"),
    }
    title, y_title = titles[measure]
    if len(experiment.learners) > 1 and measure != "regret":
        best = experiment.rows()[0]["learner"]
        title = f"{best} {'ends with the smallest gap' if experiment.exact else 'has the largest late return'}"
        title += f" at τ = {experiment.tau:g}"
    band = experiment.band if len(experiment.seeds) > 1 else ""
    note = f" Drawn through {MAX_POINTS} of {experiment.episodes} episodes." if experiment.episodes > MAX_POINTS else ""
    curves = curves_of(experiment.curves(measure, MAX_POINTS))
    return curves_chart(curves, title=title, y_title=y_title, band=band, note=note)


def curves_of(rows: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Curves from rows with learner, episode, mean, low and high."""
    found = []
    for label in dict.fromkeys(row["learner"] for row in rows):
        mine = [row for row in rows if row["learner"] == label]
        x, mean, low, high = (np.array([row[key] for row in mine], float) for key in ("episode", "mean", "low", "high"))
        found.append(Curve(label, x, mean, low, high))
    return found


def promise_axis(tau: float, words: Words) -> str:
    """Title of an axis of promises at one level."""
    return words.titled(f"return reached in {runs(tau)}")


def _data(rows: Iterable[Mapping[str, Any]]) -> Any:
    return altair().Data(values=list(rows))


def titled(chart: Any, title: str, subtitle: str) -> Any:
    """The chart with a title that says what to see, and a line below it."""
    alt = altair()
    text = alt.TitleParams(
        title, subtitle=_lines(subtitle), anchor="start", fontSize=15, subtitleFontSize=12, offset=10
    )
    return chart.properties(title=text)


def _finish(chart: Any, title: str, subtitle: str, height: int = HEIGHT) -> Any:
    return (
        titled(chart, title, subtitle)
        .properties(width=WIDTH, height=height)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridOpacity=0.35, titleFontWeight="normal")
        .configure_legend(labelFontSize=12, labelLimit=320, columns=3)
    )


def _lines(text: str, length: int = 72) -> list[str]:
    """The text over lines of about `length` characters."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= length:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    return lines
