"""A window of one head's map: some queries, some keys, pooled where they are too many to send.

The pooling is that of `maps.pool`, with a factor for each axis, since a window need not be square.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn import functional as F

from mha_core.errors import ConfigError
from mha_core.maps import Floats, Pooled, Pooling, Scaled, on_scale, scaled_together

Span = tuple[int, int]


@dataclass(frozen=True)
class Patch:
    """Queries `queries` against keys `keys` of one head.

    Attributes:
        values: float32 (rows, columns), NaN where every cell pooled is masked.
        queries, keys: (start, stop) in positions, the stop not included.
        factors: queries pooled in a row and keys pooled in a column; (1, 1) means exact.
        how: "max" or "mean" over the visible cells.
        time: positions of the whole map.
    """

    values: Floats
    queries: Span
    keys: Span
    factors: tuple[int, int]
    how: Pooling
    time: int

    @property
    def exact(self) -> bool:
        """Whether every value is a single cell's."""
        return self.factors == (1, 1)

    @property
    def whole(self) -> bool:
        """Whether it is the map from end to end."""
        return self.queries == self.keys == (0, self.time)

    def rows(self) -> list[Span]:
        """(start, stop) of the queries in each row; the last may hold fewer."""
        return _spans(self.queries, self.factors[0])

    def columns(self) -> list[Span]:
        """(start, stop) of the keys in each column; the last may hold fewer."""
        return _spans(self.keys, self.factors[1])

    def within(self, rows: Span, columns: Span) -> tuple[Span, Span]:
        """The queries and the keys of a box of cells, (start, stop) each.

        Raises:
            ConfigError: the box is empty or reaches beyond the patch.
        """
        found = []
        for name, (start, stop), spans in (
            ("rows", rows, self.rows()),
            ("columns", columns, self.columns()),
        ):
            if not 0 <= start < stop <= len(spans):
                rule = f"must be a range of cells within 0 to {len(spans)}"
                raise ConfigError(name, (start, stop), rule)
            found.append((spans[start][0], spans[stop - 1][1]))
        return found[0], found[1]


def _spans(span: Span, factor: int) -> list[Span]:
    start, stop = span
    return [(place, min(place + factor, stop)) for place in range(start, stop, factor)]


