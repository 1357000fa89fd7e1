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


def visible_indices(size: int, limit: int, must: int = 0) -> tuple[int, ...]:
    """At most `limit` indices of an axis: the first and last, and `must` wherever it is.

    One more is no reason for an ellipsis, which takes its place anyway.
    """
    if size <= limit + 1:
        return tuple(range(size))
    front = limit - limit // 2
    chosen = [*range(front), *range(size - limit // 2, size)]
    if must not in chosen:
        chosen[front - 1] = must
    return tuple(sorted(chosen))


def window(
    config: MHAConfig, element: Element, limits: tuple[int, int, int, int] = (2, 6, 8, 8)
) -> Window:
    """What is drawn: at most `limits` indices of batch, time, h and d_k, the element among them."""
    head, j = divmod(element.c, config.d_k)
    return Window(
        visible_indices(config.batch, limits[0], element.b),
        visible_indices(config.time, limits[1], element.t),
        visible_indices(config.heads, limits[2], head),
        visible_indices(config.d_k, limits[3], j),
    )


def check_element(config: MHAConfig, element: Element) -> None:
    """Refuses an element outside (batch, time, d_model)."""
    for field, value, size in (
        ("b", element.b, config.batch),
        ("t", element.t, config.time),
        ("c", element.c, config.d_model),
    ):
        if not 0 <= value < size:
            raise ConfigError(
                field, value, f"must be from 0 to {size - 1}", repairs=[{field: size - 1}]
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
