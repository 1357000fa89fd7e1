"""Maps and their colour bar inside matplotlib axes."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from mha_core.export.panels import Panel
from mha_core.palette import Palette, ramp, rgb

_LEVELS = 256
# Up to this many a side, cells are drawn as squares with a gap; beyond, as pixels.
_MOST_SQUARES = 32


def draw(axes: Axes, part: Panel, place: int, colours: Palette) -> None:
    """One head: query from the top, key from the left, in positions; masked cells hatched."""
    time, factor = part.pooled.time, part.pooled.factor
    values = part.pooled.values[place]
    axes.set(xlim=(-0.5, time - 0.5), ylim=(time - 0.5, -0.5), facecolor=colours.background)
    for spine in axes.spines.values():
        spine.set(visible=False)
    if part.masked is not None and part.masked[place].any():
        whole = Rectangle(
            (-0.5, -0.5), time, time, fill=False, linewidth=0, hatch="//////",
            edgecolor=colours.hatch, zorder=0,
        )  # fmt: skip
        whole.set_hatch_linewidth(0.6)
        axes.add_patch(whole)
    painted = _painted(part, place, colours)
    if len(values) <= _MOST_SQUARES and factor == 1:
        _squares(axes, painted, colours, side=len(values))
    else:
        end = len(values) * factor - 0.5
        axes.imshow(painted, extent=(-0.5, end, end, -0.5), interpolation="nearest", aspect="auto")
        axes.set(xlim=(-0.5, time - 0.5), ylim=(time - 0.5, -0.5))


def _painted(part: Panel, place: int, colours: Palette) -> NDArray[np.uint8]:
    """RGBA (rows, columns, 4): transparent where masked, the colour of faults where NaN."""
    unit = part.colours.unit()[place]
    levels = ramp(part.anchors(colours), _LEVELS)
    absent = np.isnan(unit)
    index = (np.where(absent, 0.0, unit) * (_LEVELS - 1)).round().astype(int)
    painted = np.dstack([levels[index], np.full(unit.shape, 255, dtype=np.uint8)])
    painted[absent, :3] = rgb(colours.bad)
    if part.masked is not None:
        painted[part.masked[place]] = 0
    return painted.astype(np.uint8)


def _squares(axes: Axes, painted: NDArray[np.uint8], colours: Palette, *, side: int) -> None:
    """Vector squares, which stay sharp at any zoom, with the ground showing between them."""
    rows, keys = np.nonzero(painted[..., 3])
    corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
    squares = np.stack([keys, rows], axis=1)[:, None, :] + corners
    axes.add_collection(
        PolyCollection(
            list(squares),
            facecolors=painted[rows, keys] / 255.0,
            edgecolors=colours.background,
            linewidths=1.0 if side <= 16 else 0.5,
        ),
        autolim=False,
    )


def draw_bar(axes: Axes, part: Panel, colours: Palette, *, per_head: bool) -> None:
    """The colour scale, low end at the bottom."""
    low, high = float(part.colours.low[0]), float(part.colours.high[0])
    levels = ramp(part.anchors(colours), _LEVELS)[:, None, :]
    axes.imshow(levels, extent=(0, 1, low, high), origin="lower", aspect="auto")
    for spine in axes.spines.values():
        spine.set(visible=False)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    if per_head:
        axes.set_yticks([low, high], ["0", "top"])
        return
    places = [low, (low + high) / 2, high]
    names = [_number(place) for place in places]
    if part.colours.clipped:
        names[-1] = f"≥ {names[-1]}"
        names[0] = f"≤ {names[0]}" if part.colours.diverging else names[0]
    axes.set_yticks(places, names)


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")
