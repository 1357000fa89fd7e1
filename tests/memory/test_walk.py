"""The row-major walk and neighbours, against a walk through the storage, element by element."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given, settings
from torch import Tensor

from mha_core.memory import in_memory, in_tensor, jumps, place_at, unbroken
from tests.memory.support import laid_out, walked


@settings(max_examples=80, deadline=None)
@given(laid_out())
def test_the_jumps_are_those_of_the_walk(tensor: Tensor) -> None:
    offsets = list(walked(tensor).values())  # itertools.product goes row by row
    expected = Counter(after - before for before, after in pairwise(offsets))
    assert jumps(tensor.shape, tensor.stride()) == dict(expected)


@settings(max_examples=80, deadline=None)
@given(laid_out())
def test_the_unbroken_run_is_the_walks(tensor: Tensor) -> None:
    offsets = list(walked(tensor).values())
    run = 1
    while run < len(offsets) and offsets[run] == offsets[0] + run:
        run += 1
    # Axes that happen to fit further on are not promised: a run ends with an axis.
    found = unbroken(tensor.shape, tensor.stride())
    assert offsets[:found] == list(range(offsets[0], offsets[0] + found))
    assert found == run or found < run


def test_a_contiguous_tensor_is_walked_in_order() -> None:
    assert jumps((2, 3, 5), (15, 5, 1)) == {1: 29}
    assert unbroken((2, 3, 5), (15, 5, 1)) == 30


def test_heads_are_walked_a_row_of_d_k_at_a_time() -> None:
    # (batch, h, time, d_k) = (2, 4, 6, 8) after the transpose; counted by hand: in each of
    # 8 heads 5 steps to the next position, 24 on; 6 steps to the next head of the same sequence.
    assert jumps((2, 4, 6, 8), (192, 8, 32, 1)) == {1: 337, 25: 40, -159: 6}
    assert unbroken((2, 4, 6, 8), (192, 8, 32, 1)) == 8


@settings(max_examples=40, deadline=None)
@given(laid_out())
def test_neighbours_are_those_of_the_walk(tensor: Tensor) -> None:
    found = walked(tensor)
    held = {offset: index for index, offset in found.items()}
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    for index, offset in found.items():
        place = place_at(tensor, index)
        beside = {one.by: one for one in in_memory(tensor, place)}
        assert set(beside) == {by for by in (-1, 1) if 0 <= offset + by < count}
        for by, one in beside.items():
            assert one.offset == offset + by
            assert one.index == held.get(offset + by)
            assert one.axis == _axis(index, one.index)
        along = {(one.axis, one.by): one for one in in_tensor(tensor, place)}
        expected = {
            (axis, by): _moved(index, axis, by)
            for axis in range(tensor.dim())
            for by in (-1, 1)
            if _moved(index, axis, by) in found
        }
        assert {at: one.place.index for at, one in along.items()} == expected
        for one in along.values():
            assert one.distance == found[one.place.index] - offset


def _moved(index: tuple[int, ...], axis: int, by: int) -> tuple[int, ...]:
    return tuple(i + by * (n == axis) for n, i in enumerate(index))


def _axis(one: tuple[int, ...], other: tuple[int, ...] | None) -> int | None:
    """The axis of the only step between two indices, by trying all steps."""
    for axis in range(len(one)):
        if other in (_moved(one, axis, 1), _moved(one, axis, -1)):
            return axis
    return None
