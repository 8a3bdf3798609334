"""The map of a policy: stage by state, coloured by what is played there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.reports.style import FAINT, FILLS, INK, SIZE, colours, escape, head, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_STATES = 60  # rows of a map; of more states those met most often are shown
MAX_NAMES = 26  # names along an axis
PALEST = 0.3  # of a cell whose two commonest actions are played equally often


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """How often each action is played at each stage in each state, shape (H, S, A); zeros where a state is not met."""

    label: str
    shares: FloatArray


def policy_figure(panels: Sequence[Panel], states: Sequence[str], actions: Sequence[str], title: str) -> Figure:
    """Maps of stage by state, coloured by the action that is played most often there and paler where others are, too."""
    met = np.sum([panel.shares.sum(axis=2) for panel in panels], axis=0)
    rows = np.flatnonzero(met.any(axis=0))
    if rows.size > MAX_STATES:
        title += f" (the {MAX_STATES} states met most often of {rows.size})"
        rows = np.sort(np.argsort(-met.sum(axis=0), kind="stable")[:MAX_STATES])
    used = np.flatnonzero(np.sum([panel.shares.sum(axis=(0, 1)) for panel in panels], axis=0))
    inks = _inks(len(actions), used)

    across = min(len(panels), 3)
    down = -(-len(panels) // across)
    each = min(5.0, max(1.6, 0.45 + 0.115 * rows.size))
    figure = new_figure(max(5.6, 2.4 * across), each * down + 1.0)
    frames = figure.subplots(down, across, squeeze=False, sharey=True)
    paler = False
    for i, axes in enumerate(frames.flat):
        if i >= len(panels):
            axes.set_visible(False)
            continue
        share = panels[i].shares[:, rows].transpose(1, 0, 2)  # (states, stages, actions)
        picture, mixed = _picture(share, inks)
        paler = paler or mixed
        H = share.shape[1]
        axes.imshow(
            picture,
            aspect="auto",
            origin="lower",
            interpolation="nearest",
            extent=(-0.5, H - 0.5, -0.5, rows.size - 0.5),
        )
        axes.set_title(escape(panels[i].label), loc="left", fontsize=SIZE, fontweight="bold", color=INK)
        last = i + across >= len(panels)
        tidy(axes, "stage" if last else "", "state" if i % across == 0 else "", grid=False)
        _name_axes(axes, H, [states[s] for s in rows.tolist()])
    _explain(figure, frames, used, actions, inks, paler)
    head(figure, title)
    return figure


def _inks(count: int, used: IntArray) -> FloatArray:
    from matplotlib.colors import to_rgb

    inks = np.ones((count, 3))
    inks[used] = [to_rgb(ink) for ink in colours(used.size, FILLS)]
    return inks


def _picture(share: FloatArray, inks: FloatArray) -> tuple[FloatArray, bool]:
    """Colours (states, stages, 3), and whether some are paler because the action depends on more than the state."""
    total = share.sum(axis=2)
    leading = np.divide(share.max(axis=2), total, out=np.ones_like(total), where=total > 0.0)
    mixed = leading < 1.0 - 1e-9
    depth = np.where(mixed, PALEST + (0.85 - PALEST) * np.clip(2.0 * leading - 1.0, 0.0, 1.0), 1.0)
    picture = 1.0 - depth[..., None] * (1.0 - inks[share.argmax(axis=2)])
    picture[total <= 0.0] = 1.0
    return picture, bool(mixed.any())


def _name_axes(axes: Axes, H: int, names: Sequence[str]) -> None:
    every = max(1, -(-len(names) // MAX_NAMES))
    places = range(0, len(names), every)
    axes.set_yticks(list(places), [escape(_short(names[i])) for i in places], fontsize=min(SIZE - 1, 7.5))
    each = next(step for step in (1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 10**9) if H / step <= 11)
    axes.set_xticks(range(0, H, each))


def _short(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:15]}…"


def _action(name: str) -> str:
    return f"action {name}" if name.isdigit() else _short(name)


def _explain(
    figure: Figure, frames: Any, used: IntArray, actions: Sequence[str], inks: FloatArray, paler: bool
) -> None:
    """A legend of the actions, or for many a colour bar, and what white and pale mean."""
    from matplotlib.patches import Patch

    patches = []
    if used.size <= len(FILLS):
        patches = [Patch(facecolor=tuple(inks[a]), label=escape(_action(actions[a]))) for a in used]
    else:
        _bar(figure, frames, used, actions, inks)
    patches.append(Patch(facecolor="white", edgecolor=FAINT, label="never met"))
    if paler:
        patches.append(Patch(facecolor="#CCCCCC", label="paler: depends on the rewards so far"))
    figure.legend(
        handles=patches, loc="outside lower left", frameon=False, fontsize=SIZE - 0.5,
        ncols=_fitting([str(patch.get_label()) for patch in patches], figure.get_size_inches()[0]),
        handlelength=1.2, columnspacing=1.4,
    )  # fmt: skip


def _fitting(labels: Sequence[str], width: float) -> int:
    """The largest number of legend columns that fits into `width` inches; columns are filled from top to bottom."""
    for columns in range(len(labels), 1, -1):
        longest = (max(map(len, part)) for part in np.array_split(np.array(labels, object), columns))
        if sum(0.075 * size + 0.45 for size in longest) <= width:
            return columns
    return 1


def _bar(figure: Figure, frames: Any, used: IntArray, actions: Sequence[str], inks: FloatArray) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    scale = ScalarMappable(Normalize(-0.5, used.size - 0.5), ListedColormap([tuple(inks[a]) for a in used]))
    bar = figure.colorbar(scale, ax=list(frames.flat), fraction=0.04, pad=0.02)
    places = range(0, used.size, max(1, -(-used.size // 15)))
    bar.set_ticks(list(places), labels=[escape(_short(actions[used[i]])) for i in places])
    bar.ax.tick_params(labelsize=SIZE - 1.5, length=2)
    bar.set_label("action", fontsize=SIZE - 0.5, color=INK)
