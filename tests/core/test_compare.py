"""Two runs: what differs in their settings, and their maps on one scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from mha_core import MHAConfig, maps, masks, trace_forward
from mha_core.compare import changed_fields, map_pair
from tests.core.support import HEADS, TIME, config


def one(made, step="softmax", head=1, mask=None, item=0):
    trace = trace_forward(made, mask=mask, profile=False)
    return maps.head_maps(trace, step, item).head(head)


OPEN, CLOSED = config(dtype="float32"), config(dtype="float32", causal=True, seed=1)


def test_equal_settings_have_no_changed_field():
    assert changed_fields(config(), config()) == {}


def test_the_changed_fields_come_with_both_values_in_the_order_of_the_configuration():
    a, b = MHAConfig(), MHAConfig(time=7, causal=True, seed=3, scale=0.5)
    changed = changed_fields(a, b)
    assert changed == {
        "time": (6, 7),
        "causal": (False, True),
        "seed": (0, 3),
        "scale": (None, 0.5),
    }
    assert list(changed) == [name for name in MHAConfig.__dataclass_fields__ if name in changed]
    assert changed_fields(b, a) == {name: pair[::-1] for name, pair in changed.items()}


@pytest.mark.parametrize("field", MHAConfig.__dataclass_fields__)
def test_every_field_that_differs_is_found(field):
    other = {
        "batch": 3, "time": 7, "d_model": 64, "heads": 8, "causal": True, "dropout": 0.5,
        "bias": False, "dtype": "float64", "device": "cpu", "seed": 9, "scale": 1.0, "fill": -1e4,
    }  # fmt: skip
    changed = changed_fields(MHAConfig(), replace(MHAConfig(), **{field: other[field]}))
    assert list(changed) == ([field] if field != "device" else [])


@pytest.mark.parametrize("step", ["scores", "scale", "softmax"])
def test_the_difference_is_b_minus_a_exactly(step):
    a, b = one(OPEN, step), one(config(dtype="float32", seed=1), step)
    pair = map_pair(a, b, limit=96)
    exact = b.values.numpy() - a.values.numpy()
    np.testing.assert_array_equal(pair.difference.values, exact)
    assert pair.largest == np.abs(exact).max() > 0
    np.testing.assert_array_equal(pair.pooled[0].values, a.values)
    np.testing.assert_array_equal(pair.pooled[1].values, b.values)
    back = map_pair(b, a, limit=96)
    np.testing.assert_array_equal(back.difference.values, -exact)
    assert back.largest == pair.largest


def test_the_difference_is_centred_at_zero_and_reaches_its_largest_value():
    pair = map_pair(one(OPEN), one(CLOSED), limit=96)
    scale = pair.difference
    assert scale.diverging
    np.testing.assert_array_equal(scale.low, -scale.high)
    assert scale.high.tolist() == [np.nanmax(np.abs(scale.values))]
    assert not scale.clipped


def test_a_masked_key_counts_as_the_zero_it_is_and_is_absent_where_both_mask_it():
    later = np.triu(np.ones((TIME, TIME), dtype=bool), 1)
    a, b = one(OPEN), one(CLOSED)
    mixed = map_pair(a, b, limit=96).difference.values[0]
    assert np.isfinite(mixed).all()
    np.testing.assert_array_equal(mixed[later], -a.values.numpy()[0][later])
    both = map_pair(one(config(dtype="float32", causal=True)), b, limit=96)
    np.testing.assert_array_equal(np.isnan(both.difference.values[0]), later)
    assert both.largest == np.nanmax(np.abs(both.difference.values))


def test_a_score_masked_in_one_run_has_no_difference():
    a = one(config(dtype="float32", causal=True), "mask")
    b = one(config(dtype="float32"), "mask", mask=masks.padding([3, 3], TIME))
    pair = map_pair(a, b, limit=96)
    hidden = np.triu(np.ones((TIME, TIME), dtype=bool), 1) | (np.arange(TIME) >= 3)
    np.testing.assert_array_equal(np.isnan(pair.difference.values[0]), hidden)
    np.testing.assert_array_equal(
        pair.difference.values[0][~hidden], (b.values - a.values).numpy()[0][~hidden]
    )
    assert np.isfinite(pair.largest)


def test_maps_of_other_sizes_have_a_scale_in_common_and_no_difference():
    pair = map_pair(one(OPEN), one(config(dtype="float32", time=8)), limit=96)
    assert pair.difference is None
    assert pair.largest is None
    assert [shared.values.shape for shared in pair.shared] == [(1, 5, 5), (1, 8, 8)]
    assert pair.shared[0].high == pair.shared[1].high


@pytest.mark.parametrize("step", ["scores", "softmax"])
@pytest.mark.parametrize("other", [CLOSED, config(dtype="float32", time=9, seed=4)])
def test_both_maps_are_on_one_scale_that_holds_both(step, other):
    a, b = one(OPEN, step), one(other, step)
    first, second = map_pair(a, b, limit=96).shared
    assert first.low.tolist() == second.low.tolist()
    assert first.high.tolist() == second.high.tolist()
    assert first.diverging is second.diverging is (step == "scores")
    assert first.title == second.title
    largest = max(np.nanmax(np.abs(part.values)) for part in (first, second))
    assert first.high[0] == largest or first.clipped
    assert (first.low[0] == -first.high[0]) == (step == "scores")


@pytest.mark.parametrize("how", ["max", "mean"])
def test_pooled_maps_differ_by_their_pooled_values_and_the_largest_stays_exact(how):
    a, b = one(config(dtype="float32", time=64)), one(config(dtype="float32", time=64, seed=1))
    pair = map_pair(a, b, limit=16, how=how)
    assert [pooled.factor for pooled in pair.pooled] == [4, 4]
    np.testing.assert_array_equal(
        pair.difference.values, pair.pooled[1].values - pair.pooled[0].values
    )
    assert pair.largest == float((b.values - a.values).abs().max())


def test_a_run_compared_with_itself_differs_by_nothing():
    pair = map_pair(one(CLOSED), one(CLOSED), limit=96)
    assert pair.largest == 0.0
    assert np.nanmax(np.abs(pair.difference.values)) == 0.0
    # A scale of no width would divide by zero.
    assert pair.difference.high[0] > pair.difference.low[0]
    assert np.isfinite(pair.difference.unit()[~np.isnan(pair.difference.values)]).all()


def test_runs_that_see_no_key_at_all_differ_by_nothing():
    blind = torch.zeros(TIME, TIME, dtype=torch.bool)
    pair = map_pair(one(OPEN, mask=blind), one(OPEN, mask=blind), limit=96)
    assert pair.largest == 0.0
    assert np.isnan(pair.difference.values).all()


def test_heads_are_compared_one_by_one():
    found = [map_pair(one(OPEN, head=h), one(CLOSED, head=h), limit=96) for h in range(HEADS)]
    assert len({pair.largest for pair in found}) == HEADS
