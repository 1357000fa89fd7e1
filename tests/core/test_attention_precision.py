"""float32, bfloat16 and float16 against float64 of the same, already rounded, numbers.

A number of the output has passed five matrix products and a softmax, each of which rounds its
result once to the dtype (sums themselves are kept in float32 or better), and later products
average those errors. The result is within a few units in the last place of the largest number:
eight, half of the worst case of every rounding adding up.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from mha_core import attend, masks
from mha_core.inputs import build_module, random_input
from tests.core.support import config, qkv

UNITS = 8
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def relative_error(low, exact):
    return ((low.double() - exact).abs().max() / exact.abs().max()).item()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_module_is_within_a_few_roundings_of_float64(dtype, causal):
    name = str(dtype).removeprefix("torch.")
    module, x = build_module(config(dtype=name)), random_input(config(dtype=name))
    low = module(x, causal=causal)
    exact = module.double()(x.double(), causal=causal)
    assert low.dtype is dtype
    error = relative_error(low, exact)
    assert 0 < error <= UNITS * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_weights_sum_to_one_within_the_rounding_of_their_keys(dtype):
    weights = attend(*qkv(dtype))[1]
    # exp, its sum, the division and the weight are each rounded by at most half a unit of 1.
    error = (weights.double().sum(-1) - 1).abs().max().item()
    assert error <= 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_finite_and_near_those_of_float64(dtype):
    low = [tensor.requires_grad_() for tensor in qkv(dtype)]
    exact = [tensor.detach().double().requires_grad_() for tensor in low]
    for operands in (low, exact):
        attend(*operands, causal=True)[0].sum().backward()
    for one, other in zip(low, exact, strict=True):
        assert one.grad.dtype is dtype
        # Softmax's gradient subtracts nearly equal numbers: four times the error of the output.
        assert relative_error(one.grad, other.grad) <= 4 * UNITS * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_it_is_no_less_exact_than_torchs_fused_attention_up_to_its_own_rounding(dtype):
    q, k, v = qkv(dtype)
    keep = masks.causal(q.shape[2], k.shape[2])
    ours = attend(q, k, v, mask=keep)[0]
    theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
    exact = attend(q.double(), k.double(), v.double(), mask=keep)[0]
    assert relative_error(ours, exact) <= relative_error(theirs, exact) + 4 * torch.finfo(dtype).eps


def test_softmax_of_large_scores_does_not_overflow():
    q = torch.full((1, 1, 2, 4), 1e4)
    output, weights = attend(q, torch.cat([q, -q], dim=2), torch.cat([q, -q], dim=2))
    assert weights.tolist() == [[[[0.5, 0.5, 0, 0]] * 2]]
    assert torch.equal(output, q)
