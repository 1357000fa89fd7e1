"""The atlas of maps that are never held whole: every part is computed from q and k."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from torch import Tensor

from mha_core import blockwise
from mha_core.blockwise import LongMaps, Overview
from mha_core.blockwise.detail import visible_column, visible_row
from mha_core.blockwise.long_maps import STEPS, Step
from mha_core.blockwise.pictures import Progress
from mha_core.export.blocks import Stream, map_stream
from mha_core.export.selection import MAPS
from mha_core.patch import Patch, Span
from mha_core.steps import map_name
from pages.shared import long_runs
from pages.shared.atlas import Asked, Atlas
from pages.shared.choice import Choice

_CELLS = 2**22  # of a block of rows that is written to a file


class Long(Atlas):
    """Maps that are never held whole."""

    has_words = False
    slow = True
    has_q_and_k = True

    def __init__(self, choice: Choice, limit: int) -> None:
        config = choice.config
        self.key, self.limit = choice, limit
        kinds = [step for step in STEPS if step != "mask" or config.causal]
        self.steps = {map_name(step): step for step in kinds}
        self.batch, self.heads, self.time = config.batch, config.heads, config.time
        self._choice = choice

    def maps(self, item: int) -> LongMaps:
        """q and k of a batch item, and what is masked."""
        return long_runs.maps_of(self._choice, item)

    def overview(
        self, asked: Asked, progress: Progress | None = None, *, cells: int | None = None
    ) -> Overview:
        step, limit = cast(Step, asked.step), cells or self.limit
        return blockwise.overview(
            self.maps(asked.item), limit, asked.how, step=step, progress=progress
        )

    def patch(
        self, asked: Asked, head: int, queries: Span, keys: Span, overview: Overview | None,
        *, relative: bool = False,
    ) -> Patch:  # fmt: skip
        lse = None if overview is None else overview.lse
        return blockwise.window(
            self.maps(asked.item), head, queries, keys, self.limit, asked.how,
            step=cast(Step, asked.step), lse=lse, relative=relative,
        )  # fmt: skip

    def line(
        self, asked: Asked, head: int, index: int, direction: str, overview: Overview | None
    ) -> tuple[Tensor, Tensor]:
        found = self.maps(asked.item)
        if direction == "query":
            values = blockwise.rows(found, head, (index, index + 1))[0]
            return values.cpu(), visible_row(found, index).cpu()
        lse = None if overview is None else overview.lse
        values = blockwise.column(found, head, index, lse=lse)
        return values.cpu(), visible_column(found, index).cpu()

    def names(self, asked: Asked) -> Sequence[str] | None:
        return self._choice.labels(asked.item)

    def other_causal(self, asked: Asked, head: int, queries: Span, keys: Span) -> Patch | None:
        found = self.maps(asked.item)
        turned = replace(found, causal=not found.causal)
        return blockwise.window(turned, head, queries, keys, self.limit, asked.how)

    def is_causal(self, item: int) -> bool:
        return self.maps(item).causal

    def streams(
        self, names: tuple[str, ...], heads: tuple[int, ...], items: tuple[int, ...]
    ) -> Sequence[Stream]:
        size = max(1, _CELLS // self.time)

        def one(name: str) -> Stream:
            step = cast(Step, MAPS[name])

            def rows(item: int, head: int) -> Iterator[Tensor]:
                found = self.maps(item)
                for start in range(0, self.time, size):
                    stop = min(self.time, start + size)
                    yield blockwise.rows(found, head, (start, stop), step).cpu()

            return map_stream(
                name, rows, items=items, heads=heads, time=self.time,
                dtype=long_runs.dtype(self._choice),
            )  # fmt: skip

        return [one(name) for name in names]
