"""True = may attend, everywhere; booleans are joined before anything becomes a number."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from mha_core import ConfigError, masks
from tests.core.support import BATCH, HEADS, TIME, TIME_K

LOWEST = torch.finfo(torch.float32).min
T, N = True, False


@given(st.integers(1, 9), st.integers(1, 9))
def test_causal_lets_query_i_see_keys_0_to_i(time_q, time_k):
    expected = [[key <= query for key in range(time_k)] for query in range(time_q)]
    assert masks.causal(time_q, time_k).tolist() == expected


@given(st.integers(1, 9), st.integers(1, 9))
def test_causal_lower_right_pins_the_last_query_to_the_last_key(time_q, time_k):
    late = time_k - time_q
    expected = [[key <= query + late for key in range(time_k)] for query in range(time_q)]
    assert masks.causal(time_q, time_k, align="lower_right").tolist() == expected


def test_causal_has_as_many_keys_as_queries_unless_told():
    assert torch.equal(masks.causal(TIME), torch.ones(TIME, TIME).tril().bool())
    assert masks.causal(TIME).dtype is torch.bool


def test_both_alignments_agree_where_queries_and_keys_are_as_many():
    assert torch.equal(masks.causal(TIME), masks.causal(TIME, align="lower_right"))


def test_an_unknown_alignment_is_refused():
    with pytest.raises(ConfigError, match=r"align='right'.*'upper_left' or 'lower_right'"):
        masks.causal(2, 5, align="right")


def test_padding_hides_the_keys_behind_each_length_and_no_query():
    keep = masks.padding([3, 0], 4)
    assert keep.shape == (2, 1, 1, 4)
    assert keep[:, 0, 0].tolist() == [[T, T, T, N], [N, N, N, N]]


@pytest.mark.parametrize("length", [-1, 5, 2.0, True, "2", None])
def test_a_length_that_is_no_number_of_keys_is_refused(length):
    with pytest.raises(ConfigError, match=r"lengths=.*from 0 to time=4"):
        masks.padding([4, length], 4)


def test_flip_converts_the_polarity_of_torchs_module_both_ways():
    keep = masks.causal(TIME)
    ignore = torch.ones(TIME, TIME).triu(1).bool()  # as nn.MultiheadAttention is given it
    assert torch.equal(masks.flip(keep), ignore)
    assert torch.equal(masks.flip(ignore), keep)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_only_a_boolean_mask_has_a_polarity_to_flip(dtype):
    with pytest.raises(ConfigError, match=f"mask='{dtype}': must be boolean"):
        masks.flip(torch.zeros(2, 2, dtype=dtype))


def test_combining_nothing_is_no_mask():
    assert masks.combine() is None
    assert masks.combine(None, None) is None


def test_one_mask_alone_passes_as_it_is():
    keep, bias = masks.causal(TIME), torch.zeros(TIME, TIME)
    assert masks.combine(None, keep) is keep
    assert masks.combine(bias, None) is bias


def test_booleans_are_joined_with_and():
    joined = masks.combine(masks.causal(4), masks.padding([4, 2], 4))
    assert joined.shape == (2, 1, 4, 4)
    for item, length in enumerate([4, 2]):
        for query in range(4):
            for key in range(4):
                assert joined[item, 0, query, key] == (key <= query and key < length)


def test_a_boolean_hides_from_an_additive_mask_with_minus_infinity():
    keep = torch.tensor([[T, N], [T, T]])
    bias = torch.tensor([[1.5, 2.5], [3.5, -math.inf]])
    expected = torch.tensor([[1.5, -math.inf], [3.5, -math.inf]])
    assert torch.equal(masks.combine(keep, bias), expected)
    assert torch.equal(masks.combine(bias, keep), expected)


def test_the_order_of_masks_does_not_matter():
    parts = [masks.causal(4), torch.linspace(-1, 1, 16).view(4, 4), masks.padding([3, 2], 4)]
    first = masks.combine(*parts)
    for order in ([0, 2, 1], [1, 0, 2], [2, 1, 0]):
        assert torch.equal(masks.combine(*(parts[i] for i in order)), first)


def test_causal_and_padding_joined_as_booleans_never_add_up_to_infinity():
    # As numbers, a key that both hide gets twice the lowest float32, which is -inf.
    by_numbers = torch.zeros(4, 4)
    for part in (masks.causal(4), torch.tensor([T, T, T, N]).expand(4, 4)):
        by_numbers = by_numbers + torch.zeros(4, 4).masked_fill(~part, LOWEST)
    assert by_numbers.isinf().any()

    joined = masks.combine(masks.causal(4), torch.tensor([T, T, T, N]))
    added = masks.Fill(LOWEST).apply(torch.zeros(4, 4), joined)
    assert torch.isfinite(added).all()
    assert torch.equal(added == LOWEST, ~joined)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.complex64])
def test_a_mask_of_integers_is_refused(dtype):
    with pytest.raises(ConfigError, match=f"mask='{dtype}'.*Nearest that works: mask.bool"):
        masks.combine(torch.ones(2, 2, dtype=dtype))


SHAPE = (BATCH, HEADS, TIME, TIME_K)


@pytest.mark.parametrize(
    "shape",
    [
        (),
        (TIME_K,),
        (TIME, 1),
        (TIME, TIME_K),
        (HEADS, 1, TIME_K),
        (BATCH, 1, TIME, TIME_K),
        (BATCH, 1, 1, TIME_K),
        SHAPE,
    ],
)
def test_what_broadcasts_to_the_map_is_accepted(shape):
    masks.check_shape(torch.ones(shape, dtype=torch.bool), SHAPE)


@pytest.mark.parametrize(
    "shape",
    [
        (TIME_K, TIME),
        (TIME, TIME),
        (BATCH, TIME_K),
        (BATCH, TIME, TIME_K),
        (BATCH * HEADS, TIME, TIME_K),
        (7, *SHAPE),
        (1, *SHAPE),
        (0, TIME_K),
    ],
)
def test_what_does_not_broadcast_is_refused_with_both_shapes_and_those_that_work(shape):
    with pytest.raises(ConfigError, match="must broadcast to") as caught:
        masks.check_shape(torch.ones(shape, dtype=torch.bool), SHAPE)
    text = str(caught.value)
    assert str(shape) in text
    assert "(batch, h, Tq, Tk) = (2, 3, 5, 11)" in text
    assert "These work: (5, 11), (2, 1, 5, 11), (2, 1, 1, 11)" in text


def test_only_minus_infinity_hides_in_an_additive_mask():
    bias = torch.tensor([0.0, -1e9, LOWEST, -math.inf, 5.0])
    assert masks.visible(bias).tolist() == [T, T, T, N, T]
    keep = torch.tensor([T, N])
    assert masks.visible(keep) is keep


def test_minus_infinity_replaces_and_a_finite_fill_is_added():
    scores = torch.tensor([[1.0, 2.0, 3.0]])
    keep = torch.tensor([[T, N, T]])
    assert masks.Fill().apply(scores, keep).tolist() == [[1.0, -math.inf, 3.0]]
    assert masks.Fill(-10.0).apply(scores, keep).tolist() == [[1.0, -8.0, 3.0]]


def test_an_additive_mask_is_added_whatever_the_fill():
    scores, bias = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, -math.inf]])
    for fill in (-math.inf, -10.0):
        assert masks.Fill(fill).apply(scores, bias).tolist() == [[1.5, -math.inf]]


def test_a_mask_of_another_precision_keeps_the_scores_precision():
    scores = torch.zeros(2, 2, dtype=torch.float16)
    for bias in (torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.float64)):
        assert masks.Fill().apply(scores, bias).dtype is torch.float16


def test_a_row_without_a_visible_key_is_zeros_and_the_others_are_untouched():
    scores = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    keep = torch.tensor([[N, N, N], [T, T, N]])
    fill = masks.Fill()
    weights = fill.softmax(fill.apply(scores, keep), keep)
    assert weights[0].tolist() == [0, 0, 0]
    assert torch.equal(weights[1, :2], F.softmax(scores[1, :2], -1))
    assert weights[1, 2] == 0


def test_softmax_without_a_mask_is_plain_softmax():
    scores = torch.linspace(-3, 3, 15).view(3, 5)
    assert torch.equal(masks.Fill().softmax(scores, None), scores.softmax(-1))
