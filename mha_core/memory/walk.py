"""The row-major walk: through a tensor in the order of its indices, and what memory sees of it."""

from __future__ import annotations

from collections.abc import Sequence


def jumps(shape: Sequence[int], strides: Sequence[int]) -> dict[int, int]:
    """Distance between elements that follow each other by index -> how often; in elements.

    A contiguous tensor has one entry, 1. The walk steps along the last axis; where that ends it
    goes back to its start and one step along the axis before, and so on outward.
    """
    found: dict[int, int] = {}
    back = 0  # from the end of the axes within, to their start
    outer = 1
    for size in shape:
        outer *= size
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        outer //= size
        if size > 1:
            distance = stride - back
            found[distance] = found.get(distance, 0) + (size - 1) * outer
        back += (size - 1) * stride
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))


def unbroken(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first on that the walk meets side by side in memory."""
    run = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 1:
            continue
        if stride != run:
            break
        run *= size
    return run
