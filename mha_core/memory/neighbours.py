"""Which elements are neighbours: in memory, and in the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from mha_core.memory.places import Index, Place, index_at, place_at, stored


@dataclass(frozen=True)
class InMemory:
    """What lies one place before or after an element.

    Attributes:
        by: -1 or +1.
        offset: of it, in elements.
        index: in the tensor; None where the tensor does not show it.
        axis: the axis along which it is the element's neighbour in the tensor too; None where
            it is none.
    """

    by: int
    offset: int
    index: Index | None
    axis: int | None


@dataclass(frozen=True)
class InTensor:
    """What stands one index before or after an element along an axis.

    Attributes:
        axis: of the tensor; by: -1 or +1.
        place: of it.
        distance: from the element in memory, in elements.
    """

    axis: int
    by: int
    place: Place
    distance: int


def in_memory(tensor: Tensor, place: Place) -> list[InMemory]:
    """The elements on either side in memory; fewer at the ends of the storage."""
    found = []
    for by in (-1, 1):
        offset = place.offset + by
        if not 0 <= offset < stored(tensor):
            continue
        index = index_at(tensor, offset)
        found.append(InMemory(by, offset, index, _along(place.index, index)))
    return found


def in_tensor(tensor: Tensor, place: Place) -> list[InTensor]:
    """The elements on either side along every axis; fewer at the edges."""
    found = []
    for axis, size in enumerate(tensor.shape):
        for by in (-1, 1):
            index = list(place.index)
            index[axis] += by
            if 0 <= index[axis] < size:
                other = place_at(tensor, tuple(index))
                found.append(InTensor(axis, by, other, other.offset - place.offset))
    return found


def _along(one: Sequence[int], other: Sequence[int] | None) -> int | None:
    """The axis along which two indices are one apart and on no other; None where there is none."""
    if other is None:
        return None
    apart = [axis for axis, (i, j) in enumerate(zip(one, other, strict=True)) if i != j]
    return apart[0] if len(apart) == 1 and abs(one[apart[0]] - other[apart[0]]) == 1 else None
