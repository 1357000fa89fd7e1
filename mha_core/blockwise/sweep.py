"""Some queries of one head over its keys, tile by tile: pooled, normalised, summed up.

The softmax is online (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax"):
after each tile the sums stand as if the largest score so far had been known from the start.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.blockwise.long_maps import HIDDEN, LongMaps, Step
from mha_core.blockwise.workers import scratch
from mha_core.maps import Pooling

# exp of a score up to this neither overflows nor loses digits, and nor does the sum of 10^9 of
# them: no largest score need be taken off first.
_PLAIN = 60.0


@dataclass(frozen=True)
class Tiling:
    """How keys are cut; every tile holds whole columns of the picture.

    Attributes:
        start, stop: keys of the picture.
        factor: keys a column pools.
        width: keys a tile, a multiple of `factor`.
    """

    start: int
    stop: int
    factor: int
    width: int

    @property
    def columns(self) -> int:
        return -(-(self.stop - self.start) // self.factor)

    def edges(self) -> Tensor:
        """(columns + 1,): positions between which each column pools."""
        ends = self.start + torch.arange(self.columns + 1) * self.factor
        return ends.clamp(max=self.stop)

    def tiles(self, reach: int) -> list[tuple[int, int, slice]]:
        """(start, stop, columns) of each tile before `reach`."""
        found = []
        end = min(self.stop, reach)
        for c in range(self.start, end, self.width):
            d = min(end, c + self.width)
            at = (c - self.start) // self.factor
            found.append((c, d, slice(at, at - (c - d) // self.factor)))
        return found


@dataclass(frozen=True)
class Keys:
    """The keys of one head, prepared once for all its queries.

    Attributes:
        transposed: (d_k, time).
        left, right: (time, d_k + 2): k, 1, and the distance to the end of the tile (for queries
            after it) or from its start (for those before). Weights times these give what the
            statistics need in one product, without taking large numbers from each other.
        bound: no score is larger.
    """

    transposed: Tensor
    left: Tensor
    right: Tensor
    bound: float


def prepare(maps: LongMaps, head: int, tiling: Tiling, step: Step) -> Keys:
    """The keys of a head for tiles of a width."""
    k = maps.k[head]
    within = (torch.arange(maps.time, device=k.device) - tiling.start) % tiling.width
    one = torch.ones(maps.time, 1, dtype=k.dtype, device=k.device)
    to_end = (tiling.width - within).to(k.dtype)[:, None]
    from_start = within.to(k.dtype)[:, None]
    return Keys(
        k.T.contiguous(),
        torch.cat([k, one, to_end], 1),
        torch.cat([k, one, from_start], 1),
        maps.head_bound(head, step),
    )


@dataclass
class Rows:
    """Some queries of one head, pooled along the keys.

    Attributes:
        picture: (queries, columns): the largest visible cell, HIDDEN where none is; or the sum of
            them, 0 where none is.
        lse: (queries,): log of the sum of exp(score) over the visible keys, -inf where none is;
            None for scores.
        sums: (queries, d_k + 1): weights times k, and times the distance; None for scores.
    """

    picture: Tensor
    lse: Tensor | None = None
    sums: Tensor | None = None


def sweep(
    maps: LongMaps,
    keys: Keys,
    head: int,
    queries: tuple[int, int],
    tiling: Tiling,
    how: Pooling,
    step: Step,
) -> Rows:
    """Queries over all their keys; `tiling` is from 0 to time."""
    if step != "softmax":
        return Rows(cut(maps, keys, head, queries, tiling, how, step, None))
    a, b = queries
    q = maps.q[head, a:b]
    picture = q.new_full((b - a, tiling.columns), HIDDEN if how == "max" else 0.0)
    online = keys.bound > _PLAIN
    top = q.new_full((b - a, 1), HIDDEN if online else 0.0)
    total = q.new_zeros(b - a, maps.d_k + 2)
    for c, d, columns in tiling.tiles(maps.reach(b, step)):
        tile = _scores(maps, keys, head, queries, (c, d), step, HIDDEN)
        if how == "max":
            picture[:, columns] = along(tile, tiling.factor, "max")
        if online:
            peak = picture[:, columns] if how == "max" else tile
            higher = torch.maximum(top, peak.amax(-1, keepdim=True))
            shift = _shift(higher)
            # Above 0 only where no key was seen so far, and there is nothing to take back.
            back = (_shift(top) - shift).clamp_(max=0.0).exp_()
            total *= back
            if how == "mean":
                picture *= back
            tile -= shift
            top = higher
        tile.exp_()
        if how == "mean":
            picture[:, columns] = along(tile, tiling.factor, "mean")
        total += _sums(tile, keys, queries, (c, d))
    z = total[:, -2:-1]
    lse = (_shift(top) + z.log())[:, 0]
    safe = z.masked_fill(z == 0, 1.0)
    picture = _as_weights(picture, lse) if how == "max" else picture / safe
    sums = torch.cat([total[:, :-2], total[:, -1:]], 1) / safe
    return Rows(picture, lse, sums)


def cut(
    maps: LongMaps,
    keys: Keys,
    head: int,
    queries: tuple[int, int],
    tiling: Tiling,
    how: Pooling,
    step: Step,
    lse: Tensor | None,
) -> Tensor:
    """(queries, columns): the picture of some keys alone, as in `Rows`.

    Args:
        lse: (queries,), see `Rows`; weights need it.
    """
    a, b = queries
    lowest = HIDDEN if how == "max" else 0.0
    picture = maps.q.new_full((b - a, tiling.columns), lowest)
    # A score of 0 adds nothing to a sum; exp of HIDDEN does not either.
    fill = HIDDEN if how == "max" or lse is not None else 0.0
    for c, d, columns in tiling.tiles(maps.reach(b, step)):
        tile = _scores(maps, keys, head, queries, (c, d), step, fill)
        if lse is not None and how == "mean":
            tile -= _shift(lse)[:, None]
            tile.exp_()
        picture[:, columns] = along(tile, tiling.factor, how)
    return _as_weights(picture, lse) if lse is not None and how == "max" else picture


def _scores(
    maps: LongMaps,
    keys: Keys,
    head: int,
    queries: tuple[int, int],
    span: tuple[int, int],
    step: Step,
    fill: float,
) -> Tensor:
    """(queries, keys) of a tile in this thread's scratch memory, `fill` where masked."""
    (a, b), (c, d) = queries, span
    tile = scratch(b - a, d - c, maps.q)
    factor = maps.factor(step)
    torch.addmm(tile, maps.q[head, a:b], keys.transposed[:, c:d], beta=0, alpha=factor, out=tile)
    hidden = maps.hidden(queries, span) if maps.masks(step) else None
    return tile if hidden is None else tile.masked_fill_(hidden, fill)


