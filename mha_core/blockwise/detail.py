"""Parts of maps of any length, exact: a window, some rows, one query, one key."""

from __future__ import annotations

import torch
from torch import Tensor

from mha_core.blockwise.long_maps import HIDDEN, LongMaps, Step
from mha_core.blockwise.pictures import cell_counts, down, key_tiling, query_blocks
from mha_core.blockwise.sweep import Span, cut, sweep
from mha_core.blockwise.workers import in_blocks
from mha_core.errors import ConfigError
from mha_core.maps import Pooling
from mha_core.patch import Patch


def rows(maps: LongMaps, head: int, queries: Span, step: Step = "softmax") -> Tensor:
    """(queries, time): rows as the forward has them, -inf where a score is masked.

    A query that sees no key has weights 0.

    Raises:
        ConfigError: no such head, queries or step.
    """
    check_span(maps, "queries", queries)
    _check_head(maps, head)
    maps.check_step(step)
    found = maps.q[head, slice(*queries)] @ maps.k[head].T
    if step == "scores":
        return found
    found *= maps.factor(step)
    hidden = maps.hidden(queries, (0, maps.time)) if maps.masks(step) else None
    if hidden is not None:
        found.masked_fill_(hidden, -torch.inf)
    if step != "softmax":
        return found
    dead = found.amax(-1, keepdim=True) == -torch.inf
    return found.masked_fill_(dead, 0.0).softmax(-1).masked_fill_(dead, 0.0)


def visible_row(maps: LongMaps, query: int, step: Step = "softmax") -> Tensor:
    """(time,): boolean, True where the query sees the key."""
    hidden = maps.hidden((query, query + 1), (0, maps.time)) if maps.masks(step) else None
    if hidden is None:
        return torch.ones(maps.time, dtype=torch.bool, device=maps.q.device)
    return ~hidden[0].expand(maps.time)


def visible_column(maps: LongMaps, key: int, step: Step = "softmax") -> Tensor:
    """(time,): boolean, True where the query sees the key."""
    places = torch.arange(maps.time, device=maps.q.device)
    if not maps.masks(step):
        return torch.ones_like(places, dtype=torch.bool)
    return maps.sees(places, torch.full_like(places, key))


def column(
    maps: LongMaps, head: int, key: int, step: Step = "softmax", *, lse: Tensor | None = None
) -> Tensor:
    """(time,): one key's column; -inf where a score is masked, 0 where a weight is.

    Args:
        lse: (h, time) as of an `Overview`; computed where None, which takes the whole head.
    """
    check_span(maps, "keys", (key, key + 1))
    _check_head(maps, head)
    maps.check_step(step)
    found = maps.q[head] @ maps.k[head, key] * maps.factor(step)
    visible = visible_column(maps, key, step)
    if step != "softmax":
        return found.masked_fill_(~visible, -torch.inf)
    known = normalisers(maps, head, (0, maps.time)) if lse is None else lse[head]
    return torch.where(visible, (found - known).exp(), 0.0)


def normalisers(maps: LongMaps, head: int, queries: Span) -> Tensor:
    """(queries,): log of the sum of exp(score) over the keys each query sees; -inf where none."""
    found = maps.q.new_zeros(queries[1] - queries[0])
    tiling = key_tiling(maps, (0, maps.time), 64)  # of which no picture is wanted
    bound = maps.head_bound(head, "softmax")

    def one(block: Span) -> tuple[Span, Tensor]:
        lse = sweep(maps, head, block, tiling, "max", "softmax", bound=bound, stats=False).lse
        assert lse is not None
        return block, lse

    def merge(part: tuple[Span, Tensor]) -> None:
        (a, b), lse = part
        found[a - queries[0] : b - queries[0]] = lse

    blocks = query_blocks(queries, 1, maps.q.device)
    in_blocks(one, blocks, merge, alone=maps.q.device.type != "cpu")
    return found


def window(
    maps: LongMaps,
    head: int,
    queries: Span,
    keys: Span,
    limit: int,
    how: Pooling = "max",
    *,
    step: Step = "softmax",
    lse: Tensor | None = None,
    relative: bool = False,
) -> Patch:
    """Exactly that part of a head's map, from q and k, pooled to at most `limit` a side.

    Args:
        queries, keys: start and stop of each axis.
        limit: the most rows and columns; each axis is pooled on its own.
        how: "max" or "mean" over the visible cells.
        step: one of `long_maps.STEPS`.
        lse: (h, time) as of an `Overview`; computed for these queries where None.
        relative: weights times the keys their query sees.

    Raises:
        ConfigError: no such head, step or range, or a limit below 1.
    """
    _check_head(maps, head)
    check_span(maps, "queries", queries)
    check_span(maps, "keys", keys)
    maps.check_step(step)
    if limit < 1:
        raise ConfigError("limit", limit, "must be at least 1", works="Nearest that works: 1")
    factors = (-(-(queries[1] - queries[0]) // limit), -(-(keys[1] - keys[0]) // limit))
    tiling = key_tiling(maps, keys, factors[1])
    known = None
    if step == "softmax":
        known = normalisers(maps, head, queries) if lse is None else lse[head, slice(*queries)]
    start = queries[0]
    shape = (-(-(queries[1] - start) // factors[0]), tiling.columns)
    picture = maps.q.new_full(shape, HIDDEN if how == "max" else 0.0)

    def one(block: Span) -> tuple[int, Tensor]:
        norm = None if known is None else known[block[0] - start : block[1] - start]
        found = cut(maps, head, block, tiling, how, step, norm)
        if relative:
            seen = maps.visible_keys[slice(*block)]
            found = torch.where(found > HIDDEN / 2, found * seen, found)
        return (block[0] - start) // factors[0], down(found, factors[0], how)

    def merge(part: tuple[int, Tensor]) -> None:
        at, piece = part
        into = picture[at : at + len(piece)]
        if how == "max":
            torch.maximum(into, piece, out=into)
        else:
            into += piece

    blocks = query_blocks(queries, factors[0], maps.q.device)
    in_blocks(one, blocks, merge, alone=maps.q.device.type != "cpu")
    if how == "mean":
        counts = cell_counts(maps, queries, tiling, factors[0], step)
        picture = (picture / counts).masked_fill(counts == 0, torch.nan)
    else:
        picture = picture.masked_fill(picture <= HIDDEN / 2, torch.nan)
    return Patch(picture.cpu().numpy(), queries, keys, factors, how, maps.time)


def check_span(maps: LongMaps, field: str, span: Span) -> None:
    """Refuses a range that is out of bounds, reversed or empty.

    Raises:
        ConfigError: naming the range, the bounds and the nearest range that works.
    """
    start, stop = span
    if 0 <= start < stop <= maps.time:
        return
    if start > stop:
        rule = "is reversed: the start must come before the end"
        start, stop = stop, start
    elif start == stop:
        rule = "is empty"
    else:
        rule = f"must lie within 0–{maps.time}"
    start = min(max(0, start), maps.time - 1)
    stop = min(max(start + 1, stop), maps.time)
    raise ConfigError(
        field, f"{span[0]}–{span[1]}", rule, works=f"Nearest that works: {start}–{stop}"
    )


def _check_head(maps: LongMaps, head: int) -> None:
    if not 0 <= head < maps.heads:
        raise ConfigError("head", head, f"must be from 0 to {maps.heads - 1}")
