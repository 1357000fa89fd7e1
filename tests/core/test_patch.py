"""A window of one map: pooling against a naive loop, scales against those of whole maps."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_core import maps
from mha_core.errors import ConfigError
from mha_core.maps import HeadMaps
from mha_core.patch import (
    Patch,
    difference,
    patch_of,
    scaled_pair,
    scaled_patch,
    whole_patch,
)

TIME = 101
SIZES = st.tuples(st.integers(1, 23), st.integers(1, 23))


def window(rows, columns, seed=0, share=0.6):
    """Values, and which of them are visible."""
    made = torch.Generator().manual_seed(seed)
    values = torch.rand(rows, columns, generator=made) - 0.3
    return values, torch.rand(rows, columns, generator=made) < share


def patch(values, visible=None, *, queries=None, keys=None, limit=1000, how="max", time=TIME):
    rows, columns = values.shape
    return patch_of(
        values, visible, queries or (0, rows), keys or (0, columns), limit, how, time=time
    )


def naive(values, visible, limit, how):
    """Cell by cell, in Python's own arithmetic."""
    rows, columns = values.shape
    tall, wide = math.ceil(rows / limit), math.ceil(columns / limit)
    found = []
    for top in range(0, rows, tall):
        line = []
        for left in range(0, columns, wide):
            block = [
                float(values[row, column])
                for row in range(top, min(top + tall, rows))
                for column in range(left, min(left + wide, columns))
                if visible is None or visible[row, column]
            ]
            if not block:
                line.append(math.nan)
            else:
                line.append(max(block) if how == "max" else math.fsum(block) / len(block))
        found.append(line)
    return np.array(found)


@settings(deadline=None, max_examples=120)
@given(SIZES, st.integers(1, 25), st.sampled_from(["max", "mean"]), st.integers(0, 9))
def test_each_cell_is_the_max_or_mean_of_what_is_visible_in_it(size, limit, how, seed):
    values, visible = window(*size, seed=seed, share=(0.1, 0.5, 0.9)[seed % 3])
    for seen in (visible, None):
        found = patch(values, seen, limit=limit, how=how)
        assert max(found.values.shape) <= limit
        assert found.values.dtype == np.float32
        np.testing.assert_allclose(
            found.values, naive(values, seen, limit, how), rtol=2e-6, atol=1e-7
        )
        assert found.values.shape == (len(found.rows()), len(found.columns()))


