"""Building blocks of all charts. A chart is one Altair specification: interactive on the page, static as PNG, SVG and PDF.

Charts carry no configuration, so that they can be layered and concatenated; pages and files add the style of the library.

Nearly all charts are of three kinds: lines with bands (in this module), bars of a law, and maps of actions (in
`plan_charts`). A selector of a chart is a drop-down list. Data are embedded as CSV text, which has a third of the size of
JSON. Lines are thinned to MAX_POINTS points; the subtitle says so.
"""

from __future__ import annotations

import colorsys
import csv
import io
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from importlib import import_module
from itertools import product
from pathlib import Path
from textwrap import wrap
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bqrl.display import format_number
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.files import checked_ending
from bqrl.mdp.files.atomic import check_place, write_whole
from bqrl.results.result import Result
from bqrl.versions import software

MAX_POINTS = 400
AXIS = 46  # characters of a title that fit beside a vertical axis
STYLE = {
    "view": {"stroke": None, "continuousWidth": 520, "continuousHeight": 300, "discreteWidth": 520},
    "title": {"anchor": "start", "fontSize": 15, "subtitleFontSize": 12, "offset": 10},
    "axis": {"labelFontSize": 11, "titleFontSize": 12, "gridOpacity": 0.35, "titleFontWeight": "normal"},
    "axisQuantitative": {"labelExpr": "length(datum.label) > 14 ? format(datum.value, '.4~g') : datum.label"},
    "legend": {"orient": "top", "labelFontSize": 12, "labelLimit": 320, "columns": 3},
}
# The palette of Okabe and Ito, which colour-blind people can tell apart, in an order that suits light and dark.
BLUE, ORANGE, GREEN, PINK, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY, BROWN, PURPLE, OLIVE = "#888888", "#8C5A2B", "#7B5EA7", "#8A8D1E"
INDIGO, WINE, LIME = "#4B4FCB", "#A3264B", "#6BBF3A"
PALETTE = (BLUE, ORANGE, GREEN, PINK, SKY, RED, BROWN, PURPLE, OLIVE, INDIGO, WINE, LIME, GREY)


# texts, or names in a Vega expression
NAMES = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|(?<![\w.])[A-Za-z_]\w*')


def import_extra(module: str, needed: str = "charts need Altair and vl-convert") -> ModuleType:
    """A module of the extra "plots"; ImportError with the remedy if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(f'{needed}; run: pip install "bqrl[plots]"') from None


altair = partial(import_extra, "altair")


def styled(chart: Any) -> dict[str, Any]:
    """Specification of a chart in the style of the library; the chart's own configuration wins."""
    if isinstance(chart, Mapping):
        return dict(chart)
    own = getattr(chart, "config", {})
    own = {} if own is altair().Undefined else own
    return dict(chart.to_dict()) | {"config": STYLE | (own if isinstance(own, dict) else own.to_dict())}


def is_chart(thing: Any) -> bool:
    """Whether an object is an Altair chart."""
    return type(thing).__module__.partition(".")[0] == "altair" and hasattr(thing, "to_dict")


def save_chart(chart: Any, path: str | Path) -> None:
    """Write a chart to a file atomically, in the style of the library; the ending chooses the format."""
    place = Path(path)
    kind = checked_ending(place, (".pdf", ".svg", ".png", ".html", ".json"))[1:]
    check_place(place)
    spec = styled(chart)
    if kind in ("html", "json"):
        spec["usermeta"] = spec.get("usermeta", {}) | made_by(spec)
        text = altair().Chart.from_dict(spec).to_html() if kind == "html" else json.dumps(spec)
        write_whole(place, text.encode())
    else:
        write_whole(place, image(spec, kind))


def image(chart: Any, kind: str) -> bytes:
    """A chart, or its specification, as the bytes of a "png", "svg" or "pdf" file that names its seeds and versions."""
    spec = styled(chart)
    made = getattr(import_extra("vl_convert"), f"vegalite_to_{kind}")(spec, **({"scale": 2.0} if kind == "png" else {}))
    return METADATA[kind](made.encode() if isinstance(made, str) else bytes(made), made_by(spec))


