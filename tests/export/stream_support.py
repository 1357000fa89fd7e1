"""What the stream tests share: tensors with every odd number, cut into blocks, and odd files."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mha_core.export.stream import Stream

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def tensor(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Any bits at all, so NaN of every kind, infinities, -0.0 and subnormal numbers too."""
    bits = BITS[dtype.itemsize]
    info = torch.iinfo(bits)
    drawn = torch.Generator().manual_seed(seed)
    numbers = torch.randint(info.min, info.max, tuple(shape), dtype=bits, generator=drawn)
    return numbers.view(dtype)


def bits(values: Tensor) -> Tensor:
    """The same memory as integers, of which every one equals itself."""
    return values.contiguous().view(BITS[values.dtype.itemsize])


def cut(values: Tensor, sizes: Sequence[int]) -> Iterator[Tensor]:
    """Consecutive pieces in C order, their lengths those of `sizes` over and over."""
    flat, start, turn = values.reshape(-1), 0, 0
    while start < flat.numel():
        stop = min(flat.numel(), start + sizes[turn % len(sizes)])
        yield flat[start:stop]
        start, turn = stop, turn + 1


def stream(name: str, values: Tensor, sizes: Sequence[int] = (7,)) -> Stream:
    return Stream(name, tuple(values.shape), values.dtype, lambda: cut(values, sizes))


class Counted(io.RawIOBase):
    """A file that keeps nothing but its length."""

    def __init__(self) -> None:
        super().__init__()
        self.place = self.length = 0

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        self.place += size
        self.length = max(self.length, self.place)
        return size

    def seek(self, offset: int, whence: int = 0) -> int:
        self.place = offset + (0, self.place, self.length)[whence]
        return self.place

    def tell(self) -> int:
        return self.place


class Full(io.BytesIO):
    """A disk with room for so many bytes."""

    def __init__(self, room: int, number: int = errno.ENOSPC) -> None:
        super().__init__()
        self._room, self._number = room, number

    def write(self, data: object) -> int:
        if self.tell() + memoryview(data).nbytes > self._room:  # type: ignore[arg-type]
            raise OSError(self._number, "refused")
        return super().write(data)  # type: ignore[arg-type]
