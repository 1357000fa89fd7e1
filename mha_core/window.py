"""What is drawn of a large tensor: the first and last indices of each axis, never a squeeze."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mha_core.config import MHAConfig
from mha_core.errors import ConfigError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Element:
    """One element followed through the flow: column c of position t of batch item b."""

    b: int
    t: int
    c: int


@dataclass(frozen=True)
class Window:
    """The indices drawn on each axis: all of a short one, the first and last of a long one.

    An index missing between two neighbours is where an ellipsis goes.
    """

    batch: tuple[int, ...]
    time: tuple[int, ...]
    heads: tuple[int, ...]
    d_k: tuple[int, ...]

    @property
    def marks(self) -> int:
        """Elements drawn of a (batch, time, d_model) tensor."""
        return len(self.batch) * len(self.time) * len(self.heads) * len(self.d_k)

    @property
    def map_marks(self) -> int:
        """Cells drawn of a (batch, h, time, time) tensor."""
        return len(self.batch) * len(self.heads) * len(self.time) ** 2


def visible_indices(size: int, limit: int, must: int = 0) -> tuple[int, ...]:
    """At most `limit` indices of an axis: the first and last, and `must` wherever it is.

    Where there is room for two alone, the first and `must`; for one, `must`.
    One more is no reason for an ellipsis, which takes its place anyway.
    """
    if size <= limit + 1:
        return tuple(range(size))
    front = limit - limit // 2
    chosen = [*range(front), *range(size - limit // 2, size)]
    if must not in chosen:
        chosen[1 if limit == 2 else front - 1] = must
    return tuple(sorted(chosen))


def window(config: MHAConfig, element: Element, *, marks: int = 500) -> Window:
    """What is drawn: about `marks` marks a scene at most, the followed element among them.

    Starts from 2 batch items, 6 positions, 8 heads and 8 columns a head, and takes from the
    longest axis until they fit.
    """
    head, j = divmod(element.c, config.d_k)
    sizes = (config.batch, config.time, config.heads, config.d_k)
    place = (element.b, element.t, head, j)
    limits = [2, 6, 8, 8]
    while True:
        shown = [
            visible_indices(size, limit, must)
            for size, limit, must in zip(sizes, limits, place, strict=True)
        ]
        found = Window(*shown)
        longest = max(range(4), key=lambda n: len(shown[n]))
        # Cells of a map only appear; elements glide, which costs more.
        fits = found.marks <= marks and found.map_marks <= 2 * marks
        if fits or len(shown[longest]) <= 3:
            return found
        limits[longest] = len(shown[longest]) - 2


def check_element(config: MHAConfig, element: Element) -> None:
    """Refuses an element outside (batch, time, d_model)."""
    for field, value, size in (
        ("b", element.b, config.batch),
        ("t", element.t, config.time),
        ("c", element.c, config.d_model),
    ):
        if not 0 <= value < size:
            nearest = 0 if value < 0 else size - 1
            raise ConfigError(
                field, value, f"must be from 0 to {size - 1}", repairs=[{field: nearest}]
            )


def index_ranges(axes: Sequence[str], win: Window, d_k: int) -> list[Ints]:
    """The indices drawn on each named axis; a d_model column is head * d_k + j."""
    columns = np.add.outer(np.array(win.heads) * d_k, np.array(win.d_k)).ravel()
    named = {
        "batch": np.array(win.batch),
        "time": np.array(win.time),
        "h": np.array(win.heads),
        "d_k": np.array(win.d_k),
        "d_model": columns,
    }
    return [named[axis] for axis in axes]