def made_by(spec: Mapping[str, Any]) -> dict[str, str]:
    """The versions of the software, and the descriptions in a specification: those of learning curves name their runs."""
    said = "; ".join(dict.fromkeys(_descriptions(spec)))
    return {"Software": software()} | ({"Description": said} if said else {})


def _descriptions(spec: Any) -> Iterator[str]:
    """Yield the descriptions of a specification and of its panels and layers."""
    if isinstance(spec, Mapping):
        if isinstance(spec.get("description"), str):
            yield spec["description"]
        for key in ("concat", "hconcat", "vconcat", "layer"):
            for part in spec.get(key, ()):
                yield from _descriptions(part)


def _svg_with(content: bytes, facts: Mapping[str, str]) -> bytes:
    """An SVG file with facts in its element <metadata>."""
    text = escape(json.dumps(facts, ensure_ascii=False), quote=False)
    head, end, rest = content.partition(b">")
    return head + end + f"<metadata>{text}</metadata>".encode() + rest


def _png_with(content: bytes, facts: Mapping[str, str]) -> bytes:
    """A PNG file with facts in chunks of UTF-8 text, after its first chunk, which has 25 bytes."""
    chunks = b""
    for key, text in facts.items():
        chunk = b"iTXt" + key.encode() + bytes(5) + text.encode()
        chunks += struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return content[:33] + chunks + content[33:]


def _pdf_with(content: bytes, facts: Mapping[str, str]) -> bytes:
    """A PDF file with facts as its document information, by an update at its end; unchanged if it has no plain trailer."""
    *_, trailer = content.rpartition(b"trailer")
    size, root, old = (
        re.search(rule, trailer) for rule in (rb"/Size (\d+)", rb"/Root (\d+ \d+ R)", rb"startxref\s+(\d+)")
    )
    if not (size and root and old):
        return content
    names, number, content = {"Software": "Producer", "Description": "Subject"}, int(size[1]), content.rstrip() + b"\n"
    info = " ".join(f"/{names[key]} <{(chr(0xFEFF) + text).encode('utf-16-be').hex()}>" for key, text in facts.items())
    start = f"{number} 0 obj\n<< {info} >>\nendobj\n".encode()
    table = f"xref\n{number} 1\n{len(content):010d} 00000 n\r\n".encode()
    facts_of_file = f"<< /Size {number + 1} /Root {root[1].decode()} /Info {number} 0 R /Prev {old[1].decode()} >>"
    end = f"trailer\n{facts_of_file}\nstartxref\n{len(content) + len(start)}\n%%EOF\n".encode()
    return content + start + table + end


METADATA = {"svg": _svg_with, "png": _png_with, "pdf": _pdf_with}


def with_charts(
    result: Result, charts: Callable[[], Mapping[str, Any]], folder: str = "", images: bool = True
) -> Result:
    """The result with charts and, with `images`, a PNG and a PDF file of each; without Altair, `left_out` says so."""
    try:
        specs = {name: styled(chart) for name, chart in charts().items()}
        kinds = ("png", "pdf") if images else ()
        files = {f"{folder}{name}.{kind}": image(spec, kind) for name, spec in specs.items() for kind in kinds}
    except ImportError as fault:
        return replace(result, left_out=[*result.left_out, str(fault)])
    return replace(result, charts=specs, files={**result.files, **files})


def more_colours(used: Iterable[str] = (), first: Sequence[str] = PALETTE) -> Iterator[str]:
    """Colours that differ from those `used` and from one another: the `first` ones, then the most distant ones that are left.

    >>> from itertools import islice
    >>> len(set(islice(more_colours(), 60)))
    60
    """
    taken = list(used)
    for colour in first:
        if colour not in taken:
            taken.append(colour)
            yield colour
    while True:
        hues = (np.arange(180) / 180.0 + len(taken) / 1260.0) % 1.0
        shades = np.array(
            [colorsys.hls_to_rgb(hue, (0.3, 0.47, 0.65)[i % 3], 0.75) for i, hue in enumerate(hues.tolist())]
        )
        known = np.array([[int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)] for colour in taken])
        far = shades[np.linalg.norm(shades[:, None] - known[None], axis=2).min(axis=1).argmax()]
        taken.append("#" + "".join(f"{round(255 * x):02X}" for x in far.tolist()))
        yield taken[-1]


