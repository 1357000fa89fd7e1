"""All maps of what is looked at: their overview, exact parts of them, and their export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from torch import Tensor

from mha_core.blockwise import Overview
from mha_core.blockwise.pictures import Progress
from mha_core.export.blocks import Stream
from mha_core.maps import Pooling
from mha_core.patch import Patch, Span


@dataclass(frozen=True)
class Asked:
    """Which maps: of which step and batch item, pooled how, and without special tokens."""

    step: str
    item: int
    how: Pooling
    plain: bool = False


class Atlas(ABC):
    """The maps of all heads, and parts of them.

    Attributes:
        key: what they follow from.
        steps: name of each kind of map -> its step.
        batch, heads, time: of the maps.
        has_words: whether special tokens can be hidden.
        slow: whether an overview takes long enough to tell its progress.
        limit: cells a side of the overview.
        has_q_and_k: whether the maps can be had with causal turned over.
    """

    key: Hashable
    steps: dict[str, str]
    batch: int
    heads: int
    time: int
    has_words: bool
    slow: bool
    limit: int
    has_q_and_k: bool

    @abstractmethod
    def overview(
        self, asked: Asked, progress: Progress | None = None, *, cells: int | None = None
    ) -> Overview:
        """All heads, pooled to at most `cells` a side (else `limit`), with their statistics."""

    @abstractmethod
    def patch(
        self, asked: Asked, head: int, queries: Span, keys: Span, overview: Overview | None,
        *, relative: bool = False,
    ) -> Patch:  # fmt: skip
        """Exactly a window of one head; `overview`, where it is there, spares a pass."""

    @abstractmethod
    def line(
        self, asked: Asked, head: int, index: int, direction: str, overview: Overview | None
    ) -> tuple[Tensor, Tensor]:
        """One query's weights over the keys, or one key's over the queries; and what is visible."""

    @abstractmethod
    def names(self, asked: Asked) -> Sequence[str] | None:
        """The tokens of what is shown; None where positions are only numbered."""

    @abstractmethod
    def other_causal(self, asked: Asked, head: int, queries: Span, keys: Span) -> Patch | None:
        """The same window as it is with causal turned over; None where there is no q and k."""

    @abstractmethod
    def is_causal(self, item: int) -> bool:
        """Whether the run of a batch item was causal."""

    @abstractmethod
    def streams(
        self, names: tuple[str, ...], heads: tuple[int, ...], items: tuple[int, ...]
    ) -> Sequence[Stream]:
        """The exact tensors, to be written to a file."""

    def size(self, asked: Asked) -> int:
        """Positions of what is shown: without what is hidden."""
        names = self.names(asked)
        return self.time if names is None else len(names)
