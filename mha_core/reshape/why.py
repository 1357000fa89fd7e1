"""Why a step copies or need not: the rule of strides, with the numbers of this tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from mha_core.reshape.ops import Op


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a contiguous tensor: each the product of the sizes after it."""
    return tuple(math.prod(shape[n + 1 :]) for n in range(len(shape)))


def blocking(
    shape: Sequence[int], strides: Sequence[int], new: Sequence[int]
) -> tuple[int, int] | None:
    """The axes that a view would have to merge and cannot; None where a view is possible.

    Two neighbouring axes lie in memory like one if the outer stride is the inner size times the
    inner stride. Where they do not, the new shape must keep a border at the same place (torch
    documentation, Tensor.view). Axes of size 1 have no place in memory and do not count.
    """
    borders = {math.prod(new[n:]) for n in range(len(new) + 1)}
    real = [n for n, size in enumerate(shape) if size > 1]
    for outer, inner in pairwise(real):
        follows = strides[outer] == shape[inner] * strides[inner]
        if not follows and math.prod(shape[inner:]) not in borders:
            return outer, inner
    return None


REGROUPS = (
    "The new axes cut across the old ones: elements that shared an index no longer do. "
    "Check that this is meant."
)


def reason(
    op: Op, shape: tuple[int, ...], strides: tuple[int, ...], names: Sequence[str], *, moved: bool
) -> str:
    """One sentence or two on what a step does to memory.

    Args:
        op: the step.
        shape, strides, names: of the tensor it is called on.
        moved: whether torch made new storage.
    """
    match op.name:
        case "transpose" | "permute":
            return "Sizes and strides change places. No element moves in memory."
        case "unsqueeze" | "squeeze":
            return "An axis of size 1 comes or goes. It never steps, so no element moves."
        case "expand":
            return (
                "Stride 0: every index along an expanded axis reads the same memory. "
                "The elements are many, their bytes are not."
            )
        case "repeat" | "repeat_interleave":
            return (
                "Every element is written as often as it is to stand."
                if moved
                else "One time each: nothing is written anew."
            )
        case "contiguous":
            if moved:
                return (
                    f"The strides {strides} are not those of a row-major {shape}, "
                    f"{row_major(shape)}: torch writes the elements anew, in the order of their "
                    "indices."
                )
            return "It is row-major already: the same tensor comes back."
    return _regrouped(op, shape, strides, names, moved=moved)


def _regrouped(
    op: Op, shape: tuple[int, ...], strides: tuple[int, ...], names: Sequence[str], *, moved: bool
) -> str:
    pair = blocking(shape, strides, op.shape)
    if pair is not None and moved:
        return f"{merging(shape, strides, names, pair)} No stride says that, so torch copies."
    if len(op.shape) > len(shape):
        return "A split of axes: new strides on the same memory, no element moves."
    if len(op.shape) < len(shape):
        return "The merged axes follow each other in memory: one stride does for them."
    return "New sizes and strides on the same memory, no element moves."


def merging(
    shape: Sequence[int], strides: Sequence[int], names: Sequence[str], pair: tuple[int, int]
) -> str:
    """Why two axes do not lie in memory like one, with the numbers."""
    outer, inner = pair
    one, other = (names[n] if names[n] else f"axis {n}" for n in pair)
    wanted = shape[inner] * strides[inner]
    return (
        f"To lie like one axis, {one} must step {shape[inner]} × {strides[inner]} = {wanted:,} "
        f"elements, the size of {other} times its stride; it steps {strides[outer]:,}."
    )