def chart_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Any:
    """Chart with embedded data and without marks. Numbers have six digits; only the level `tau` is exact."""
    alt, text = altair(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = zip(columns, row, strict=True)
        writer.writerow([f"{x:.6g}" if isinstance(x, float) and name != "tau" else x for name, x in cells])
    texts = {name for i, name in enumerate(columns) if any(row[i] is None or isinstance(row[i], str) for row in rows)}
    parse = {name: "string" if name in texts else "number" for name in columns}
    return alt.Chart(alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=parse)))


def tooltips(*columns: str | Sequence[str]) -> list[Any]:
    """Tooltips of columns, each given as a name, as (name, title) or as (name, title, format)."""
    given = ([column] if isinstance(column, str) else column for column in columns)
    return [altair().Tooltip(**dict(zip(("shorthand", "title", "format"), one, strict=False))) for one in given]


class Selector(NamedTuple):
    """A drop-down list of a chart. The data column `name` holds the index of the option of each row."""

    name: str
    title: str
    options: Sequence[str]
    values: Sequence[Any] = ()  # of the options, passed to the title function


def view_filter(selectors: Sequence[Selector]) -> str:
    """Vega expression that keeps the rows of the selected options."""
    return " && ".join(f"datum.{one.name} == {one.name}" for one in selectors) or "true"


def fold_text(text: Any, width: int = 74) -> Any:
    """A text, or nested lists of texts, wrapped into lines of at most `width` characters."""
    if not isinstance(text, str):
        return [fold_text(part, width) for part in text]
    return wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def with_title(
    chart: Any, title: str, note: str, height: int | None = None, selectors: Sequence[Selector] = (), finding: Any = ""
) -> Any:
    """The finished chart with a title of one line and the subtitle `finding`, then `note`.

    The title says what is shown, the finding what one sees. With selectors, the finding may be a function of their values, or
    nested lists with one level per selector; the page shows that of the selection, an image that of the first options.
    """
    alt = altair()
    if callable(finding):
        texts = [finding(*values) for values in product(*(one.values for one in selectors))]
        finding = np.array(texts, dtype=object).reshape([len(one.values) for one in selectors]).tolist()
    first = finding
    while not isinstance(first, str):
        first = first[0]
    above = fold_text(first) if first else []
    for one in selectors:
        labels = {"options": list(range(len(one.options))), "labels": list(one.options), "name": f"{one.title}: "}
        bind = {"bind": alt.binding_select(**labels)}
        if len(one.options) == 1:  # the subtitle names the only option
            bind, note = {}, f"{one.title.capitalize()}: {one.options[0]}. {note}"
        chart = chart.add_params(alt.param(name=one.name, value=0, **bind))
    if first:  # the page shows the findings in `usermeta` in place of the first lines of the subtitle
        names = [one.name for one in selectors] if finding is not first else []
        chart = chart.properties(usermeta={"selectors": names, "findings": finding, "lines": len(above)})
    size = {} if height is None else {"height": height}
    subtitle = [*above, *(fold_text(note) if note or not above else [])]
    return chart.properties(title=alt.TitleParams([title], subtitle=subtitle, anchor="start"), **size)


def composable(chart: Any, title: bool | str = True) -> Any:
    """The chart for users: without what only the page reads or sets, and with its own title, none or the given one.

    The parameters that controls of the page set become constants, because two charts of one figure must not define the same.
    """
    chart.usermeta = altair().Undefined
    params = chart.params if isinstance(chart.params, list) else []
    values = {one["name"]: one["value"] for one in (param.to_dict() for param in params) if "bind" not in one}
    if values:
        spec = chart.to_dict()
        tables = spec.get("datasets", {})
        spec = {key: part for key, part in spec.items() if key not in ("$schema", "config", "datasets")}
        chart = altair().Chart.from_dict(_with_constants(spec, values, tables))
    if not isinstance(title, bool):
        chart.title = str(title)
    elif not title:
        chart.title = altair().Undefined
        for part in (*getattr(chart, "hconcat", ()), *getattr(chart, "vconcat", ()), *getattr(chart, "concat", ())):
            part.title = altair().Undefined
    return chart


