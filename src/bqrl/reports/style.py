"""The look of every figure: a palette that colour-blind readers can tell apart, plain axes, titles that say what to see.

Figures are Matplotlib objects made without its global state, so they can be drawn in any thread and beside other plots.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from typing import TYPE_CHECKING, Any

from bqrl.reports.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, those that read well as thin lines first.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C5A2B", "#000000")
FILLS = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#8C5A2B", "#4D4D4D")  # for areas
NEUTRAL, INK, QUIET, FAINT = "#7A7A7A", "#222222", "#5F5F5F", "#D9D9D9"
SIZE = 9.0  # points: as large as the text of a paper
DPI = 200


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches, drawn without a screen."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingPlots('figures need Matplotlib; install it with: pip install "bqrl[plots]"') from None
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(w_pad=0.08, h_pad=0.06)  # type: ignore[call-arg]
    return figure


class MissingPlots(ImportError):  # noqa: N818
    """The plotting library is not installed."""


def head(figure: Figure, title: str, subtitle: str = "", axes: Axes | None = None) -> None:
    """A bold title at the left edge, and where there is one frame a quieter line above it."""
    width = figure.get_size_inches()[0]
    bold = "\n".join(textwrap.wrap(escape(title), int(11.0 * width), break_on_hyphens=False))
    figure.suptitle(bold, x=0.08 / width, ha="left", fontsize=SIZE + 2, fontweight="bold", color=INK)
    if axes is not None:
        quiet = "\n".join(textwrap.wrap(escape(subtitle), int(16.5 * (width - 0.7)), break_on_hyphens=False))
        axes.set_title(quiet, loc="left", fontsize=SIZE - 0.5, color=QUIET, pad=8)


def tidy(axes: Axes, xlabel: str, ylabel: str, *, grid: bool = True) -> None:
    """Axis labels, two spines and a quiet grid."""
    axes.set_xlabel(escape(xlabel), fontsize=SIZE, color=INK)
    axes.set_ylabel(escape(ylabel), fontsize=SIZE, color=INK)
    axes.tick_params(labelsize=SIZE - 1, colors=QUIET, length=3, width=0.6)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(QUIET)
        spine.set_linewidth(0.6)
    if grid:
        axes.grid(True, color=FAINT, linewidth=0.5)
        axes.set_axisbelow(True)


def colours(count: int, palette: tuple[str, ...] = PALETTE) -> list[Any]:
    """`count` colours: the palette, or where it is too short an even sample of a perceptually uniform map."""
    if count <= len(palette):
        return list(palette[:count])
    from matplotlib import colormaps

    return [colormaps["viridis"](0.92 * i / (count - 1)) for i in range(count)]


def escape(text: str) -> str:
    """Text that Matplotlib draws as it stands: a name may hold dollar signs."""
    return text.replace("$", r"\$")


def shown(x: float, digits: int = 4) -> str:
    """A number with the minus sign that Matplotlib's own ticks have."""
    return number(x, digits).replace("-", "\N{MINUS SIGN}")


def encode(figure: Figure, kind: str) -> bytes:
    """The figure as the bytes of a "png", "pdf" or "svg" file; the same figure gives the same bytes."""
    import matplotlib

    content = io.BytesIO()
    fixed: dict[str, Any] = {"png": {"Software": None}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    settings: Any = {"pdf.fonttype": 42, "svg.hashsalt": "bqrl"}  # type 42: text in a PDF stays text
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in a script the font lacks
        figure.savefig(content, format=kind, dpi=DPI, metadata=fixed)
    return content.getvalue()
