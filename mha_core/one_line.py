"""One query's weights over the keys, or one key's over the queries: bars, strongest, sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.maps import Floats
from mha_core.patch import Span, pool_cells

Direction = Literal["query", "key"]


@dataclass(frozen=True)
class Line:
    """A row or a column of one head's weights.

    Attributes:
        values: float32 (n,), NaN where masked.
        index: the query whose row it is, or the key whose column.
        direction: "query" for a row, over the keys; "key" for a column, over the queries.
    """

    values: Floats
    index: int
    direction: Direction

    @property
    def others(self) -> str:
        """What its positions are."""
        return "key" if self.direction == "query" else "query"

    @property
    def seen(self) -> int:
        """Positions that are not masked."""
        return int((~np.isnan(self.values)).sum())

    @property
    def largest(self) -> float:
        """0 where all is masked."""
        return float(np.nan_to_num(self.values).max(initial=0.0))

    @property
    def total(self) -> float:
        """Sum over what is visible, in float64: 1 for a query that sees a key."""
        return float(np.nansum(self.values, dtype=np.float64))

    def strongest(self, count: int) -> list[int]:
        """At most `count` visible positions, largest weight first; equal ones in their order."""
        return [int(place) for place in self._ordered()[:count]]

    def running(self, count: int) -> list[float]:
        """Sum of the largest, of the two largest, ...; (min(count, seen),)."""
        sums = np.cumsum(self.values[self._ordered()], dtype=np.float64)
        return [float(value) for value in sums[:count]]

    def half(self) -> int:
        """The fewest positions that hold half of all that is there; 0 where nothing is."""
        sums = np.cumsum(self.values[self._ordered()], dtype=np.float64)
        if not sums.size or sums[-1] == 0:
            return 0
        return int(np.searchsorted(sums, sums[-1] / 2)) + 1

    def _ordered(self) -> NDArray[np.intp]:
        there = np.flatnonzero(~np.isnan(self.values))
        return there[np.argsort(-self.values[there], kind="stable")]

    def bars(self, most: int) -> tuple[Floats, list[Span]]:
        """At most `most` bars: the largest visible value of each, NaN where all is masked, and
        the (start, stop) of what it holds."""
        count = len(self.values)
        factor = -(-count // most)
        values = torch.from_numpy(self.values)[None]
        visible = None if self.seen == count else ~values.isnan()
        pooled = pool_cells(values, visible, (1, factor), "max")[0].numpy()
        spans = [(start, min(start + factor, count)) for start in range(0, count, factor)]
        return pooled, spans


def line_of(
    weights: Tensor, visible: Tensor | None, index: int, direction: Direction = "query"
) -> Line:
    """One row or column of weights.

    Args:
        weights: (n,), any floating dtype.
        visible: boolean (n,), False where masked; None where nothing is.
        index: position of the query or key it belongs to, 0 to n - 1.
        direction: "query" or "key".

    Raises:
        ConfigError: another shape, no such position, or values that are no weights.
    """
    if weights.dim() != 1 or len(weights) == 0:
        raise ConfigError("weights", tuple(weights.shape), "must be one row or column, (n,)")
    if visible is not None and visible.shape != weights.shape:
        rule = f"must be of the shape of the weights, {tuple(weights.shape)}"
        raise ConfigError("visible", tuple(visible.shape), rule)
    if not 0 <= index < len(weights):
        raise ConfigError(direction, index, f"must be from 0 to {len(weights) - 1}")
    values = weights.detach().float().cpu().clone()
    if visible is not None:
        values[~visible.cpu()] = torch.nan
    there = values if visible is None else values[visible.cpu()]
    wrong = ~(torch.isfinite(there) & (there >= 0))
    if wrong.any():
        raise ConfigError("weights", float(there[wrong][0]), "must be numbers from 0 on")
    return Line(values.numpy(), index, direction)