def _with_constants(spec: Any, values: Mapping[str, Any], tables: Mapping[str, Any]) -> Any:
    """A part of a specification with constants in place of parameters, and with its data in place."""
    if isinstance(spec, list):
        return [_with_constants(part, values, tables) for part in spec]
    if not isinstance(spec, dict):
        return spec
    if spec.get("name") in tables:
        return {key: part for key, part in spec.items() if key != "name"} | {"values": tables[spec["name"]]}
    found = {}
    for key, part in spec.items():
        if key == "params":
            part = [one for one in part if one.get("name") not in values]
        if key in ("filter", "expr", "calculate", "test") and isinstance(part, str):
            part = NAMES.sub(lambda found: json.dumps(values[found[0]]) if found[0] in values else found[0], part)
        if part or key != "params":
            found[key] = _with_constants(part, values, tables)
    return found


def join_charts(how: str, *parts: Any) -> Any:
    """Charts beside each other ("hconcat") or below each other ("vconcat")."""
    alt = altair()
    for part in parts:  # which only a whole specification may have
        part.usermeta = alt.Undefined
    return getattr(alt, how)(*parts).resolve_scale(color="independent")


def thin_line(x: FloatArray, y: FloatArray, size: int = MAX_POINTS) -> IntArray:
    """Indices of at most `size` vertices of a line: its ends, and pairs of neighbours spread evenly along both axes."""
    if x.size <= size:
        return np.arange(x.size)
    along = np.abs(np.diff(x)) / max(float(np.ptp(x)), 1e-300) + np.abs(np.diff(y)) / max(float(np.ptp(y)), 1e-300)
    travelled = np.r_[0.0, np.cumsum(along)]
    places = np.searchsorted(travelled, np.linspace(0.0, travelled[-1], size // 2 + 1)[1:-1])
    return np.unique(np.r_[0, places - 1, places, x.size - 1])


class Curve(NamedTuple):
    """A line with an optional band; `view` holds the options of the selectors for which it is shown."""

    label: str
    x: FloatArray
    y: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    view: tuple[int, ...] = ()


class Lines(NamedTuple):
    """Layers of a line chart, the channels for further layers, and a note for the subtitle if lines are thinned."""

    layers: list[Any]
    x: Any
    y: Any
    note: str
    selectors: Sequence[Selector] = ()

    def chart(self, title: str, note: str, *more: Any, finding: Any = "") -> Any:
        """The finished chart with `more` layers above the lines; `finding` as in `with_title`."""
        subtitle = " ".join(filter(None, (note, self.note)))
        drawn = altair().layer(*self.layers, *more)
        return with_title(drawn, title, subtitle, selectors=self.selectors, finding=finding)


def colour_channel(field: str, colours: Mapping[str, str], **legend: Any) -> Any:
    """Channel that colours by field value, with a legend if there are several values."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    return altair().Color(field, title=None, scale=scale, legend=legend if len(colours) > 1 else None)


def by_label(
    labels: Sequence[str], colours: Mapping[str, str] | None = None, symbol: str = "stroke"
) -> tuple[str, Any]:
    """Vega expression that turns the column `k` into a label, and the colour channel of the labels."""
    size = 300 if symbol == "stroke" else 100  # long enough to show dashes
    legend = {"symbolOpacity": 1, "symbolType": symbol, "symbolSize": size, "symbolStrokeWidth": 3}
    colours = colours or dict(zip(labels, more_colours(), strict=False))
    named = {label: colours[label] for label in labels}
    return f"{json.dumps(list(labels))}[datum.k]", colour_channel("line:N", named, **legend)


def lines(
    curves: Sequence[Curve],
    x_title: str,
    y_title: str,
    *,
    selectors: Sequence[Selector] = (),
    scales: Mapping[str, Mapping[str, Any]] | None = None,  # of the axes "x" and "y"
    colours: Mapping[str, str] | None = None,  # by label
    step: bool = False,
    points: bool = False,
    dashed: bool = False,  # all but the first label
) -> Lines:
    """Lines with their bands, one colour per label."""
    alt, scales = altair(), scales or {}
    labels = list(dict.fromkeys(curve.label for curve in curves))
    rows, (longest, drawn) = [], (0, 0)
    for curve in curves:
        low, high = (curve.y if end is None else end for end in (curve.low, curve.high))
        columns = np.array([curve.x, curve.y, low, high])
        if step:  # a step line needs only its ends and the points where it changes
            corner = np.r_[True, (columns[1:, 1:] != columns[1:, :-1]).any(axis=0)]
            corner[-1] = True
            columns = columns[:, corner]
        if scales.get("y", {}).get("type") == "log":  # it has no place for the rest; a band ends at the lowest mean
            columns = columns[:, columns[1] > 0.0]
            columns[2] = np.maximum(columns[2], columns[1].min(initial=np.inf))
        at = thin_line(columns[0], columns[1])
        rows += [[*curve.view, labels.index(curve.label), *row] for row in columns[:, at].T.tolist()]
        longest, drawn = max((longest, drawn), (columns.shape[1], at.size))
    label, colour = by_label(labels, colours)
    base = chart_of([*(one.name for one in selectors), "k", "x", "y", "low", "high"], rows)
    base = base.transform_filter(view_filter(selectors)).transform_calculate(line=label)
    logarithmic = scales.get("x", {}).get("type") == "log"  # labels such as 30 and 40 would touch
    apart = {"axis": {"labelSeparation": 6}} if logarithmic else {}
    x = alt.X("x:Q", title=x_title, scale={"nice": False, **scales.get("x", {})}, **apart)
    upright = dict(scales.get("y", {}))
    upright |= {} if upright.get("type") == "log" else {"zero": False}
    upwards = y_title if len(y_title) <= AXIS else fold_text(y_title, AXIS)  # a longer line would leave its axis
    room = {} if upwards is y_title else {"axis": {"titlePadding": 10}}  # for the second line
    y, low_end = (alt.Y(field, title=upwards, scale=upright, **room) for field in ("y:Q", "low:Q"))
    shape = {"clip": True, "interpolate": "step-after" if step else "linear"}
    shown = tooltips(("line:N", " "), ("x:Q", x_title, ".6~g"), ("y:Q", y_title, ".6~g"))
    line = base.mark_line(strokeWidth=2, point=points or longest == 1, **shape)
    line = line.encode(x=x, y=y, color=colour, tooltip=shown)
    if dashed and len(labels) > 1:
        patterns = {"domain": labels, "range": [[1, 0], *[[6, 3]] * (len(labels) - 1)]}
        line = line.encode(strokeDash=alt.StrokeDash("line:N", title=None, scale=patterns))
    layers = [line]
    if any(curve.low is not None for curve in curves):
        layers.insert(0, base.mark_area(opacity=0.2, **shape).encode(x=x, y=low_end, y2="high:Q", color=colour))
    note = f"Shown in full, at {drawn:,} of {longest:,} points." if longest > drawn else ""
    return Lines(layers, x, y, note, selectors)


def curves_chart(
    curves: Sequence[Curve], *, title: str, y_title: str, band: str = "", note: str = "", finding: str = "",
    references: Sequence[tuple[str, float]] = (), colours: Mapping[str, str] | None = None, step: bool = False, log: str = "",
    description: str = "",
) -> Any:  # fmt: skip
    """Curves over episodes; `band` describes their bands, `references` are names and values of dashed lines.

    The `description` names the runs; exported files repeat it. `log` names the logarithmic axes: "", "x", "y" or "xy".
    """
    scales = {axis: {"type": "log"} for axis in log}
    alt, drawn, layers = altair(), lines(curves, "episode", y_title, colours=colours, step=step, scales=scales), []
    if references:
        names = {value: ", ".join(name for name, x in references if x == value) for _, value in references}
        rows = [[value, f"{name}: {format_number(value, 5)}"] for value, name in names.items()]
        marks = chart_of(["y", "name"], rows).encode(y=drawn.y)
        text = marks.mark_text(align="right", dy=-6, color=GREY, fontWeight="bold")
        layers = [marks.mark_rule(strokeDash=[5, 3], color=GREY), text.encode(x=alt.value("width"), text="name:N")]
    chart = drawn.chart(title, f"{f'Band: {band}.' if band else ''} {note}".strip(), *layers, finding=finding)
    return chart.properties(description=description) if description else chart
