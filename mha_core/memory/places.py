"""From an index to a place in memory and back, by the addresses that torch gives."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mha_core.errors import ConfigError

Index = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """Where one element lies.

    Attributes:
        index: in the tensor.
        offset: from the start of the storage, in elements.
        byte: the same in bytes.
    """

    index: Index
    offset: int
    byte: int


def stored(tensor: Tensor) -> int:
    """Elements that the tensor's storage has room for; a view may show fewer."""
    return tensor.untyped_storage().nbytes() // tensor.element_size()


def place_at(tensor: Tensor, index: Index) -> Place:
    """Where the element at an index lies: the distance of its address from the storage's.

    Raises:
        ConfigError: the index has not one number an axis, or leaves the tensor.
    """
    fits = len(index) == tensor.dim() and all(
        0 <= i < size for i, size in zip(index, tensor.shape, strict=True)
    )
    if not fits:
        last = tuple(size - 1 for size in tensor.shape)
        raise ConfigError("index", tuple(index), f"must be within {tuple(tensor.shape)}",
                          works=f"The last element is {last}")  # fmt: skip
    byte = tensor[index].data_ptr() - tensor.untyped_storage().data_ptr()
    return Place(tuple(index), byte // tensor.element_size(), byte)


def index_at(tensor: Tensor, offset: int) -> Index | None:
    """The index of the element that lies at an offset of the storage; None where none does.

    Of a tensor whose elements have places of their own, as all have that were not expanded.
    """
    left = offset - int(tensor.storage_offset())
    index = [0] * tensor.dim()
    # An axis of size 1 is never stepped along: its stride says nothing.
    steps = [
        (stride, axis)
        for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True))
        if size > 1 and stride > 0
    ]
    # The longest stride first, as one counts out a sum in coins.
    for stride, axis in sorted(steps, reverse=True):
        index[axis], left = divmod(left, stride)
    found = tuple(index)
    if left or not all(0 <= i < size for i, size in zip(found, tensor.shape, strict=True)):
        return None
    # The index is a claim; the address that torch gives it is the proof.
    return found if place_at(tensor, found).offset == offset else None
