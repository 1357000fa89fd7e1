"""When `view` may rename axes without moving a byte, and which stride stands in its way.

The rule is torch's (documentation of `Tensor.view`; computeStride in ATen/TensorUtils.cpp): axes
may be read as one only where a step along each equals all the steps along the next:
stride[i] = stride[i+1] · size[i+1]. Tests hold it against what torch itself allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mha_core.errors import ConfigError


@dataclass(frozen=True)
class Refusal:
    """Why a view cannot be.

    Attributes:
        axis: of the tensor: it cannot be read as one with those after it.
        stride: of that axis.
        needed: what the stride would have to be.
        inner: size and stride of what follows it: needed is their product.
        into: axis of the wanted shape in which they should be one.
    """

    axis: int
    stride: int
    needed: int
    inner: tuple[int, int]
    into: int


def view_strides(
    shape: Sequence[int], strides: Sequence[int], new: Sequence[int]
) -> tuple[int, ...] | Refusal:
    """The strides that `view(*new)` gives, or why torch refuses.

    Args:
        shape, strides: of the tensor, which must not be empty.
        new: the wanted shape, without -1.

    Raises:
        ConfigError: the shapes hold different numbers of elements, or none.
    """
    count = math.prod(shape)
    if count != math.prod(new) or count == 0:
        raise ConfigError("shape", tuple(new), f"must hold the {count} elements of {tuple(shape)}")
    made = [0] * len(new)
    at = len(new) - 1  # the axis of the new shape to be given its stride next
    base = strides[-1] if strides else 1
    size = filled = 1  # of the axes that lie as one, and of the new ones within them
    for axis in reversed(range(len(shape))):
        size *= shape[axis]
        together = axis > 0 and (shape[axis - 1] == 1 or strides[axis - 1] == size * base)
        if together:
            continue
        while at >= 0 and (filled < size or new[at] == 1):
            made[at] = filled * base
            filled *= new[at]
            at -= 1
        if filled != size:
            return Refusal(axis - 1, strides[axis - 1], size * base, (size, base), at + 1)
        if axis > 0:
            base, size, filled = strides[axis - 1], 1, 1
    while at >= 0:  # a tensor of no axes read as axes of size 1
        made[at] = filled * base
        at -= 1
    return tuple(made)
