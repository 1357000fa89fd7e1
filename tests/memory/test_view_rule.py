"""The rule of `view`, against what torch allows, strides and all."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.memory import Refusal, view_strides
from tests.memory.support import laid_out


@st.composite
def wanted(draw: st.DrawFn) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor, and some shape of as many elements: axes of it joined, split and joined anew."""
    tensor = draw(laid_out())
    left, shape = math.prod(tensor.shape), []
    while left > 1 and len(shape) < 4:
        size = draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0]))
        shape.append(size)
        left //= size
    return tensor, (*shape, left)


@settings(max_examples=300, deadline=None)
@given(wanted())
def test_it_allows_what_torch_allows(case: tuple[Tensor, tuple[int, ...]]) -> None:
    tensor, shape = case
    found = view_strides(tensor.shape, tensor.stride(), shape)
    try:
        expected: tuple[int, ...] | None = tensor.view(shape).stride()
    except RuntimeError:
        expected = None
    assert (None if isinstance(found, Refusal) else found) == expected


@settings(max_examples=150, deadline=None)
@given(wanted())
def test_the_stride_it_names_is_the_one_in_the_way(case: tuple[Tensor, tuple[int, ...]]) -> None:
    tensor, shape = case
    found = view_strides(tensor.shape, tensor.stride(), shape)
    if not isinstance(found, Refusal):
        return
    assert tensor.stride(found.axis) == found.stride != found.needed
    assert found.needed == math.prod(found.inner)
    # With that stride mended, what is left of the trouble is further out.
    mended = list(tensor.stride())
    mended[found.axis] = found.needed
    again = view_strides(tensor.shape, mended, shape)
    assert not isinstance(again, Refusal) or again.axis < found.axis


def test_view_after_transpose_by_hand() -> None:
    # (2, 4, 6, 8) contiguous, transposed: h steps by 6 · 8, but a d_model axis needs 8.
    assert view_strides((2, 6, 4, 8), (192, 8, 48, 1), (2, 6, 32)) == Refusal(2, 48, 8, (8, 1), 2)


def test_one_head_may_be_viewed() -> None:
    out = torch.zeros(2, 1, 6, 8).transpose(1, 2)
    assert view_strides(out.shape, out.stride(), (2, 6, 8)) == out.view(2, 6, 8).stride()


def test_a_number_without_axes_has_any_axes_of_size_one() -> None:
    assert view_strides((), (), (1, 1)) == torch.zeros(()).view(1, 1).stride()


@pytest.mark.parametrize("new", [(5,), (0, 3), (2, 4)])
def test_another_number_of_elements_is_refused(new: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"must hold the 6 elements of \(2, 3\)"):
        view_strides((2, 3), (3, 1), new)
