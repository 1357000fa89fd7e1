"""Where the memory figure draws every element: once by its index, once by its place in storage.

The index space is laid out as the flow lays it out (flow_layout). The storage is one line, written
as a text is: cut where it is full, an ellipsis where elements are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mha_core.figures.flow_layout import ELLIPSIS, Grid, extent, grid
from mha_core.records import Step
from mha_core.steps import MAP
from mha_core.window import Window, index_ranges

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BESIDE = 860  # pixels from which the two stand side by side
HEAD = 58  # pixels above each: two lines of words, and the names of the blocks
LEFT = 34  # pixels left of the index space, for the batch
GAP = 26  # pixels between the two
DIGIT = 6.7  # pixels of a digit at the size of the labels
LARGEST = 18.0  # pixels of a cell, at most
LONGEST = 32  # cells in a line of storage; half as many where the figure is narrow
NARROW = 560  # pixels


def with_key(win: Window, key: int) -> Window:
    """The window with a position in it that is chosen as a key."""
    return replace(win, time=tuple(sorted({*win.time, key})))


@dataclass(frozen=True)
class Drawn:
    """The elements of a tensor inside the window, in the order of their indices (row-major).

    Attributes:
        axes, shape, strides: of the tensor.
        index: (n, rank).
        offset: (n,) places in the storage, by the tensor's own strides and offset.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    index: Ints
    offset: Ints


def drawn(step: Step, win: Window, d_k: int) -> Drawn:
    """What the window shows of a step's tensor."""
    ranges = index_ranges(step.spec.output, win, d_k)
    meshes = np.meshgrid(*ranges, indexing="ij")
    index = np.stack([mesh.ravel() for mesh in meshes], axis=1).astype(np.int64)
    offset = index @ np.array(step.strides, dtype=np.int64) + step.offset
    return Drawn(step.spec.output, step.shape, step.strides, index, offset)


@dataclass(frozen=True)
class Lines:
    """The storage as lines of cells.

    Attributes:
        column, row: (n,) place of every drawn element, in cells.
        starts: first offset of every line.
        gaps: (column, row) of every ellipsis.
        width, height: in cells.
    """

    column: Floats
    row: Ints
    starts: tuple[int, ...]
    gaps: tuple[tuple[float, int], ...]
    width: float
    height: int


def lines(offset: Ints, inner: int, limit: int) -> Lines:
    """Lays out offsets in the order of memory.

    Args:
        offset: (n,) distinct offsets, in any order.
        inner: elements that belong together: a line ends after a whole number of them.
        limit: cells in a line, where `inner` is not longer.
    """
    full = max(inner, limit - limit % inner)
    order = np.argsort(offset, kind="stable")
    places = np.empty(len(offset)), np.empty(len(offset), dtype=np.int64)
    starts: list[int] = []
    gaps: list[tuple[float, int]] = []
    at, row, before, width = 0.0, -1, None, 0.0
    for run in _pieces(offset[order], full):
        skipped = before is not None and run[0] != before + 1
        room = at + (ELLIPSIS if skipped else 0) + len(run) <= full + ELLIPSIS * 3
        if row < 0 or not (skipped and room):
            if skipped:
                gaps.append((at + ELLIPSIS / 2, row))
                width = max(width, at + ELLIPSIS)
            row, at = row + 1, 0.0
            starts.append(int(run[0]))
        else:
            gaps.append((at + ELLIPSIS / 2, row))
            at += ELLIPSIS
        taken = order[np.searchsorted(offset[order], run)]
        places[0][taken] = at + np.arange(len(run))
        places[1][taken] = row
        at += len(run)
        width = max(width, at)
        before = int(run[-1])
    return Lines(places[0], places[1], tuple(starts), tuple(gaps), width, row + 1)


def _pieces(offsets: Ints, full: int) -> list[Ints]:
    """Runs of consecutive offsets, none longer than a line."""
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    runs = np.split(offsets, breaks)
    return [run[at : at + full] for run in runs for at in range(0, len(run), full)]


@dataclass(frozen=True)
class Sheet:
    """What all steps share, so that nothing jumps from one to the next.

    Attributes:
        width, height: of the figure in pixels.
        pitch: of a cell.
        right, below: where the storage begins, right of the labels of its lines.
    """

    width: int
    height: int
    pitch: float
    right: float
    below: float


