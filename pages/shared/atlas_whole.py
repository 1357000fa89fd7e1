"""The atlas of maps that are held whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mha_core import Trace, blockwise, maps
from mha_core.blockwise import Overview
from mha_core.blockwise.flip import flipped_causal, is_causal
from mha_core.blockwise.pictures import Progress
from mha_core.export.blocks import Stream, map_stream
from mha_core.export.selection import MAPS
from mha_core.head_stats import head_stats
from mha_core.maps import HeadMaps, Pooling
from mha_core.patch import Patch, Span, patch_of
from pages.shared.atlas import Asked, Atlas
from pages.shared.heads import Heads


class Whole(Atlas):
    """Maps that are held whole."""

    slow = False

    def __init__(self, heads: Heads, limit: int, trace: Trace | None) -> None:
        self.key, self.steps, self.limit = heads.key, heads.steps, limit
        self.batch, self.heads, self.time = heads.batch, heads.heads, heads.time
        self.has_words = heads.words is not None
        self.has_q_and_k = trace is not None
        self._heads, self._trace = heads, trace

    def _shown(self, asked: Asked) -> HeadMaps:
        return self._heads.shown(asked.step, asked.item, plain=asked.plain)

    def overview(
        self, asked: Asked, progress: Progress | None = None, *, cells: int | None = None  # noqa: ARG002
    ) -> Overview:  # fmt: skip
        limit = cells or self.limit
        found = self._shown(asked)
        pooled = maps.pool(found, limit, asked.how)
        relative = None
        if found.is_weights:
            relative = maps.pool(maps.relative_to_uniform(found), limit, asked.how)
        weights = self._heads.shown("softmax", asked.item, plain=asked.plain)
        return Overview(pooled, relative, head_stats(weights), None)

    def patch(
        self, asked: Asked, head: int, queries: Span, keys: Span, overview: Overview | None,  # noqa: ARG002
        *, relative: bool = False,
    ) -> Patch:  # fmt: skip
        found = self._shown(asked).head(head)
        if relative:
            found = maps.relative_to_uniform(found)
        return self._cut(found, queries, keys, asked.how)

    def _cut(self, found: HeadMaps, queries: Span, keys: Span, how: Pooling) -> Patch:
        part = (0, slice(*queries), slice(*keys))
        seen = None if found.visible is None else found.visible[part]
        time = found.values.shape[-1]
        return patch_of(found.values[part], seen, queries, keys, self.limit, how, time=time)

    def line(
        self, asked: Asked, head: int, index: int, direction: str, overview: Overview | None  # noqa: ARG002
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        found = self._heads.shown("softmax", asked.item, plain=asked.plain)
        axis = 0 if direction == "query" else 1
        values = found.values[head].select(axis, index)
        if found.visible is None:
            return values, torch.ones_like(values, dtype=torch.bool)
        return values, found.visible[head].select(axis, index)

    def names(self, asked: Asked) -> Sequence[str] | None:
        return self._heads.names(asked.item, plain=asked.plain)

    def other_causal(self, asked: Asked, head: int, queries: Span, keys: Span) -> Patch | None:
        if self._trace is None:
            return None
        turned = flipped_causal(self._trace, asked.item)
        values = blockwise.rows(turned, head, (0, turned.time), "softmax")
        hidden = turned.hidden((0, turned.time), (0, turned.time))
        seen = None if hidden is None else ~hidden.expand_as(values)
        other = HeadMaps("softmax", values[None], None if seen is None else seen[None])
        return self._cut(
            self._heads.without(other, asked.item, plain=asked.plain), queries, keys, asked.how
        )

    def is_causal(self, item: int) -> bool:
        return self._trace is not None and is_causal(self._trace, item)

    def streams(
        self, names: tuple[str, ...], heads: tuple[int, ...], items: tuple[int, ...]
    ) -> Sequence[Stream]:
        trace = self._trace
        assert trace is not None

        def one(name: str) -> Stream:
            tensor = trace.tensor(MAPS[name])

            def rows(item: int, head: int) -> Iterator[Tensor]:
                yield tensor[item, head].detach().cpu()

            return map_stream(
                name, rows, items=items, heads=heads, time=self.time, dtype=tensor.dtype
            )

        return [one(name) for name in names]
