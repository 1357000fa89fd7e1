"""Scales follow the data: never all dark, 1 is an even spread, masked cells are absent."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, MHAConfig, maps, masks, trace_forward
from mha_core.maps import SCALES, HeadMaps
from tests.core.support import HEADS, TIME, config, randn

VIEWS = [("softmax", scale) for scale in SCALES] + [("scale", "weight"), ("mask", "weight")]


def even(heads, time, causal=True):
    """Equal scores: row i is 1/(i + 1) over keys 0 to i."""
    visible = masks.causal(time).expand(heads, -1, -1) if causal else None
    scores = torch.zeros(heads, time, time)
    if causal:
        scores = scores.masked_fill(~visible, -math.inf)
    return HeadMaps("softmax", scores.softmax(-1), visible)


def spread(places):
    present = places[np.isfinite(places)]
    low, middle, high = np.quantile(present, (0.05, 0.5, 0.95))
    return middle, high - low


@pytest.mark.parametrize("time", [6, 7, 17, 23, 31, 64, 151, 300])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("heads", [1, 4, 16])
def test_no_map_of_seeded_numbers_is_all_dark_or_all_alike(heads, causal, time):
    for seed in range(2):
        made = MHAConfig(batch=1, time=time, d_model=32, heads=heads, causal=causal, seed=seed)
        trace = trace_forward(made, profile=False)
        for step, scale in VIEWS:
            if step not in trace:
                continue
            for limit, how in ((48, "max"), (48, "mean"), (300, "max")):
                _, scaled = maps.scaled(maps.head_maps(trace, step), limit, how, scale)
                middle, width = spread(scaled.unit())
                assert middle > 0.05
                assert width > 0.2


@given(
    st.integers(1, 5),
    st.integers(6, 60),
    st.floats(0.1, 2.0),
    st.booleans(),
    st.sampled_from(SCALES),
    st.integers(0, 2**16),
)
def test_no_map_is_all_dark_however_sharp_the_heads(heads, time, sharpness, causal, scale, seed):
    scores = sharpness * randn(heads, time, time, seed=seed, dtype=torch.float32)
    visible = masks.causal(time).expand(heads, -1, -1) if causal else None
    if causal:
        scores = scores.masked_fill(~visible, -math.inf)
    _, scaled = maps.scaled(HeadMaps("softmax", scores.softmax(-1), visible), 100, scale=scale)
    # The sharpest rows are shares of exp(N(0, 2)), whose median is exp(-2·1.645), a 27th, of
    # their 95th percentile: dim, as it is, but not black.
    assert spread(scaled.unit())[0] > 0.025


@pytest.mark.parametrize("scale", SCALES)
def test_an_even_map_is_at_the_top_of_its_scale_and_not_at_the_bottom(scale):
    _, scaled = maps.scaled(even(2, 40, causal=False), 40, scale=scale)
    assert np.allclose(scaled.unit(), 1.0)


@pytest.mark.parametrize("time", [1, 6, 17, 64, 301])
def test_times_uniform_of_an_even_causal_map_is_one(time):
    relative = maps.relative_to_uniform(even(3, time))
    # 1/n is rounded to float32 and n times it once more: 1, or its neighbour below.
    values = relative.values[relative.visible]
    assert ((values == 1) | (values == 1 - 2**-24)).all()
    assert (values[: 40 * 41 // 2] == 1).all()
    pooled, scaled = maps.scaled(even(3, time), 7, scale="× uniform")
    assert np.allclose(pooled.values[np.isfinite(pooled.values)], 1, atol=1e-6)
    assert "1 = even" in scaled.title


def test_times_uniform_counts_the_keys_that_its_own_query_sees():
    visible = torch.tensor([[[True, False, True], [False, True, False], [True, True, True]]])
    values = torch.tensor([[[0.75, 0, 0.25], [0, 1, 0], [0.5, 0.25, 0.25]]])
    relative = maps.relative_to_uniform(HeadMaps("softmax", values, visible)).values
    assert relative.tolist() == [[[1.5, 0, 0.5], [0, 1, 0], [1.5, 0.75, 0.75]]]
    unmasked = maps.relative_to_uniform(HeadMaps("softmax", values, None)).values
    assert torch.equal(unmasked, values * 3)


@pytest.mark.parametrize(("step", "scale"), VIEWS)
def test_masked_cells_are_absent_on_every_scale(step, scale):
    trace = trace_forward(config(causal=True), mask=masks.padding([TIME, 3], TIME))
    made = maps.head_maps(trace, step, 1)
    _, scaled = maps.scaled(made, TIME, scale=scale)
    hidden = np.zeros((HEADS, TIME, TIME), bool) if step == "scale" else ~made.visible.numpy()
    assert np.array_equal(np.isnan(scaled.values), hidden)
    assert np.array_equal(np.isnan(scaled.unit()), hidden)


@pytest.mark.parametrize("scale", ["weight", "× uniform", "per head"])
def test_weights_start_at_zero(scale):
    _, scaled = maps.scaled(even(HEADS, 9), 9, scale=scale)
    assert (scaled.low == 0).all()
    assert not scaled.diverging


def test_heads_share_one_scale_unless_each_is_asked_for_its_own():
    weights = torch.stack([torch.full((3, 3), 1 / 3), torch.eye(3)])
    made = HeadMaps("softmax", weights, None)
    _, shared = maps.scaled(made, 3)
    _, each = maps.scaled(made, 3, scale="per head")
    assert shared.high.tolist() == [1, 1]
    assert each.high.tolist() == pytest.approx([1 / 3, 1])


def test_scores_are_centred_at_zero():
    values = torch.tensor([[[-3.0, 0.0], [1.5, 2.0]]])
    _, scaled = maps.scaled(HeadMaps("scale", values, None), 2)
    assert scaled.diverging
    assert (scaled.low, scaled.high) == (-3, 3)
    assert scaled.unit().tolist() == [[[0.0, 0.5], [0.75, pytest.approx(5 / 6)]]]


def test_the_log_scale_is_the_logarithm_and_a_weight_of_zero_is_at_its_bottom():
    weights = torch.tensor([[[0.9, 0.1, 0.0], [0.5, 0.49, 0.01], [0.2, 0.2, 0.6]]])
    _, scaled = maps.scaled(HeadMaps("softmax", weights, None), 3, scale="log")
    place = scaled.unit()[0]
    assert scaled.values[0, 0, 1] == pytest.approx(-1)
    assert place[0, 2] == 0
    assert place[0, 0] == 1
    assert np.isfinite(place).all()


def test_outliers_are_clipped_and_said_to_be():
    weights = torch.full((1, 40, 40), 0.01)
    weights[0, :, 0] = 0.6
    _, scaled = maps.scaled(HeadMaps("softmax", weights, None), 40)
    assert scaled.clipped
    assert scaled.high.tolist() == pytest.approx([0.01])
    assert scaled.values.max() == pytest.approx(0.6)  # the value itself is untouched
    _, plain = maps.scaled(even(1, 6, causal=False), 6)
    assert not plain.clipped


@given(st.integers(1, 4), st.integers(1, 40), st.integers(0, 2**16), st.sampled_from(SCALES))
def test_places_are_within_the_scale_and_clipped_is_the_truth(heads, time, seed, scale):
    scores = 3 * randn(heads, time, time, seed=seed, dtype=torch.float32)
    _, scaled = maps.scaled(HeadMaps("softmax", scores.softmax(-1), None), 16, scale=scale)
    place = scaled.unit()
    assert ((place >= 0) & (place <= 1)).all()
    assert (scaled.high > scaled.low).all()
    assert len(scaled.high) == len(scaled.low) == heads
    beyond = (scaled.values > scaled.high[:, None, None] * (1 + 1e-6)).any()
    if scale != "log":
        assert scaled.clipped == beyond


def test_a_map_without_a_visible_cell_has_a_scale_all_the_same():
    hidden = torch.zeros(1, 3, 3, dtype=torch.bool)
    for step, scale in VIEWS:
        _, scaled = maps.scaled(HeadMaps(step, torch.zeros(1, 3, 3), hidden), 3, scale=scale)
        assert np.isnan(scaled.unit()).all()
        assert (scaled.high > scaled.low).all()


def test_a_scale_that_is_not_offered_is_refused_with_those_that_are():
    with pytest.raises(ConfigError, match=r"scale='linear': is not offered\. weight, × uniform"):
        maps.scaled(even(1, 3), 3, scale="linear")