@pytest.mark.parametrize("how", ["max", "mean"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_any_floating_dtype_is_pooled_and_shown_in_float32(dtype, how):
    values, visible = window(13, 7)
    found = patch(values.to(dtype), visible, limit=4, how=how)
    assert found.values.dtype == np.float32
    expected = naive(values.to(dtype).double(), visible, 4, how)
    np.testing.assert_allclose(
        found.values, expected, rtol=1e-6 if dtype == torch.float64 else 0.02
    )


@pytest.mark.parametrize("how", ["max", "mean"])
def test_a_square_window_is_pooled_as_a_whole_map_is(how):
    values, visible = window(37, 37)
    pooled = maps.pool(HeadMaps("softmax", values[None], visible[None]), 10, how)
    found = patch(values, visible, limit=10, how=how, time=37)
    np.testing.assert_array_equal(found.values, pooled.values[0])
    again = whole_patch(pooled, 0)
    np.testing.assert_array_equal(again.values, found.values)
    assert again.whole
    assert (again.queries, again.keys, again.factors) == (found.queries, found.keys, found.factors)


def test_few_queries_against_many_keys_keep_every_query():
    values, visible = window(5, 90)
    found = patch(values, visible, queries=(20, 25), keys=(3, 93), limit=30)
    assert found.factors == (1, 3)
    assert found.rows() == [(20, 21), (21, 22), (22, 23), (23, 24), (24, 25)]
    assert found.columns()[0] == (3, 6)
    assert found.columns()[-1] == (90, 93)
    assert not found.exact
    assert not found.whole


def test_values_that_fit_come_bit_for_bit():
    values, visible = window(11, 6)
    found = patch(values, visible, limit=11)
    assert found.exact
    there = visible.numpy()
    np.testing.assert_array_equal(found.values[there], values.numpy()[there])
    assert np.isnan(found.values[~there]).all()


def test_what_was_given_is_left_as_it_was():
    values, visible = window(6, 6)
    before = values.clone()
    patch(values, visible, limit=6)
    patch(values, visible, limit=2)
    assert torch.equal(values, before)


def test_a_box_of_cells_is_a_box_of_positions():
    values, _ = window(50, 91)
    found = patch(values, queries=(10, 60), keys=(5, 96), limit=10)  # 5 and 10 a cell
    assert found.within((1, 3), (0, 2)) == ((15, 25), (5, 25))
    assert found.within((9, 10), (9, 10)) == ((55, 60), (95, 96))  # the last column has one key
    assert found.within((0, 10), (0, 10)) == ((10, 60), (5, 96))


@settings(deadline=None, max_examples=60)
@given(SIZES, st.integers(1, 25))
def test_rows_and_columns_cover_the_window_once(size, limit):
    values, _ = window(*size)
    found = patch(values, queries=(3, 3 + size[0]), keys=(7, 7 + size[1]), limit=limit)
    for spans, (start, stop) in ((found.rows(), found.queries), (found.columns(), found.keys)):
        covered = [place for a, b in spans for place in range(a, b)]
        assert covered == list(range(start, stop))


@pytest.mark.parametrize(
    ("rows", "columns"), [((2, 2), (0, 1)), ((3, 1), (0, 1)), ((0, 1), (0, 9)), ((-1, 1), (0, 1))]
)
def test_a_box_that_is_empty_reversed_or_outside_is_refused(rows, columns):
    found = patch(window(4, 4)[0])
    with pytest.raises(ConfigError, match="must be a range of cells within 0 to 4"):
        found.within(rows, columns)


@pytest.mark.parametrize("span", [(0, 0), (4, 2), (-1, 3), (99, 102)])
def test_a_window_that_is_empty_reversed_or_outside_is_refused(span):
    values, _ = window(max(1, span[1] - span[0]), 4)
    with pytest.raises(ConfigError, match=r"queries=.*must be a range within 0 to 101"):
        patch(values, queries=span, keys=(0, 4))
    with pytest.raises(ConfigError, match=r"keys=.*must be a range within 0 to 101"):
        patch(values.T, queries=(0, 4), keys=span)


def test_values_and_masks_of_another_shape_are_refused():
    values, visible = window(4, 5)
    with pytest.raises(ConfigError, match=r"\(4, 5\).*must be of shape \(5, 4\)"):
        patch(values, queries=(0, 5), keys=(0, 4))
    with pytest.raises(ConfigError, match=r"\(4, 4\).*must be of shape \(4, 5\)"):
        patch(values, visible[:, :4])
    with pytest.raises(ConfigError, match="limit=0"):
        patch(values, limit=0)


# --- scales -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", maps.SCALES)
def test_a_whole_map_has_the_scale_that_maps_has(scale):
    values = torch.softmax(3 * window(29, 29)[0], -1).tril()
    visible = torch.ones(29, 29, dtype=torch.bool).tril()
    one = HeadMaps("softmax", values[None], visible[None])
    pooled, expected = maps.scaled(one, 29, "max", scale)
    made, found = scaled_patch(
        patch(values, visible, time=29), scale, seen=torch.arange(1, 30) if "×" in scale else None
    )
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.high, expected.high)
    assert (found.title, found.clipped) == (expected.title, expected.clipped)
    np.testing.assert_array_equal(made.values, pooled.values[0])


def test_scores_have_a_scale_centred_at_0_whatever_is_chosen():
    values, visible = window(9, 30)
    for scale in maps.SCALES:
        made, found = scaled_patch(patch(values, visible), scale, weights=False, seen=30)
        assert found.diverging
        assert found.low[0] == -found.high[0]
        np.testing.assert_array_equal(made.values, patch(values, visible).values)


def test_an_even_spread_is_1_in_a_window_too():
    seen = torch.arange(41, 51)
    values = (1 / seen.float())[:, None].expand(10, 20)
    _, found = scaled_patch(patch(values, queries=(40, 50)), "× uniform", seen=seen)
    np.testing.assert_allclose(found.values, 1, rtol=1e-6)
    # One number for all of them: nothing is masked.
    _, found = scaled_patch(patch(torch.full((10, 20), 1 / 64)), "× uniform", seen=64)
    np.testing.assert_array_equal(found.values, 1)


def test_keys_that_differ_within_a_row_must_be_multiplied_before_pooling():
    seen = torch.arange(1, 11)
    values = (1 / seen.float())[:, None].expand(10, 10)
    with pytest.raises(ConfigError, match="Pool the weights times the keys their queries see"):
        scaled_patch(patch(values, limit=5), "× uniform", seen=seen)
    products = patch(values * seen[:, None], limit=5)
    _, found = scaled_patch(products, "× uniform")
    np.testing.assert_allclose(found.values, 1, rtol=1e-6)
    assert "visible keys" in found.title
    # Equal within each row: exact.
    pairs = torch.tensor([3, 3, 5, 5, 7, 7, 9, 9, 2, 2])
    made, _ = scaled_patch(patch(values, limit=5), "× uniform", seen=pairs)
    np.testing.assert_allclose(made.values[1], 5 / 3, rtol=1e-6)


def test_a_count_of_keys_for_other_queries_is_refused():
    with pytest.raises(ConfigError, match="one for each of the 10 queries"):
        scaled_patch(patch(window(10, 10)[0]), "× uniform", seen=[1, 2, 3])
    with pytest.raises(ConfigError, match="is not offered"):
        scaled_patch(patch(window(10, 10)[0]), "loud")


def test_two_patches_on_one_scale_have_the_same_ends():
    a, b = patch(window(6, 9)[0].abs()), patch(5 * window(20, 4)[0].abs())
    first, second = scaled_pair(a, b)
    assert first.high[0] == second.high[0] >= np.quantile(b.values, 0.9)
    first, second = scaled_pair(a, b, weights=False)
    assert first.low[0] == second.low[0] == -first.high[0]


# --- differences --------------------------------------------------------------------------------


def test_a_difference_is_b_less_a_and_centred():
    a, b = (patch(window(7, 9, seed)[0]) for seed in (1, 2))
    made, found = difference(a, b)
    np.testing.assert_array_equal(made.values, b.values - a.values)
    largest = np.abs(b.values - a.values).max()
    assert found.high[0] == -found.low[0] == largest
    assert found.diverging
    assert found.unit()[0].min() >= 0
    back, _ = difference(b, a)
    np.testing.assert_array_equal(back.values, -made.values)


def test_a_masked_weight_counts_as_0_and_a_masked_score_as_none():
    values, _ = window(4, 4)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    a, b = patch(values), patch(2 * values, causal)
    made, _ = difference(a, b)
    expected = np.where(causal, values, -values)
    np.testing.assert_allclose(made.values, expected, rtol=1e-6)
    made, _ = difference(a, b, weights=False)
    assert np.array_equal(np.isnan(made.values), ~causal.numpy())
    made, _ = difference(patch(values, causal), b)
    assert np.array_equal(np.isnan(made.values), ~causal.numpy())


def test_equal_patches_differ_by_0_on_a_scale_that_exists():
    a = patch(window(5, 5)[0])
    made, found = difference(a, a)
    assert (made.values == 0).all()
    assert found.high[0] == 1
    np.testing.assert_array_equal(found.unit(), 0.5)
    gone = patch(window(5, 5)[0], torch.zeros(5, 5, dtype=torch.bool))
    assert np.isnan(difference(gone, gone)[0].values).all()


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("queries", {"queries": (1, 9)}),
        ("keys", {"keys": (2, 10)}),
        ("factors", {"limit": 4}),
        ("how", {"how": "mean"}),
        ("time", {"time": 102}),
    ],
)
def test_patches_of_different_windows_have_no_difference(name, other):
    values, _ = window(8, 8)
    with pytest.raises(ConfigError, match=f"{name}=.*must be as in A"):
        difference(patch(values), patch(values, **other))


def test_a_patch_says_what_it_covers():
    made = Patch(np.zeros((2, 3), np.float32), (0, 2), (0, 3), (1, 1), "max", 3)
    assert made.exact
    assert not made.whole
