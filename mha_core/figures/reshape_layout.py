"""Where the flow of a reshape draws every element: a tensor of up to six axes, on a page.

The rule of the home page's flow, carried on: the last two axes are the columns and rows of a block;
the axis before stands blocks side by side, the one before that puts them one above the other, and
so on in turn. A tensor of one axis is written in lines, as text is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import ceil

import numpy as np
from numpy.typing import NDArray

from mha_core.figures.flow_layout import BLOCK, ELLIPSIS, ROW, Axis, axis
from mha_core.reshape.flow import Flow, Scene
from mha_core.reshape.marks import directions

Floats = NDArray[np.float64]
LINE = 48  # elements of a line, at most, where there is one axis


@dataclass(frozen=True)
class Level:
    """One axis of a tensor on the page.

    Attributes:
        axis: places of its drawn indices, in cells; the axes inside it begin at each.
        number: which axis of the tensor.
        way: "x" across, "y" down.
        depth: 0 for the innermost along its way.
        inner: extent of what stands at one of its indices.
    """

    axis: Axis
    number: int
    way: str
    depth: int
    inner: float

    @property
    def extent(self) -> float:
        return self.axis.extent - 1 + self.inner

    @property
    def first_run(self) -> float:
        """Extent up to the first gap: in its middle no gap of this axis lies."""
        before = [i for i, j in pairwise(self.axis.place) if j != i + 1]
        return self.axis.place[before[0]] + self.inner if before else self.extent

    def breaks(self) -> list[float]:
        """The middle of every gap where indices are left out, in cells."""
        if self.depth == 0:
            return list(self.axis.gaps)
        places = list(self.axis.place.items())
        return [
            (start + self.inner + after) / 2
            for (i, start), (j, after) in pairwise(places)
            if j != i + 1
        ]


@dataclass(frozen=True)
class Grid:
    """How one scene is laid out; `levels` from the first axis to the last."""

    levels: tuple[Level, ...]
    line: int  # elements a line, where there is one axis; else 0

    def along(self, way: str) -> list[Level]:
        """The axes along a way, outermost first."""
        return [level for level in self.levels if level.way == way]

    @property
    def width(self) -> float:
        if self.line:
            return float(min(self.line, ceil(self.levels[0].axis.extent)))
        return self._extent("x")

    @property
    def height(self) -> float:
        if self.line:
            return float(ceil(self.levels[0].axis.extent / self.line))
        return self._extent("y")

    def _extent(self, way: str) -> float:
        along = self.along(way)
        return along[0].extent if along else 1.0

    def xy(self, index: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Centres of cells, from (n, axes) indices, in cells from the top left."""
        if self.line:
            slot = np.rint(self.levels[0].axis.of(index[:, 0]))
            return slot % self.line + 0.5, slot // self.line + 0.5
        at = {"x": np.full(len(index), 0.5), "y": np.full(len(index), 0.5)}
        for level in self.levels:
            at[level.way] = at[level.way] + level.axis.of(index[:, level.number])
        return at["x"], at["y"]

    def ellipses(self) -> Iterator[tuple[float, float, str]]:
        """(x, y, glyph) wherever indices are left out."""
        if self.line:
            for gap in self.levels[0].axis.gaps:
                slot = round(gap - 0.5)
                yield slot % self.line + 0.5, slot // self.line + 0.5, "…"
            return
        for level in self.levels:
            other = self.along("y" if level.way == "x" else "x")
            outside = [o for o in other if o.depth > level.depth]
            inside = next((o.first_run for o in other if o.depth <= level.depth), 1.0)
            before = [o for o in self.along(level.way) if o.depth > level.depth]
            for gap in level.breaks():
                for along, across in product(starts(before), starts(outside)):
                    a, b = along + gap, across + inside / 2
                    yield (a, b, "…") if level.way == "x" else (b, a, "⋮")


def starts(levels: Sequence[Level]) -> list[float]:
    """Where each combination of indices begins along a way."""
    return [sum(places) for places in product(*(level.axis.place.values() for level in levels))]


def grid(scene: Scene) -> Grid:
    """The layout of a scene: all indices that its marks stand at."""
    shape = scene.step.shape
    drawn = [[int(i) for i in np.unique(column)] for column in scene.index.T]
    if len(shape) == 1:
        # In lines every gap takes a cell, so that no place falls between two.
        only = Level(axis(drawn[0], gap=1.0), 0, "x", 0, 1.0)
        return Grid((only,), _line(ceil(only.axis.extent)))
    ways = directions(len(shape))
    depth = {"x": 0, "y": 0}
    extent = {"x": 1.0, "y": 1.0}
    levels: list[Level] = []
    for number in reversed(range(len(shape))):
        way = ways[number]
        apart = {"x": BLOCK, "y": ROW}[way] * (2 * depth[way] - 1) if depth[way] else 0.0
        inner = extent[way]
        places = axis(drawn[number], step=inner + apart, gap=ELLIPSIS * (1 + depth[way]))
        level = Level(places, number, way, depth[way], inner)
        levels.append(level)
        extent[way] = level.extent
        depth[way] += 1
    return Grid(tuple(reversed(levels)), 0)


def _line(count: int) -> int:
    """Elements a line: all of a few, else a divisor that fills whole lines, where there is one."""
    if count <= LINE:
        return max(count, 1)
    even = [n for n in range(LINE // 2, LINE + 1) if count % n == 0]
    return max(even, default=LINE)


TITLE = 74  # pixels above the scene's labels: its title and its captions
LABELS = 18  # pixels of each row of labels above, one a depth of blocks
SIDE = 46  # pixels of each column of labels at the left
LANE = 40  # pixels below: what became of the followed element
TALL = 440.0  # pixels that the tallest scene may take


@dataclass(frozen=True)
class Stage:
    """Where each scene is drawn, in pixels: cells have one size in all of them."""

    width: int
    pitch: float
    top: int
    side: int
    height: int
    grids: tuple[Grid, ...]

    @property
    def cell(self) -> float:
        """Side of a cell as painted: the pitch less a hairline."""
        return max(3.0, self.pitch - max(1.0, 0.1 * self.pitch))

    @property
    def lane(self) -> float:
        """Top of the lane below the scene."""
        return float(self.height - LANE)

    def pixels(self, n: int, x: Floats | float, y: Floats | float) -> tuple[Floats, Floats]:
        """From cells of scene n to pixels. Scenes are centred: nothing moves needlessly far."""
        room = self.width - self.side
        left = self.side + (room - self.grids[n].width * self.pitch) / 2
        return left + np.asarray(x) * self.pitch, self.top + np.asarray(y) * self.pitch


def stage(flow: Flow, width: int) -> Stage:
    """The largest cells with which every scene fits the width and is not too tall."""
    grids = tuple(grid(scene) for scene in flow.scenes)
    across, down = max(g.width for g in grids), max(g.height for g in grids)
    deepest = {way: max(len(g.along(way)) for g in grids) for way in ("x", "y")}
    side = SIDE * max(1, deepest["y"] - 1)
    top = TITLE + LABELS * max(1, deepest["x"] - 1)
    marks = len(flow.identity)
    largest = 34.0 if marks <= 100 else 26.0 if marks <= 200 else 20.0
    pitch = max(4.0, min(largest, (width - side - 12) / across, max(8.0, TALL / down)))
    return Stage(width, pitch, top, side, top + round(down * pitch) + LANE, grids)
