"""From an index to a place and back, against numbers written into the storage itself."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.memory import index_at, place_at, stored
from tests.memory.support import laid_out, walked


@settings(max_examples=60, deadline=None)
@given(laid_out())
def test_every_element_is_found_where_it_lies(tensor: Tensor) -> None:
    for index, offset in walked(tensor).items():
        place = place_at(tensor, index)
        assert (place.index, place.offset, place.byte) == (index, offset, 8 * offset)
        assert index_at(tensor, offset) == index


@settings(max_examples=60, deadline=None)
@given(laid_out())
def test_what_the_tensor_does_not_show_is_not_found_in_it(tensor: Tensor) -> None:
    shown = set(walked(tensor).values())
    assert len(shown) == math.prod(tensor.shape)
    for offset in range(-2, stored(tensor) + 3):
        assert (index_at(tensor, offset) is None) == (offset not in shown)


def test_a_half_takes_two_bytes() -> None:
    tensor = torch.zeros(3, 5, dtype=torch.float16).t()
    assert stored(tensor) == 15
    assert place_at(tensor, (4, 1)).byte == 2 * (1 * 5 + 4)


@pytest.mark.parametrize("index", [(0,), (0, 0, 0), (3, 0), (0, -1)])
def test_an_index_outside_is_refused(index: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"index=.*: must be within \(3, 5\).*\(2, 4\)"):
        place_at(torch.zeros(3, 5), index)
