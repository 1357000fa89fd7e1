"""Where the flow draws every element, in pixels.

One rule for every scene: the last two axes are the rows and columns of a block; blocks are laid
out from left to right by the axis before them, and from top to bottom by batch. Reading a scene
as one reads text is reading the tensor in the order of its indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mha_core.flow import Cells
from mha_core.window import Window

Floats = NDArray[np.float64]

ELLIPSIS = 0.8  # cells left free where indices are left out
BLOCK = 1.0  # cells between blocks side by side
ROW = 1.5  # cells between blocks one above the other


@dataclass(frozen=True)
class Axis:
    """Place of every drawn index along one axis, in cells."""

    place: dict[int, float]
    extent: float
    gaps: tuple[float, ...]

    def of(self, indices: NDArray[np.int64]) -> Floats:
        """Places of many indices, all of them drawn."""
        known = np.fromiter(self.place.keys(), dtype=np.int64)
        at = np.fromiter(self.place.values(), dtype=np.float64)
        places: Floats = at[np.searchsorted(known, indices)]
        return places


def axis(indices: Sequence[int], *, step: float = 1.0, gap: float = ELLIPSIS) -> Axis:
    """Indices one after the other, `step` apart, with a gap where some are left out."""
    place: dict[int, float] = {}
    gaps: list[float] = []
    at = 0.0
    for before, index in zip([None, *indices], indices, strict=False):
        if before is not None:
            at += step
            if index != before + 1:
                gaps.append(at + gap / 2)
                at += gap
        place[index] = at
    return Axis(place, at + 1.0, tuple(gaps))


def columns(win: Window, d_k: int) -> Axis:
    """The d_model axis: head after head, each through the window on d_k."""
    inner = axis(win.d_k)
    closing = 0.0 if win.d_k[-1] == d_k - 1 else ELLIPSIS
    place: dict[int, float] = {}
    gaps: list[float] = []
    at = 0.0
    for n, head in enumerate(win.heads):
        if n and head != win.heads[n - 1] + 1:
            gaps.append(at + ELLIPSIS / 2)
            at += ELLIPSIS
        gaps.extend(at + gap for gap in inner.gaps)
        place |= {head * d_k + j: at + inner.place[j] for j in win.d_k}
        at += inner.extent + closing
    return Axis(place, at - closing, tuple(gaps))


@dataclass(frozen=True)
class Grid:
    """How one tensor is laid out.

    Attributes:
        outer: blocks from left to right; None for a tensor of three axes.
        down, rows, cols: batch, and the last two axes.
        names: of those axes: (outer, rows, cols).
    """

    outer: Axis | None
    down: Axis
    rows: Axis
    cols: Axis
    names: tuple[str | None, str, str]

    @property
    def width(self) -> float:
        return self.cols.extent if self.outer is None else self.outer.extent - 1 + self.cols.extent

    @property
    def height(self) -> float:
        return self.down.extent - 1 + self.rows.extent

    def at(self, index: Sequence[int]) -> tuple[float, float]:
        """Centre of one cell, in cells from the top left."""
        x = self.cols.place[index[-1]]
        y = self.rows.place[index[-2]] + self.down.place[index[0]]
        if self.outer is not None:
            x += self.outer.place[index[1]]
        return x + 0.5, y + 0.5

    def xy(self, cells: Cells) -> tuple[Floats, Floats]:
        """Centre of every cell, in cells from the top left."""
        index = cells.index.T
        x = self.cols.of(index[-1])
        y = self.rows.of(index[-2]) + self.down.of(index[0])
        if self.outer is not None:
            x = x + self.outer.of(index[1])
        return x + 0.5, y + 0.5


def grid(axes: Sequence[str], win: Window, d_k: int) -> Grid:
    """The layout of a tensor with these axes."""
    inner = {
        "time": axis(win.time),
        "h": axis(win.heads),
        "d_k": axis(win.d_k),
        "d_model": columns(win, d_k),
    }
    rows, cols = inner[axes[-2]], inner[axes[-1]]
    down = axis(win.batch, step=rows.extent + ROW)
    outer = None
    if len(axes) == 4:
        members = {"time": win.time, "h": win.heads}[axes[1]]
        outer = axis(members, step=cols.extent + BLOCK)
    return Grid(outer, down, rows, cols, (axes[1] if outer else None, axes[-2], axes[-1]))


def extent(grids: Sequence[Grid]) -> tuple[float, float]:
    """Width and height, in cells, that hold every scene."""
    return max(g.width for g in grids), max(g.height for g in grids)


def ellipses(g: Grid) -> list[tuple[float, float, str]]:
    """(x, y, glyph) wherever indices are left out, in cells from the top left."""
    starts = [0.0] if g.outer is None else list(g.outer.place.values())
    tops = list(g.down.place.values())
    middle = g.rows.extent / 2
    found = [
        (start + gap, top + middle, "…") for top in tops for start in starts for gap in g.cols.gaps
    ]
    if g.outer is not None:
        # An outer gap lies half a block behind its neighbour: move it between the two.
        for before, after in pairwise(starts):
            if after - before > g.cols.extent + BLOCK:
                between = (before + g.cols.extent + after) / 2
                found += [(between, top + middle, "…") for top in tops]
    found += [
        (start + g.cols.extent / 2, top + gap, "⋮")
        for top in tops
        for start in starts
        for gap in g.rows.gaps
    ]
    for before, after in pairwise(tops):
        if after - before > g.rows.extent + ROW:
            found.append((g.width / 2, (before + g.rows.extent + after) / 2, "⋮"))
    return found


TITLE = 92  # pixels above the scene: its title, its captions, the names of its blocks
LANE = 92  # pixels below it: operands, or the place in memory
SIDE = 46  # pixels left of it: the batch labels
LARGEST = 20.0  # pixels of a cell, at most


@dataclass(frozen=True)
class Stage:
    """Where each scene is drawn, in pixels: cells have one size in all of them."""

    width: int
    pitch: float
    height: int
    grids: dict[str, Grid]

    @property
    def cell(self) -> float:
        """Side of a cell as painted: the pitch less a hairline."""
        return max(3.0, self.pitch - max(1.0, 0.1 * self.pitch))

    @property
    def lane(self) -> float:
        """Top of the lane below the scene."""
        return float(self.height - LANE)

    def pixels(self, step: str, x: Floats | float, y: Floats | float) -> tuple[Floats, Floats]:
        """From cells to pixels. Scenes are centred, so that nothing moves needlessly far."""
        left = SIDE + (self.width - SIDE - self.grids[step].width * self.pitch) / 2
        return left + np.asarray(x) * self.pitch, TITLE + np.asarray(y) * self.pitch


def stage(axes: dict[str, Sequence[str]], win: Window, d_k: int, width: int) -> Stage:
    """The largest cells with which every scene fits the width; `axes` of each step's tensor."""
    grids = {step: grid(names, win, d_k) for step, names in axes.items()}
    across, down = extent(list(grids.values()))
    pitch = min(LARGEST, (width - SIDE - 12) / across)
    return Stage(width, pitch, TITLE + round(down * pitch) + LANE, grids)
