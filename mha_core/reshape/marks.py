"""Which elements are drawn: all of a small tensor; of a large one, some along each atom."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mha_core.reshape.atoms import Atom, Axes
from mha_core.reshape.run import Run
from mha_core.window import visible_indices

Ints = NDArray[np.int64]
_START = 512  # indices of an atom drawn at most, before the rest is counted
_LEAST = 2
# Of a chain that regroups, earlier scenes show the marks where they lie, with room between.
_SCATTERED = 200


def directions(rank: int) -> tuple[str, ...]:
    """Where each axis goes on the page: "x" across, "y" down.

    From the last axis: across, down, across, down. Of three axes the first goes down, as a batch
    does.
    """
    if rank == 3:
        return ("y", "y", "x")
    return tuple("xy"[(rank - 1 - n) % 2] for n in range(rank))


def marks_of(run: Run, followed: Sequence[int], *, marks: int, across: int, down: int) -> Ints:
    """Row-major places, in the last tensor, of the elements that are drawn.

    Args:
        run: what ran.
        followed: a place in the last tensor that must be among them.
        marks: about how many at most.
        across, down: about how many cells a scene may be wide and high.
    """
    parts = run.plan.parts
    last = parts.steps[-1]
    must = _must(last, followed)
    atoms = list(dict.fromkeys(atom for axis in last for atom in axis))
    limits = {id(atom): _START for atom in atoms}
    most = marks if parts.since == 0 else min(marks, _SCATTERED)
    while True:
        shown = {
            id(a): visible_indices(a.size, limits[id(a)], must[id(a)]) for a in atoms
        }  # fmt: skip
        crowd = _crowded(parts.steps[parts.since :], atoms, shown, most, across, down)
        crowd = [atom for atom in crowd if len(shown[id(atom)]) > _LEAST]
        if not crowd:
            break
        longest = max(crowd, key=lambda atom: len(shown[id(atom)]))
        now = len(shown[id(longest)])
        limits[id(longest)] = max(_LEAST, now - max(2, now // 8))
    return _places(last, run.steps[-1].shape, shown)


def _must(axes: Axes, followed: Sequence[int]) -> dict[int, int]:
    """The followed place's index along each atom."""
    found: dict[int, int] = {}
    for axis, index in zip(axes, followed, strict=True):
        for atom in reversed(axis):
            index, found[id(atom)] = divmod(index, atom.size)
    return found


def _crowded(
    steps: Sequence[Axes], atoms: list[Atom], shown: dict[int, tuple[int, ...]],
    marks: int, across: int, down: int,
) -> list[Atom]:  # fmt: skip
    """The atoms of which less must be drawn: all of them where there are too many marks, else
    those along the side on which a scene is too long."""
    if math.prod(map(len, shown.values())) > marks:
        return atoms
    for axes in steps:
        ways = directions(len(axes))
        for way, room in (("x", across), ("y", down)):
            along = [a for axis, w in zip(axes, ways, strict=True) if w == way for a in axis]
            wraps = len(axes) == 1  # a long row goes on in the next line
            if not wraps and math.prod(len(shown[id(a)]) for a in along) > room:
                return along
    return []


def _places(axes: Axes, shape: Sequence[int], shown: dict[int, tuple[int, ...]]) -> Ints:
    """Every combination of the shown indices, as row-major places."""
    flat = np.zeros(1, dtype=np.int64)
    for axis, size in zip(axes, shape, strict=True):
        index = np.zeros(1, dtype=np.int64)
        for atom in axis:
            index = np.add.outer(index * atom.size, np.array(shown[id(atom)])).ravel()
        flat = np.add.outer(flat * size, index).ravel()
    return flat
