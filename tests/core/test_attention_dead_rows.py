"""A query without a visible key: zeros in value and in gradient, and no NaN anywhere."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, attend, masks
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, close, qkv, randn, seeded

LENGTHS = (TIME, 0)  # the second batch item is padding alone


def additive(keep):
    return torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -math.inf)


def dead_masks():
    padded = masks.padding(LENGTHS, TIME)
    from_the_left = torch.arange(TIME) >= 2  # with causal, queries 0 and 1 see nothing
    rows = torch.ones(TIME, TIME, dtype=torch.bool)
    rows[3] = False
    one_head = torch.ones(BATCH, HEADS, TIME, TIME, dtype=torch.bool)
    one_head[1, 2, 4] = False
    shapes = {"padding": padded, "left": from_the_left, "row": rows, "one row of a head": one_head}
    return shapes | {f"{name}, additive": additive(keep) for name, keep in shapes.items()}


DEAD = dead_masks()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", DEAD)
def test_weights_and_output_are_zero_there_and_equal_torchs_elsewhere(name, causal):
    q, k, v = randn(BATCH, HEADS, TIME, 7), randn(BATCH, HEADS, TIME, 7, seed=1), randn(2, 3, 5, 13)
    output, weights = attend(q, k, v, mask=DEAD[name], causal=causal)
    keep = masks.visible(DEAD[name])
    if causal:
        keep = keep & masks.causal(TIME)
    keep = keep.expand(weights.shape)
    dead = ~keep.any(-1)

    assert (weights[~keep] == 0).all()
    assert (output[dead] == 0).all()
    assert close(weights.sum(-1), (~dead).double())
    expected = torch.where(keep, q @ k.mT / math.sqrt(7), -math.inf).softmax(-1)
    assert close(weights[~dead], expected[~dead])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", DEAD)
def test_no_gradient_is_nan_even_where_the_loss_reads_the_dead_rows(name, causal):
    module, x = seeded(), randn(BATCH, TIME, D_MODEL).requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        output = module(x, mask=DEAD[name], causal=causal)
        (output * randn(BATCH, TIME, D_MODEL, seed=1)).sum().backward()
    assert torch.isfinite(output).all()
    assert torch.isfinite(x.grad).all()
    for parameter in module.parameters():
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.abs().sum() > 0


@pytest.mark.parametrize("name", ["padding", "padding, additive"])
def test_a_dead_batch_item_sends_nothing_back_and_leaves_the_other_as_it_was(name):
    module, x = seeded(), randn(BATCH, TIME, D_MODEL)
    both, alone = x.clone().requires_grad_(), x[:1].clone().requires_grad_()
    module(both, mask=DEAD[name]).square().sum().backward()
    module(alone).square().sum().backward()
    assert (both.grad[1] == 0).all()
    assert close(both.grad[:1], alone.grad)


def test_the_output_of_a_dead_query_is_the_bias_of_the_last_projection():
    module = seeded()
    output = module(randn(BATCH, TIME, D_MODEL), mask=DEAD["padding"])
    assert close(output[1], module.W_o.bias.expand(TIME, D_MODEL))


@given(st.integers(0, 2**16), st.booleans(), st.booleans())
def test_any_mask_gives_rows_that_sum_to_one_or_to_zero(seed, causal, by_number):
    keep = randn(BATCH, 1, TIME, TIME, seed=seed) > 0.7
    q = randn(BATCH, HEADS, TIME, 7, seed=seed).requires_grad_()
    output, weights = attend(q, q, q, mask=additive(keep) if by_number else keep, causal=causal)
    seen = (keep & masks.causal(TIME)) if causal else keep
    assert close(weights.sum(-1), seen.any(-1).double().expand(BATCH, HEADS, TIME))
    output.sum().backward()
    assert torch.isfinite(q.grad).all()


def test_textbook_code_that_adds_minus_1e9_agrees_where_every_row_sees_a_key():
    q, k, v = qkv(torch.float32)
    keep = randn(BATCH, 1, TIME, k.shape[2], seed=9) > 0
    keep[..., 0] = True
    exact, _ = attend(q, k, v, mask=keep)
    textbook, weights = attend(q, k, v, mask=keep, fill=-1e9)
    assert (weights[~keep.expand(weights.shape)] == 0).all()  # exp(-1e9) underflows
    assert close(exact, textbook, 1e-6)


def test_textbook_code_spreads_a_row_without_keys_over_the_hidden_ones():
    q, k, v = qkv(torch.float32)
    keep = torch.zeros(TIME, k.shape[2], dtype=torch.bool)
    _, weights = attend(q, k, v, mask=keep, fill=-1e9)
    # -1e9 swallows scores near 1: float32 has a step of 64 there.
    assert close(weights, torch.full_like(weights, 1 / k.shape[2]), 1e-6)
    # A fill that does not swallow them leaves the weights as if nothing were hidden.
    _, weights = attend(q, k, v, mask=keep, fill=-8.0)
    assert close(weights, attend(q, k, v)[1], 1e-5)


def test_a_small_fill_leaks():
    # Hidden at score 12 with a fill of -10: 12 - 10 = 2 against 0, exp(2) / (exp(2) + 1) = 0.8808.
    q = torch.tensor([[[[12.0]]]])
    k = torch.tensor([[[[0.0], [1.0]]]])
    keep = torch.tensor([True, False])
    _, weights = attend(q, k, k, mask=keep, fill=-10.0, scale=1.0)
    assert weights[0, 0, 0, 1] == pytest.approx(0.8808, abs=1e-4)
    assert attend(q, k, k, mask=keep, scale=1.0)[1].tolist() == [[[[1.0, 0.0]]]]


def test_float16_cannot_hold_minus_1e9():
    with pytest.raises(ConfigError, match=r"fill=-1000000000\.0: does not fit float16"):
        attend(*qkv(torch.float16), causal=True, fill=-1e9)
    converted = seeded(fill=-1e9).half()
    with pytest.raises(ConfigError, match=r"fill=-1000000000\.0: does not fit float16"):
        converted(torch.zeros(1, 2, D_MODEL).half(), causal=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_lowest_value_as_fill_never_overflows_into_nan(dtype):
    # A score of -62 and the lowest float16 add up to -inf.
    q = torch.full((1, 1, 2, 3), 6.0, dtype=dtype).requires_grad_()
    fill = torch.finfo(dtype).min
    _, weights = attend(q, -q, q, mask=torch.zeros(2, 2, dtype=torch.bool), fill=fill)
    assert weights.tolist() == [[[[0.5, 0.5], [0.5, 0.5]]]]
    weights.sum().backward()
    assert torch.isfinite(q.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_an_additive_mask_too_low_for_the_dtype_hides_like_minus_infinity(dtype):
    q = torch.full((1, 1, 2, 3), 6.0, dtype=dtype).requires_grad_()
    mask = torch.tensor([[-1e300, -1e300], [0.0, -1e300]], dtype=torch.float64)
    output, weights = attend(q, -q, q, mask=mask)
    assert weights.tolist() == [[[[0, 0], [1, 0]]]]
    output.sum().backward()
    assert torch.isfinite(q.grad).all()


@pytest.mark.parametrize("value", [-65504.0, -1e30])
def test_an_additive_row_that_rounds_to_minus_infinity_is_a_dead_row(value):
    q = torch.full((1, 1, 2, 3), 6.0, dtype=torch.float16)
    output, weights = attend(q, -q, q, mask=torch.full((2, 2), value))
    assert torch.isfinite(output).all()
    assert (weights == 0).all()
