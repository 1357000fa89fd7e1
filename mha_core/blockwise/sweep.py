"""Some queries of one head over its keys, tile by tile: pooled, normalised, summed up.

A tile is (keys, queries): what is pooled and summed then runs along the rows in memory, which is
four times as fast. Each tile is summed from its own largest score on, and the sums of all tiles are
put together at the end (the online softmax of Milakov and Gimelshein 2018, side by side).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mha_core.blockwise.long_maps import HIDDEN, LongMaps, Step
from mha_core.blockwise.workers import scratch
from mha_core.maps import Pooling

# exp of a score up to this neither overflows nor loses digits, and nor does the sum of 10^9 of
# them: no largest score need be taken off first.
_PLAIN = 60.0

Span = tuple[int, int]


@dataclass(frozen=True)
class Tiling:
    """How keys are cut; every tile holds whole columns of the picture.

    Attributes:
        start, stop: keys of the picture.
        factor: keys a column pools.
        width: keys a tile, a multiple of `factor`.
        like: gives dtype and device.
    """

    start: int
    stop: int
    factor: int
    width: int
    like: Tensor

    @property
    def columns(self) -> int:
        return -(-(self.stop - self.start) // self.factor)

    def edges(self) -> Tensor:
        """(columns + 1,): positions between which each column pools."""
        ends = self.start + torch.arange(self.columns + 1) * self.factor
        return ends.clamp(max=self.stop)

    def tiles(self, reach: int) -> list[Span]:
        """Start and stop of each tile before `reach`."""
        end = min(self.stop, reach)
        return [(c, min(end, c + self.width)) for c in range(self.start, end, self.width)]

    def columns_of(self, span: Span) -> slice:
        """Columns of the picture that a tile fills."""
        c, d = span
        first = (c - self.start) // self.factor
        return slice(first, first - (c - d) // self.factor)

    @cached_property
    def from_start(self) -> Tensor:
        """(width,): distance of each key of a tile from its start."""
        return torch.arange(self.width, dtype=self.like.dtype, device=self.like.device)

    @cached_property
    def to_end(self) -> Tensor:
        """(width,): distance of each key of a whole tile to its end."""
        return self.width - self.from_start


@dataclass
class Rows:
    """Some queries of one head, pooled along the keys.

    Attributes:
        picture: (columns, queries): the largest visible cell, HIDDEN where none is; or the sum of
            them, 0 where none is.
        lse: (queries,): log of the sum of exp(score) over the visible keys, -inf where none is;
            None for scores.
        entropy, distance: (queries,): of the weights, in nats and positions; None for scores.
    """

    picture: Tensor
    lse: Tensor | None = None
    entropy: Tensor | None = None
    distance: Tensor | None = None


def sweep(
    maps: LongMaps,
    head: int,
    queries: Span,
    tiling: Tiling,
    how: Pooling,
    step: Step,
    *,
    bound: float,
    stats: bool = True,
) -> Rows:
    """Queries over all their keys.

    Args:
        tiling: from 0 to time.
        bound: no score of the head is larger.
        stats: whether entropy and distance are wanted.
    """
    if step != "softmax":
        return Rows(cut(maps, head, queries, tiling, how, step, None))
    n = queries[1] - queries[0]
    picture = maps.q.new_full((tiling.columns, n), HIDDEN if how == "max" else 0.0)
    block = _block(maps, head, queries, step)
    spans = tiling.tiles(maps.reach(queries[1], step))
    # For each tile: what was taken off, and the sums over its keys of exp(score), of it times
    # the score, and of it times the distance.
    tops = maps.q.new_zeros(len(spans), n) if bound > _PLAIN else None
    sums = maps.q.new_empty(3, len(spans), n)
    z, product, far = sums
    outs = [part.unbind() for part in sums]
    for at, span in enumerate(spans):
        tile = _scores(maps, head, block, queries, span, step, HIDDEN)
        columns = picture[tiling.columns_of(span)]
        if how == "max":
            along(tile, tiling.factor, "max", columns)
        if tops is not None:
            tops[at] = (columns if how == "max" else tile).amax(0)
            tile -= _shift(tops[at])
        grown = torch.exp(tile, out=scratch(span[1] - span[0], n, tile, second=stats))
        if how == "mean":
            along(grown, tiling.factor, "mean", columns)
        torch.sum(grown, 0, out=outs[0][at])
        if stats:
            torch.sum(tile.mul_(grown), 0, out=outs[1][at])
            _near(grown, tiling, queries, span, outs[2][at])
    if stats:
        far += _offsets(spans, queries, maps.q).mul_(z)
    top = None
    if tops is not None:
        top = tops.amax(0)
        change = _shift(tops) - _shift(top)
        # A tile that no key of is seen has nothing to give, whatever the others begin from.
        back = change.masked_fill(tops <= HIDDEN / 2, 0.0).exp_()
        product = (product + change * z) * back
        z, far = z * back, far * back
        if how == "mean":
            for scale, span in zip(back, spans, strict=True):
                picture[tiling.columns_of(span)] *= scale
    total = z.sum(0)
    safe = total.masked_fill(total == 0, 1.0)
    lse = total.log() if top is None else _shift(top) + total.log()
    picture = _as_weights(picture, lse) if how == "max" else picture / safe
    if not stats:
        return Rows(picture, lse)
    # -Σ w log w = log Σ exp(s) - Σ w s, both from the largest score on.
    entropy = (safe.log() - product.sum(0) / safe).clamp_(min=0.0)
    return Rows(picture, lse, entropy, far.sum(0) / safe)


def cut(
    maps: LongMaps,
    head: int,
    queries: Span,
    tiling: Tiling,
    how: Pooling,
    step: Step,
    lse: Tensor | None,
) -> Tensor:
    """(columns, queries): the picture of some keys alone, as in `Rows`.

    Args:
        lse: (queries,), see `Rows`; weights need it.
    """
    lowest = HIDDEN if how == "max" else 0.0
    picture = maps.q.new_full((tiling.columns, queries[1] - queries[0]), lowest)
    block = _block(maps, head, queries, step)
    # A score of 0 adds nothing to a sum; exp of HIDDEN does not either.
    fill = HIDDEN if how == "max" or lse is not None else 0.0
    for span in tiling.tiles(maps.reach(queries[1], step)):
        tile = _scores(maps, head, block, queries, span, step, fill)
        if lse is not None and how == "mean":
            tile -= _shift(lse)
            tile.exp_()
        along(tile, tiling.factor, how, picture[tiling.columns_of(span)])
    return _as_weights(picture, lse) if lse is not None and how == "max" else picture


def _block(maps: LongMaps, head: int, queries: Span, step: Step) -> Tensor:
    """(d_k, queries), with the factor on the scores."""
    return (maps.q[head, slice(*queries)] * maps.factor(step)).T.contiguous()


def _scores(
    maps: LongMaps, head: int, block: Tensor, queries: Span, span: Span, step: Step, fill: float
) -> Tensor:
    """(keys, queries) of a tile in this thread's scratch memory, `fill` where masked."""
    c, d = span
    tile = torch.mm(maps.k[head, c:d], block, out=scratch(d - c, block.shape[1], maps.q))
    hidden = maps.hidden(queries, span) if maps.masks(step) else None
    return tile if hidden is None else tile.masked_fill_(hidden.T, fill)


