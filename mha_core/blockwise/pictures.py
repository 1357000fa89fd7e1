"""The picture and the statistics of all heads in one pass, each block held only while it is used.

Memory is O(time · d_k + pixels): a map of 32,768 positions has a billion cells a head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from mha_core.blockwise.long_maps import HIDDEN, LongMaps, Step
from mha_core.blockwise.sweep import Span, Tiling, along, sweep
from mha_core.blockwise.workers import in_blocks
from mha_core.errors import ConfigError
from mha_core.head_stats import HeadStats
from mha_core.maps import Pooled, Pooling

# Told the share done, 0 to 1; what it raises ends the work.
Progress = Callable[[float], None]

# A block's queries, and its cells: together with its keys it stays in a core's own cache. A device
# of its own has no such cache, and wants fewer, larger blocks.
_ROWS, _CELLS, _CELLS_ELSEWHERE = 384, 2**19, 2**25


@dataclass(frozen=True)
class Overview:
    """All heads of a step, small enough to send.

    Attributes:
        pooled: (h, rows, columns), NaN where every cell is masked.
        relative: the same with each weight times the keys its query sees; None for scores.
        stats: of the weights, exact; None for scores, or where not wanted.
        lse: (h, time): log of the sum of exp(score) over the keys each query sees; None for
            scores.
    """

    pooled: Pooled
    relative: Pooled | None
    stats: HeadStats | None
    lse: Tensor | None

    @property
    def nbytes(self) -> int:
        pictures = 1 if self.relative is None else 2
        kept = 0 if self.lse is None else self.lse.nbytes
        return pictures * self.pooled.values.nbytes + kept


def overview(
    maps: LongMaps,
    limit: int,
    how: Pooling = "max",
    *,
    step: Step = "softmax",
    stats: bool = True,
    progress: Progress | None = None,
) -> Overview:
    """Pools the maps of a step to at most `limit` rows and columns.

    The same numbers as `maps.pool` and `head_stats` give of the whole maps.

    Args:
        maps: q, k and what is masked.
        limit: the most rows and columns.
        how: "max" or "mean" over the visible cells.
        step: one of `long_maps.STEPS`.
        stats: whether the statistics of weights are wanted, too.
        progress: told the share done after each block.

    Raises:
        ConfigError: a limit below 1, or another step.
        Whatever `progress` raises.
    """
    maps.check_step(step)
    if limit < 1:
        raise ConfigError("limit", limit, "must be at least 1", works="Nearest that works: 1")
    factor = -(-maps.time // limit)
    tiling = key_tiling(maps, (0, maps.time), factor)
    blocks = query_blocks((0, maps.time), factor, maps.q.device)
    whole = _Whole(maps, factor, tiling, how, step, stats)
    work = float(maps.heads * sum(_cells(maps, rows, step) for rows in blocks))
    cells = 0

    def merge(part: _Part) -> None:
        nonlocal cells
        whole.merge(part)
        cells += _cells(maps, part.queries, step)
        if progress is not None:
            progress(cells / work)

    def every() -> Iterator[_Block]:
        for head in range(maps.heads):
            bound = maps.head_bound(head, step)
            yield from (_Block(head, bound, rows) for rows in blocks)

    in_blocks(whole.part, every(), merge, alone=maps.q.device.type != "cpu")
    return whole.overview()


def _cells(maps: LongMaps, queries: Span, step: Step) -> int:
    return (queries[1] - queries[0]) * maps.reach(queries[1], step)


def key_tiling(maps: LongMaps, keys: Span, factor: int) -> Tiling:
    """Tiles of the keys of a picture."""
    cells = _CELLS if maps.q.device.type == "cpu" else _CELLS_ELSEWHERE
    width = max(1, cells // _ROWS // factor) * factor
    return Tiling(*keys, factor, width, maps.q)


def query_blocks(queries: Span, factor: int, device: torch.device) -> list[
    Span
]:  # fmt: skip
    """Blocks of whole rows of the picture or, where one row is more than a block, parts of one."""
    most = _ROWS if device.type == "cpu" else 4 * _ROWS
    start, stop = queries
    if factor <= most:
        size = most // factor * factor
        return [(a, min(stop, a + size)) for a in range(start, stop, size)]
    size = -(-factor // -(-factor // most))
    return [
        (a, min(stop, row + factor, a + size))
        for row in range(start, stop, factor)
        for a in range(row, min(stop, row + factor), size)
    ]


def down(picture: Tensor, factor: int, how: Pooling) -> Tensor:
    """(columns, queries) -> (rows, columns): every `factor` queries pooled; the first begins a
    row, or all are part of one."""
    columns, count = picture.shape
    rows = picture.new_empty(-(-count // factor), columns)
    along(picture.T.contiguous(), factor, how, rows)
    return rows


@dataclass(frozen=True)
class _Block:
    """Some queries of one head, to be computed."""

    head: int
    bound: float
    queries: Span


@dataclass(frozen=True)
class _Part:
    """Rows of the pictures that a block gave, or its share of one row."""

    head: int
    queries: Span
    picture: Tensor
    relative: Tensor | None


class _Whole:
    """The pictures and figures of all heads, filled part by part."""

    def __init__(
        self,
        maps: LongMaps,
        factor: int,
        tiling: Tiling,
        how: Pooling,
        step: Step,
        stats: bool,
    ) -> None:
        self._maps, self._factor, self._tiling = maps, factor, tiling
        self._how, self._step, self._stats = how, step, stats
        weights = step == "softmax"
        shape = (maps.heads, -(-maps.time // factor), tiling.columns)
        self._picture = maps.q.new_full(shape, HIDDEN if how == "max" else 0.0)
        self._relative = self._picture.clone() if weights and maps.masks(step) else None
        self._queries = maps.q.new_zeros(3, maps.heads, maps.time) if weights else None
        self._visible = maps.visible_keys

    def part(self, block: _Block) -> _Part:
        """Computes a block; what it writes here no other thread touches."""
        head, queries = block.head, block.queries
        rows = sweep(
            self._maps, head, queries, self._tiling, self._how, self._step,
            bound=block.bound, stats=self._stats,
        )  # fmt: skip
        if self._queries is not None:
            for figure, found in enumerate((rows.lse, rows.entropy, rows.distance)):
                if found is not None:
                    self._queries[figure, head, slice(*queries)] = found
        relative = None
        if self._relative is not None:
            there = rows.picture > HIDDEN / 2
            many = torch.where(there, rows.picture * self._visible[slice(*queries)], rows.picture)
            relative = down(many, self._factor, self._how)
        return _Part(head, queries, down(rows.picture, self._factor, self._how), relative)

    def merge(self, part: _Part) -> None:
        first = part.queries[0] // self._factor
        into = [(self._picture, part.picture)]
        if self._relative is not None and part.relative is not None:
            into.append((self._relative, part.relative))
        for whole, piece in into:
            rows = whole[part.head, first : first + len(piece)]
            if self._how == "max":
                torch.maximum(rows, piece, out=rows)
            else:
                rows += piece

    def overview(self) -> Overview:
        pooled = self._pooled(self._picture)
        if self._queries is None:
            return Overview(pooled, None, None, None)
        if self._relative is None:
            relative = replace(pooled, values=pooled.values * np.float32(self._maps.time))
        else:
            relative = self._pooled(self._relative)
        lse, entropy, distance = self._queries
        found = _stats(self._maps, lse, entropy, distance) if self._stats else None
        return Overview(pooled, relative, found, lse)

    def _pooled(self, picture: Tensor) -> Pooled:
        if self._how == "mean":
            counts = self._counts()
            picture = (picture / counts).masked_fill(counts == 0, torch.nan)
        else:
            picture = picture.masked_fill(picture <= HIDDEN / 2, torch.nan)
        return Pooled(picture.cpu().numpy(), self._factor, self._how, self._maps.time)

    def _counts(self) -> Tensor:
        """(rows, columns): visible cells of each cell of the picture."""
        maps = self._maps
        return cell_counts(maps, (0, maps.time), self._tiling, self._factor, self._step)


def cell_counts(maps: LongMaps, queries: Span, tiling: Tiling, factor: int, step: Step) -> Tensor:
    """(rows, columns): how many visible cells each cell of a picture pools."""
    edges = tiling.edges().to(maps.q.device)
    start, stop = queries
    counts = maps.q.new_zeros(-(-(stop - start) // factor), tiling.columns)
    for a, b in query_blocks(queries, factor, maps.q.device):
        if maps.masks(step):
            found = maps.counts((a, b), edges)
        else:
            found = edges.diff().to(maps.q.dtype).expand(b - a, -1)
        piece = down(found.T, factor, "mean")
        at = (a - start) // factor
        counts[at : at + len(piece)] += piece
    return counts


def _stats(maps: LongMaps, lse: Tensor, entropy: Tensor, distance: Tensor) -> HeadStats:
    """Means over the queries that see a key; all (h, time)."""
    seen = lse > -torch.inf
    counted = seen.sum(-1).clamp(min=1).double()
    place = torch.arange(maps.time, device=lse.device)
    before = (place - 1).clamp(min=0)
    factor = maps.factor("softmax")

    def mean(values: Tensor) -> list[float]:
        kept = torch.where(seen, values, 0.0).sum(-1, dtype=torch.float64)
        return [float(value) for value in kept / counted]

    def share(keys: Tensor) -> Tensor:
        """The weight of one key of each query."""
        score = (maps.q * maps.k[:, keys]).sum(-1) * factor
        return torch.where(maps.sees(place, keys), (score - lse).exp(), 0.0)

    return HeadStats(
        entropy=mean(entropy),
        effective_keys=mean(entropy.exp()),
        distance=mean(distance),
        first=mean(share(torch.zeros_like(place))),
        self=mean(share(place)),
        previous=mean(torch.where(place > 0, share(before), 0.0)),
    )
