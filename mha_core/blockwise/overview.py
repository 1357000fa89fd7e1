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
from mha_core.blockwise.sweep import Keys, Rows, Tiling, prepare, sweep
from mha_core.blockwise.workers import in_blocks
from mha_core.errors import ConfigError
from mha_core.head_stats import HeadStats
from mha_core.maps import Pooled, Pooling

# Told the share done, 0 to 1; what it raises ends the work.
Progress = Callable[[float], None]

# A block's queries, and its cells: together with its keys it stays in a core's own cache. A device
# of its own has no such cache, and wants fewer, larger blocks.
_ROWS, _CELLS, _CELLS_ELSEWHERE = 96, 2**17, 2**25


@dataclass(frozen=True)
class Overview:
    """All heads of a step, small enough to send.

    Attributes:
        pooled: (h, rows, columns), NaN where every cell is masked.
        relative: the same with each weight times the keys its query sees; None for scores.
        stats: of the weights, exact; None for scores.
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
    progress: Progress | None = None,
) -> Overview:
    """Pools the maps of a step to at most `limit` rows and columns.

    The same numbers as `maps.pool` and `head_stats` give of the whole maps.

    Args:
        maps: q, k and what is masked.
        limit: the most rows and columns.
        how: "max" or "mean" over the visible cells.
        step: one of `long_maps.STEPS`.
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
    whole = _Whole(maps, factor, tiling, how, step)
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
            keys = prepare(maps, head, tiling, step)
            yield from (_Block(head, keys, rows) for rows in blocks)

    in_blocks(whole.part, every(), merge, alone=maps.q.device.type != "cpu")
    return whole.overview()


def _cells(maps: LongMaps, queries: tuple[int, int], step: Step) -> int:
    return (queries[1] - queries[0]) * maps.reach(queries[1], step)


def key_tiling(maps: LongMaps, keys: tuple[int, int], factor: int) -> Tiling:
    """Tiles of the keys of a picture."""
    cells = _CELLS if maps.q.device.type == "cpu" else _CELLS_ELSEWHERE
    width = max(1, cells // _ROWS // factor) * factor
    return Tiling(*keys, factor, width)


def query_blocks(queries: tuple[int, int], factor: int, device: torch.device) -> list[
    tuple[int, int]
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


def down(picture: Tensor, first: int, factor: int, how: Pooling) -> Tensor:
    """(queries, columns) -> (rows, columns), the first query standing at `first` of its row."""
    place = (first + torch.arange(len(picture), device=picture.device)) // factor
    place -= int(place[0])
    lowest = HIDDEN if how == "max" else 0.0
    rows = picture.new_full((int(place[-1]) + 1, picture.shape[1]), lowest)
    kind = "amax" if how == "max" else "sum"
    return rows.scatter_reduce_(0, place[:, None].expand_as(picture), picture, kind)


@dataclass(frozen=True)
class _Block:
    """Some queries of one head, to be computed."""

    head: int
    keys: Keys
    queries: tuple[int, int]


@dataclass(frozen=True)
class _Part:
    """What a block gave: rows of the pictures, and for weights what each query adds."""

    head: int
    queries: tuple[int, int]
    picture: Tensor
    relative: Tensor | None
    lse: Tensor | None
    figures: Tensor | None


class _Whole:
    """The pictures and figures of all heads, filled part by part."""

    def __init__(
        self, maps: LongMaps, factor: int, tiling: Tiling, how: Pooling, step: Step
    ) -> None:
        self._maps, self._factor, self._tiling = maps, factor, tiling
        self._how, self._step = how, step
        weights = step == "softmax"
        shape = (maps.heads, -(-maps.time // factor), tiling.columns)
        lowest = HIDDEN if how == "max" else 0.0
        self._picture = maps.q.new_full(shape, lowest)
        self._relative = self._picture.clone() if weights and maps.masks(step) else None
        self._lse = maps.q.new_zeros(shape[0], maps.time) if weights else None
        self._figures = torch.zeros(shape[0], 6, dtype=torch.float64)
        self._seen = torch.zeros(shape[0], dtype=torch.int64)
        self._visible = maps.visible_keys

    def part(self, block: _Block) -> _Part:
        """Computes a block; touches nothing that other threads write."""
        head, queries = block.head, block.queries
        rows = sweep(self._maps, block.keys, head, queries, self._tiling, self._how, self._step)
        relative = None
        if self._relative is not None:
            seen = self._visible[slice(*queries), None]
            there = rows.picture > HIDDEN / 2
            relative = down(
                torch.where(there, rows.picture * seen, rows.picture),
                queries[0], self._factor, self._how,
            )  # fmt: skip
        picture = down(rows.picture, queries[0], self._factor, self._how)
        figures = None if rows.lse is None else query_figures(self._maps, head, queries, rows)
        return _Part(head, queries, picture, relative, rows.lse, figures)

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
        if self._lse is not None and part.lse is not None and part.figures is not None:
            self._lse[part.head, slice(*part.queries)] = part.lse
            seen = part.lse > -torch.inf
            self._seen[part.head] += int(seen.sum())
            self._figures[part.head] += part.figures[seen].sum(0, dtype=torch.float64).cpu()

    def overview(self) -> Overview:
        pooled = self._pooled(self._picture)
        if self._lse is None:
            return Overview(pooled, None, None, None)
        if self._relative is None:
            relative = replace(pooled, values=pooled.values * np.float32(self._maps.time))
        else:
            relative = self._pooled(self._relative)
        means = (self._figures / self._seen.clamp(min=1)[:, None]).T.tolist()
        return Overview(pooled, relative, HeadStats(*means), self._lse)

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


def cell_counts(
    maps: LongMaps, queries: tuple[int, int], tiling: Tiling, factor: int, step: Step
) -> Tensor:
    """(rows, columns): how many visible cells each cell of a picture pools."""
    edges = tiling.edges().to(maps.q.device)
    start, stop = queries
    rows = -(-(stop - start) // factor)
    counts = maps.q.new_zeros(rows, tiling.columns)
    for a, b in query_blocks(queries, factor, maps.q.device):
        if maps.masks(step):
            found = maps.counts((a, b), edges)
        else:
            found = edges.diff().to(maps.q.dtype).expand(b - a, -1)
        piece = down(found, a - start, factor, "mean")
        at = (a - start) // factor
        counts[at : at + len(piece)] += piece
    return counts


def query_figures(maps: LongMaps, head: int, queries: tuple[int, int], rows: Rows) -> Tensor:
    """(queries, 6): entropy, effective keys, distance, shares on first, self and previous."""
    assert rows.lse is not None
    assert rows.sums is not None
    a, b = queries
    q, k = maps.q[head, a:b], maps.k[head]
    factor = maps.factor("softmax")
    # -Σ w log w = lse - Σ w s, and Σ w s = q · Σ w k: no second look at the scores.
    mean_score = (q * rows.sums[:, :-1]).sum(-1) * factor
    entropy = (rows.lse - mean_score).clamp_(min=0.0)
    place = torch.arange(a, b, device=q.device)

    def share(key: Tensor) -> Tensor:
        score = (q * k[key]).sum(-1) * factor
        return torch.where(maps.sees(place, key), (score - rows.lse).exp(), 0.0)

    first, before = torch.zeros_like(place), (place - 1).clamp(min=0)
    previous = torch.where(place > 0, share(before), 0.0)
    return torch.stack(
        [entropy, entropy.exp(), rows.sums[:, -1], share(first), share(place), previous], 1
    )