def patch_of(
    values: Tensor,
    visible: Tensor | None,
    queries: Span,
    keys: Span,
    limit: int,
    how: Pooling = "max",
    *,
    time: int,
) -> Patch:
    """Pools a window of one head's map to at most `limit` rows and columns.

    Args:
        values: (queries, keys) of the window alone, any floating dtype.
        visible: boolean of the same shape, False where masked; None where nothing is.
        queries, keys: (start, stop), what the window holds of the whole map.
        limit: rows and columns at most, from 1 on.
        how: "max" or "mean" over the visible cells of what becomes one.
        time: positions of the whole map.

    Raises:
        ConfigError: a range is empty, reversed or beyond `time`, or is not what `values` holds.
    """
    for name, (start, stop) in (("queries", queries), ("keys", keys)):
        if not 0 <= start < stop <= time:
            raise ConfigError(name, (start, stop), f"must be a range within 0 to {time:,}")
    shape = (queries[1] - queries[0], keys[1] - keys[0])
    if values.shape != shape or (visible is not None and visible.shape != shape):
        held = tuple(values.shape) if values.shape != shape or visible is None else visible.shape
        raise ConfigError("window", tuple(held), f"must be of shape {shape}")
    if limit < 1:
        raise ConfigError("limit", limit, "must be from 1 on")
    factors = (-(-shape[0] // limit), -(-shape[1] // limit))
    pooled = pool_cells(values.detach(), visible, factors, how)
    return Patch(pooled.float().cpu().numpy(), queries, keys, factors, how, time)


def whole_patch(pooled: Pooled, head: int) -> Patch:
    """One head of pooled maps, from end to end."""
    span = (0, pooled.time)
    factors = (pooled.factor, pooled.factor)
    return Patch(pooled.values[head], span, span, factors, pooled.how, pooled.time)


def pool_cells(
    values: Tensor, visible: Tensor | None, factors: tuple[int, int], how: Pooling
) -> Tensor:
    """(rows, columns) -> one value a block of `factors` cells; NaN where all of it is masked."""
    if factors == (1, 1):
        return values if visible is None else values.masked_fill(~visible, torch.nan)
    if how == "max":
        filled = values if visible is None else values.masked_fill(~visible, -torch.inf)
        pooled = _largest(filled, factors)
        present = None if visible is None else _largest(visible, factors)
    else:
        total = values if visible is None else values.masked_fill(~visible, 0.0)
        count = torch.ones_like(values) if visible is None else visible.to(values.dtype)
        cells = _sums(count, factors)
        pooled = _sums(total, factors) / cells
        present = None if visible is None else cells > 0
    return pooled if present is None else pooled.masked_fill(~present, torch.nan)


def _largest(values: Tensor, factors: tuple[int, int]) -> Tensor:
    for axis, factor in enumerate(factors):
        whole = values.shape[axis] // factor * factor
        parts = [values.narrow(axis, 0, whole).unflatten(axis, (-1, factor)).amax(axis + 1)]
        if whole < values.shape[axis]:
            rest = values.narrow(axis, whole, values.shape[axis] - whole)
            parts.append(rest.amax(axis, keepdim=True))
        values = torch.cat(parts, axis)
    return values


def _sums(values: Tensor, factors: tuple[int, int]) -> Tensor:
    return F.avg_pool2d(values[None], factors, ceil_mode=True, divisor_override=1)[0]


def scaled_patch(
    patch: Patch, scale: str = "weight", *, weights: bool = True, seen: ArrayLike | None = None
) -> tuple[Patch, Scaled]:
    """Puts a patch on a colour scale that follows its values, as `maps.scaled` does for maps.

    Args:
        scale: one of `maps.SCALES`, for weights.
        weights: else scores, whose scale is always centred at 0.
        seen: for "× uniform", the keys each query of the window sees in the whole map: one
            number, or one a query. None where the values are weights × keys already: where
            queries that see different numbers share a row, only pooling the products is exact.

    Returns:
        The patch, for "× uniform" with its values multiplied, and its values on the scale as
        maps of one head.

    Raises:
        ConfigError: no such scale, `seen` of another length, or queries of one row that see
            different numbers of keys.
    """
    if weights and scale == "× uniform" and seen is not None:
        keys = _keys_of_rows(patch, seen)
        patch = replace(patch, values=patch.values * keys[:, None])
    return patch, on_scale(patch.values[None], scale if weights else None)


def _keys_of_rows(patch: Patch, seen: ArrayLike) -> Floats:
    """(rows,): the keys that every query of a row sees."""
    count = patch.queries[1] - patch.queries[0]
    each = np.asarray(seen, dtype=np.float32)
    if each.shape not in ((), (count,)):
        rule = f"must be one number, or one for each of the {count} queries"
        raise ConfigError("seen", each.shape, rule)
    each = np.broadcast_to(each, (count,))
    starts = np.arange(0, count, patch.factors[0])
    least: Floats = np.minimum.reduceat(each, starts)
    if (least != np.maximum.reduceat(each, starts)).any():
        raise ConfigError(
            "seen", "different in one row", "must be one number for the queries pooled together",
            works="Pool the weights times the keys their queries see",
        )  # fmt: skip
    return least


def scaled_pair(a: Patch, b: Patch, *, weights: bool = True) -> tuple[Scaled, Scaled]:
    """Two patches on one scale, whose ends hold both."""
    first, second = scaled_together([a.values[None], b.values[None]], weights=weights)
    return first, second


def difference(a: Patch, b: Patch, *, weights: bool = True) -> tuple[Patch, Scaled]:
    """b − a, cell by cell, on a scale centred at 0.

    A key masked in one of them counts as the weight of 0 that it is; of scores it has none, and
    the cell is absent, as are cells masked in both. Of pooled patches it is the difference of
    what was pooled, which says nothing of single cells.

    Raises:
        ConfigError: they are not of the same window, or not pooled alike.
    """
    for name in ("time", "queries", "keys", "factors", "how"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            raise ConfigError(name, other, f"must be as in A, {one}, for a difference")
    first, second = a.values, b.values
    gone = np.isnan(first) & np.isnan(second)
    if weights:
        first, second = (np.where(np.isnan(v), np.float32(0), v) for v in (first, second))
    with np.errstate(invalid="ignore"):  # −∞ from −∞, where a finite fill overflowed
        values: Floats = np.where(gone, np.float32(np.nan), second - first)
    sizes = np.abs(values[np.isfinite(values)])
    end = np.array([float(sizes.max(initial=0.0)) or 1.0], dtype=np.float32)
    return replace(b, values=values), Scaled(values[None], -end, end, "B − A", False, True)