def _near(grown: Tensor, tiling: Tiling, queries: Span, span: Span, out: Tensor) -> None:
    """(queries,): exp(score) times the distance, summed over the keys of a tile.

    From the tile's nearer end, to which `_offsets` adds the rest of the way: no large number is
    taken from another. A tile among the queries gives the whole distance.
    """
    (a, b), (c, d) = queries, span
    if d <= a:
        torch.mv(grown.T, tiling.to_end, out=out)
    elif c >= b:
        torch.mv(grown.T, tiling.from_start[: d - c], out=out)
    else:
        rows = torch.arange(a, b, device=grown.device, dtype=grown.dtype)
        places = torch.arange(c, d, device=grown.device, dtype=grown.dtype)
        torch.sum((places[:, None] - rows).abs_().mul_(grown), 0, out=out)


def _offsets(spans: list[Span], queries: Span, like: Tensor) -> Tensor:
    """(tiles, queries): from each query to the nearer end of each tile; 0 among the queries."""
    a, b = queries
    rows = torch.arange(a, b, device=like.device, dtype=like.dtype)
    ends = torch.tensor(spans, device=like.device, dtype=like.dtype)
    before, after = ends[:, 1:] <= a, ends[:, :1] >= b
    return torch.where(before, rows - ends[:, 1:], torch.where(after, ends[:, :1] - rows, 0.0))


def _shift(top: Tensor) -> Tensor:
    """What is taken off the scores: nothing where no key is seen."""
    return top.masked_fill(top <= HIDDEN / 2, 0.0)


def _as_weights(picture: Tensor, lse: Tensor) -> Tensor:
    """(columns, queries): the largest scores as the largest weights; HIDDEN stays."""
    return torch.where(picture <= HIDDEN / 2, picture, (picture - lse).exp())


def along(tile: Tensor, factor: int, how: Pooling, out: Tensor) -> None:
    """(keys, queries) -> (columns, queries): the largest, or the sum, of every `factor` keys."""
    if factor == 1:
        out.copy_(tile)
        return
    whole = tile.shape[0] // factor
    if whole:
        _reduce(tile[: whole * factor].view(whole, factor, -1), how, out[:whole])
    if whole * factor < tile.shape[0]:
        _reduce(tile[None, whole * factor :], how, out[whole:])


def _reduce(grouped: Tensor, how: Pooling, out: Tensor) -> None:
    if how == "max":
        torch.amax(grouped, 1, out=out)
    else:
        torch.sum(grouped, 1, out=out)