def _sums(tile: Tensor, keys: Keys, queries: tuple[int, int], span: tuple[int, int]) -> Tensor:
    """(queries, d_k + 2): exp(scores) times k, times 1, and times the distance."""
    (a, b), (c, d) = queries, span
    found = tile @ (keys.left if d <= a else keys.right)[c:d]
    rows = torch.arange(a, b, device=tile.device, dtype=tile.dtype)
    if d <= a:
        found[:, -1] += found[:, -2] * (rows - d)
    elif c >= b:
        found[:, -1] += found[:, -2] * (c - rows)
    else:
        places = torch.arange(c, d, device=tile.device, dtype=tile.dtype)
        found[:, -1] = torch.einsum("qk,qk->q", tile, (places - rows[:, None]).abs_())
    return found


def _shift(top: Tensor) -> Tensor:
    """What is taken off the scores: nothing where no key is seen yet."""
    return top.masked_fill(top <= HIDDEN / 2, 0.0)


def _as_weights(picture: Tensor, lse: Tensor) -> Tensor:
    """The largest scores as the largest weights; HIDDEN stays."""
    return torch.where(picture <= HIDDEN / 2, picture, (picture - lse[:, None]).exp())


def along(tile: Tensor, factor: int, how: Pooling) -> Tensor:
    """(queries, keys) -> (queries, columns): the largest, or the sum, of every `factor` keys."""
    if factor == 1:
        return tile
    whole = tile.shape[1] // factor * factor
    parts = [_reduced(tile[:, :whole].unflatten(1, (-1, factor)), how)] if whole else []
    if whole < tile.shape[1]:
        parts.append(_reduced(tile[:, None, whole:], how))
    return parts[0] if len(parts) == 1 else torch.cat(parts, 1)


def _reduced(grouped: Tensor, how: Pooling) -> Tensor:
    return grouped.amax(-1) if how == "max" else grouped.sum(-1)
