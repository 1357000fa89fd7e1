"""A tensor that is never held whole: its shape, and its numbers block after block."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.errors import ConfigError, human_bytes
from mha_core.export.metadata import tensor_key
from mha_core.export.selection import Progress

# Bytes written at a time: how often progress is told, and how soon a cancel is heard.
PIECE = 2**22

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_RESERVED = ("metadata", "tokens", "__metadata__")


@dataclass(frozen=True)
class Stream:
    """A tensor on its way to a file.

    Attributes:
        name: of the tensor, as `Selection` has it; spaces are written as "_".
        shape: of the whole tensor, e.g. (batch, h, time, time).
        dtype: float32, float64, bfloat16 or float16.
        blocks: called when the tensor is written; yields consecutive pieces of it in C order, of
            any shape, on the CPU. A block is read before the next is asked for, so that one
            buffer may serve for all.

    Raises:
        ConfigError: a size that is none, or a dtype that is not offered.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    blocks: Callable[[], Iterator[Tensor]]

    def __post_init__(self) -> None:
        if any(not isinstance(size, int) or size < 0 for size in self.shape):
            raise ConfigError("shape", self.shape, "must be sizes of 0 or more")
        if self.dtype not in DTYPES:
            offered = ", ".join(map(str, DTYPES))
            raise ConfigError("dtype", str(self.dtype), "is not offered", works=f"These: {offered}")

    @property
    def key(self) -> str:
        """Name inside a file."""
        return tensor_key(self.name)

    @property
    def count(self) -> int:
        """Numbers in the whole tensor."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor in its own dtype."""
        return self.count * self.dtype.itemsize

    def pieces(self, stored: torch.dtype | None = None) -> Iterator[memoryview]:
        """The bytes of the whole tensor, at most `PIECE` at a time.

        Args:
            stored: dtype to write; None for the tensor's own.

        Raises:
            ValueError: the blocks are not those of this tensor.
        """
        stored = self.dtype if stored is None else stored
        step = max(1, PIECE // stored.itemsize)
        done = 0
        blocks = self.blocks()
        try:
            for block in blocks:
                flat = block.detach().reshape(-1)
                done += flat.numel()
                if block.dtype is not self.dtype or done > self.count:
                    raise self._wrong(done, block.dtype)
                for start in range(0, flat.numel(), step):
                    part = flat[start : start + step].to("cpu", stored)
                    yield part.view(torch.uint8).numpy().data
        finally:
            close = getattr(blocks, "close", None)
            if close is not None:  # a generator: what it holds is let go now, not some time
                close()
        if done < self.count:
            raise self._wrong(done, self.dtype)

    def _wrong(self, count: int, dtype: torch.dtype) -> ValueError:
        return ValueError(
            f"{self.name}: blocks of {dtype} with {count:,} numbers so far do not make "
            f"{self.dtype} {self.shape}, which has {self.count:,}"
        )


def map_stream(
    name: str,
    rows: Callable[[int, int], Iterable[Tensor]],
    *,
    items: Sequence[int],
    heads: Sequence[int],
    time: int,
    dtype: torch.dtype,
) -> Stream:
    """The maps of the selected items and heads as one (items, heads, time, time) tensor.

    Args:
        name: of the tensor: scores, scaled, masked, weights.
        rows: called with a batch item and a head; yields (queries, time) blocks of its map, from
            the first query to the last.
        items, heads: indices, in the order in which they are to stand.
        time: positions.
        dtype: of the blocks.
    """
    shape = (len(items), len(heads), time, time)

    def blocks() -> Iterator[Tensor]:
        for item in items:
            for head in heads:
                yield from rows(item, head)

    return Stream(name, shape, dtype, blocks)


def check_names(streams: Sequence[Stream]) -> None:
    """Refuses names that a file cannot hold side by side.

    Raises:
        ConfigError: no tensor, a name twice, or one that no format takes.
    """
    keys = [stream.key for stream in streams]
    if not keys:
        raise ConfigError("tensors", (), "must name at least one tensor")
    wrong = [key for key in keys if key in _RESERVED or not re.fullmatch(r"[\w.-]+", key)]
    if wrong or len(set(keys)) < len(keys):
        rule = "must be names of letters, digits, _, - and ., each once"
        raise ConfigError("tensors", tuple(keys), rule, works=f"Taken: {', '.join(_RESERVED)}")


class Meter:
    """Bytes written, told as progress; what that raises ends the export."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def add(self, count: int, what: str) -> None:
        self._done += count
        if self._progress is not None:
            share = min(1.0, self._done / max(1, self._total))
            done, total = human_bytes(self._done), human_bytes(self._total)
            self._progress(share, f"{what}: {done} of {total}")

    def whole(self, what: str) -> None:
        """All is written, small records too."""
        self.add(self._total - self._done, what)