def _parts(step: Step, win: Window, d_k: int, width: int) -> tuple[Grid, Lines]:
    shown = drawn(step, win, d_k)
    inner = len(win.time) if shown.axes == MAP else len(win.d_k)
    limit = LONGEST if width >= NARROW else LONGEST // 2
    return grid(shown.axes, win, d_k), lines(shown.offset, inner, limit)


def sheet(steps: Sequence[Step], win: Window, d_k: int, width: int) -> Sheet:
    """The largest cells with which every step fits the width."""
    # q, k and v lie alike: one of each kind is enough.
    kinds = {(step.spec.output, step.strides, step.offset): step for step in steps}
    parts = [_parts(step, win, d_k, width) for step in kinds.values()]
    across, down = extent([one for one, _ in parts])
    long = max(one.width for _, one in parts)
    rows = max(one.height for _, one in parts)
    label = 10 + DIGIT * max(len(f"{one.starts[-1]:,}") for _, one in parts)
    beside = width >= BESIDE
    if beside:
        pitch = min(LARGEST, (width - LEFT - GAP - label - 4) / (across + long))
        right = LEFT + across * pitch + GAP + label
        height = HEAD + max(down, rows) * pitch
        return Sheet(width, round(height) + 6, pitch, right, 0.0)
    pitch = min(LARGEST, (width - LEFT - 4) / across, (width - label - 4) / long)
    below = HEAD + down * pitch + GAP
    return Sheet(width, round(below + HEAD + rows * pitch) + 6, pitch, label, below)


@dataclass(frozen=True)
class Picture:
    """Both sides of one step, in pixels.

    Attributes:
        sheet: what all steps share.
        step: the step; win: the indices drawn; d_k: width of a head.
        drawn: its elements.
        grid, lines: how they are laid out.
        index_xy, storage_xy: (n, 2) centre of every cell.
    """

    sheet: Sheet
    step: Step
    win: Window
    d_k: int
    drawn: Drawn
    grid: Grid
    lines: Lines
    index_xy: Floats
    storage_xy: Floats

    @property
    def cell(self) -> float:
        """Side of a cell as painted: the pitch less a hairline."""
        return max(2.0, self.sheet.pitch - max(1.0, 0.1 * self.sheet.pitch))

    def at(self, across: float, down: float) -> tuple[float, float]:
        """Pixels of a place in the index space, given in cells."""
        return LEFT + across * self.sheet.pitch, HEAD + down * self.sheet.pitch

    def lies(self, column: float, row: float) -> tuple[float, float]:
        """Pixels of a place in the storage, given in cells."""
        sheet = self.sheet
        return sheet.right + column * sheet.pitch, sheet.below + HEAD + row * sheet.pitch

    def number(self, index: Sequence[int]) -> int | None:
        """Which of the drawn elements has this index; None where the window leaves it out."""
        found = np.flatnonzero((self.drawn.index == np.array(index)).all(axis=1))
        return int(found[0]) if len(found) else None


def picture(step: Step, win: Window, d_k: int, on: Sheet) -> Picture:
    """One step on a sheet."""
    shown = drawn(step, win, d_k)
    space, storage = _parts(step, win, d_k, on.width)
    index = shown.index.T
    across = space.cols.of(index[-1])
    down = space.rows.of(index[-2]) + space.down.of(index[0])
    if space.outer is not None:
        across = across + space.outer.of(index[1])
    index_xy = np.stack([LEFT + (across + 0.5) * on.pitch, HEAD + (down + 0.5) * on.pitch], 1)
    storage_xy = np.stack(
        [
            on.right + (storage.column + 0.5) * on.pitch,
            on.below + HEAD + (storage.row + 0.5) * on.pitch,
        ],
        axis=1,
    )
    return Picture(on, step, win, d_k, shown, space, storage, index_xy, storage_xy)


def skips(picture: Picture) -> list[bool]:
    """For every drawn element but the first: whether indices were left out before it."""
    shape = picture.drawn.shape
    linear = np.ravel_multi_index(tuple(picture.drawn.index.T), shape)
    return [int(b) != int(a) + 1 for a, b in pairwise(linear)]
