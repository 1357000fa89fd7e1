"""What is masked in weights that come without their mask, and statistics of oblong maps."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, MHAConfig, trace_forward
from mha_core.attention_maps import effective_keys, given_maps, squared
from mha_core.head_stats import head_stats
from mha_core.maps import HeadMaps, head_maps
from tests.core.support import BATCH, HEADS, TIME, TIME_K, randn

SHAPE = (BATCH, HEADS, TIME, TIME_K)


def weights(*shape):
    return randn(*shape, dtype=torch.float32).softmax(-1)


@pytest.mark.parametrize("item", range(BATCH))
def test_the_mask_of_a_causal_run_is_found_in_its_weights(item):
    trace = trace_forward(MHAConfig(batch=BATCH, time=7, d_model=15, heads=3, causal=True))
    found, known = given_maps(trace.weights, item), head_maps(trace, "softmax", item)
    assert torch.equal(found.values, known.values)
    assert torch.equal(found.visible.expand(3, 7, 7), known.visible)


def test_weights_without_a_zero_have_no_mask():
    assert given_maps(weights(*SHAPE)).visible is None


def test_a_zero_in_one_head_underflowed_and_is_no_mask():
    given_weights = weights(*SHAPE)
    given_weights[0, 1, 2, 3] = 0
    assert given_maps(given_weights).visible is None
    given_weights[0, :, 2, 3] = 0
    hidden = ~given_maps(given_weights).visible
    assert hidden.nonzero().tolist() == [[head, 2, 3] for head in range(HEADS)]
    assert given_maps(given_weights, 1).visible is None


def test_nan_is_absent_and_counts_as_no_weight():
    given_weights = weights(*SHAPE)
    given_weights[1, 2, 3] = torch.nan
    found = given_maps(given_weights, 1)
    assert (~found.visible).nonzero().tolist() == [[2, 3, key] for key in range(TIME_K)]
    assert found.values[2, 3].eq(0).all()
    assert given_weights[1, 2, 3].isnan().all()  # what came in is left alone


def test_a_batch_item_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="batch item=2: must be from 0 to 1"):
        given_maps(weights(*SHAPE), 2)


@given(st.integers(1, 7), st.integers(1, 7))
def test_oblong_maps_are_squared_by_masked_cells(queries, keys):
    values = weights(HEADS, queries, keys)
    found = squared(HeadMaps("softmax", values, None))
    time = max(queries, keys)
    assert found.values.shape == (HEADS, time, time)
    assert torch.equal(found.values[:, :queries, :keys], values)
    if queries != keys:
        assert found.visible[:, :queries, :keys].all()
        assert int(found.visible.sum()) == values.numel()


@given(st.integers(1, 7), st.integers(1, 7))
def test_effective_keys_of_an_even_spread_are_all_the_keys(queries, keys):
    even = torch.full((HEADS, queries, keys), 1 / keys)
    even[1, :, 1:] = 0
    even[1, :, 0] = 1
    found = effective_keys(HeadMaps("softmax", even, None))
    assert found == pytest.approx([keys, 1, keys], rel=1e-5)


def test_effective_keys_are_those_of_the_statistics_and_leave_dead_rows_out():
    values = weights(HEADS, TIME, TIME)
    values[:, 2] = 0
    maps = HeadMaps("softmax", values, None)
    assert effective_keys(maps) == pytest.approx(head_stats(maps).effective_keys, rel=1e-5)
    assert all(math.isfinite(number) for number in effective_keys(maps))
    doubled = HeadMaps("softmax", values * 1.25, None)  # as dropout leaves a row it kept
    assert effective_keys(doubled) == pytest.approx(effective_keys(maps), rel=1e-5)
