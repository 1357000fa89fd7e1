"""Maps as they are looked at: which cells are there, and pooling that a plain loop agrees with."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, maps, masks, trace_forward
from mha_core.maps import HeadMaps
from tests.core.support import BATCH, HEADS, TIME, config, randn


def shares(heads, time, seed=0, visible=None):
    """Random weights over the visible keys of each row."""
    scores = randn(heads, time, time, seed=seed, dtype=torch.float32)
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    return HeadMaps("softmax", scores.softmax(-1).nan_to_num(0.0), visible)


def pooled_by_loop(values, visible, factor, how):
    heads, time, _ = values.shape
    blocks = math.ceil(time / factor)
    result = np.full((heads, blocks, blocks), np.nan)
    for head in range(heads):
        for row in range(blocks):
            for column in range(blocks):
                rows = slice(row * factor, (row + 1) * factor)
                columns = slice(column * factor, (column + 1) * factor)
                cells = values[head, rows, columns][visible[head, rows, columns]]
                if cells.size:
                    result[head, row, column] = cells.max() if how == "max" else cells.mean()
    return result


def masks_of(kind, heads, time, seed):
    drawn = randn(heads, time, time, seed=seed + 1) > 0.5
    causal = masks.causal(time).expand(heads, -1, -1)
    return {"none": None, "causal": causal, "random": drawn, "both": drawn & causal}[kind]


@given(
    st.integers(1, 3),
    st.integers(1, 23),
    st.integers(1, 25),
    st.sampled_from(["max", "mean"]),
    st.sampled_from(["none", "causal", "random", "both"]),
    st.integers(0, 2**16),
)
def test_pooling_is_the_max_or_mean_over_the_visible_cells_of_each_block(
    heads, time, limit, how, kind, seed
):
    # Signed values, so that a masked 0 could not pass for a small one.
    visible = masks_of(kind, heads, time, seed)
    values = randn(heads, time, time, seed=seed, dtype=torch.float32) - 3
    pooled = maps.pool(HeadMaps("scale", values, visible), limit, how)

    factor = math.ceil(time / limit)
    everywhere = np.ones((heads, time, time), dtype=bool)
    expected = pooled_by_loop(
        values.numpy().astype(float),
        everywhere if visible is None else visible.numpy(),
        factor,
        how,
    )
    assert (pooled.factor, pooled.how, pooled.time) == (factor, how, time)
    assert pooled.values.dtype == np.float32
    assert max(pooled.values.shape[1:]) <= limit
    np.testing.assert_allclose(pooled.values, expected, rtol=1e-5, atol=1e-6)


def test_a_block_of_masked_cells_alone_is_absent_and_never_zero():
    visible = torch.zeros(1, 4, 4, dtype=torch.bool)
    visible[0, 2:, 2:] = True
    for how in ("max", "mean"):
        pooled = maps.pool(shares(1, 4, visible=visible), 2, how).values
        assert np.isnan(pooled[0]).tolist() == [[True, True], [True, False]]


def test_a_map_within_the_limit_is_exact_to_the_bit():
    made = shares(HEADS, TIME, visible=masks.causal(TIME).expand(HEADS, -1, -1))
    for limit in (TIME, 100):
        pooled = maps.pool(made, limit)
        assert pooled.factor == 1
        assert np.array_equal(pooled.values[:, 4], made.values[:, 4].numpy())
        assert np.isnan(pooled.values[:, 0, 1:]).all()


def test_pooling_leaves_the_maps_as_they_were():
    made = shares(HEADS, 7, visible=masks.causal(7).expand(HEADS, -1, -1))
    before = made.values.clone()
    maps.pool(made, 3)
    maps.pool(made, 7)
    assert torch.equal(made.values, before)


@given(st.integers(1, 40), st.integers(1, 40))
def test_the_centre_of_a_block_is_the_mean_position_of_what_it_covers(time, limit):
    pooled = maps.pool(shares(1, time), limit)
    positions = np.arange(time)
    blocks = [positions[start : start + pooled.factor] for start in range(0, time, pooled.factor)]
    assert pooled.centres().tolist() == [block.mean() for block in blocks]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_maps_are_float32_on_the_cpu_whatever_ran(dtype):
    trace = trace_forward(config(dtype=dtype, causal=True))
    made = maps.head_maps(trace)
    assert made.values.dtype is torch.float32
    assert made.values.device.type == "cpu"
    assert not made.values.requires_grad
    assert maps.pool(made, 3).values.dtype == np.float32
    assert torch.equal(made.values, trace.weights[0].float())


@pytest.mark.parametrize("item", range(BATCH))
@pytest.mark.parametrize("step", ["scores", "scale", "mask", "softmax", "dropout"])
def test_a_map_is_the_tensor_of_its_step_and_batch_item(step, item):
    trace = trace_forward(config(causal=True, dropout=0.3))
    made = maps.head_maps(trace, step, item)
    assert made.values.shape == (HEADS, TIME, TIME)
    assert torch.equal(made.values, trace.tensor(step)[item].float())
    assert made.is_weights == (step in ("softmax", "dropout"))


def test_cells_are_masked_from_the_mask_on():
    trace = trace_forward(config(causal=True))
    assert maps.head_maps(trace, "scores").visible is None
    assert maps.head_maps(trace, "scale").visible is None
    for step in ("mask", "softmax"):
        assert torch.equal(
            maps.head_maps(trace, step).visible, masks.causal(TIME).expand(HEADS, -1, -1)
        )
    assert maps.head_maps(trace_forward(config())).visible is None


def test_every_batch_item_has_the_cells_of_its_own_mask():
    trace = trace_forward(config(), mask=masks.padding([TIME, 2], TIME))
    for item, length in enumerate([TIME, 2]):
        visible = maps.head_maps(trace, "softmax", item).visible
        assert visible.shape == (HEADS, TIME, TIME)
        assert torch.equal(visible[0, 0], torch.arange(TIME) < length)


def test_a_hidden_key_that_a_small_fill_lets_through_is_shown():
    trace = trace_forward(config(causal=True, fill=-2.0, dtype="float32"))
    weights = maps.head_maps(trace)
    assert weights.visible.all()
    assert (maps.pool(weights, TIME).values[:, 0, 1:] > 0).all()
    # The scores keep their mask: what they hold there is the fill.
    assert not maps.head_maps(trace, "mask").visible.all()


def test_a_fill_that_hides_entirely_shows_nothing_there():
    trace = trace_forward(config(causal=True, fill=-1e9, dtype="float32"))
    expected = masks.causal(TIME).expand(HEADS, -1, -1)
    assert torch.equal(maps.head_maps(trace).visible, expected)


def test_a_row_without_keys_shows_as_even_under_a_finite_fill_and_as_absent_without():
    mask = torch.ones(TIME, TIME, dtype=torch.bool)
    mask[2] = False
    textbook = maps.head_maps(trace_forward(config(fill=-1e9, dtype="float32"), mask=mask))
    assert textbook.visible[:, 2].all()
    np.testing.assert_allclose(textbook.values[:, 2], 1 / TIME, rtol=1e-3)
    exact = maps.pool(maps.head_maps(trace_forward(config(), mask=mask)), TIME)
    assert np.isnan(exact.values[:, 2]).all()


@pytest.mark.parametrize("item", [-1, BATCH, 100])
def test_a_batch_item_that_does_not_exist_is_refused_with_those_that_do(item):
    trace = trace_forward(config())
    with pytest.raises(ConfigError, match=f"batch item={item}: must be from 0 to 1"):
        maps.head_maps(trace, "softmax", item)


def test_a_step_that_did_not_run_is_refused():
    with pytest.raises(ConfigError, match="step='dropout': did not run"):
        maps.head_maps(trace_forward(config()), "dropout")
