"""The module and `attend` against torch's own, against numpy, and against separate heads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from mha_core import ConfigError, MultiHeadAttention, attend, masks
from mha_core.attention import merge, split, swap_time_and_heads
from tests.core.support import (
    BATCH,
    D_K,
    D_MODEL,
    D_V,
    HEADS,
    TIME,
    TIME_K,
    close,
    numpy_attention,
    qkv,
    randn,
    seeded,
    torch_twin,
)

LENGTHS = (TIME, 3)  # no row without a visible key: torch's module gives NaN there
QKV = [f"W_{letter}" for letter in "qkv"]


def weights_of(module, x, **options):
    seen = {}

    def observe(step, tensor):
        seen[step] = tensor
        return tensor

    module(x, observe=observe, **options)
    return seen["softmax"]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_output_weights_and_every_gradient_equal_torchs_module(causal, padded, bias):
    module = seeded(bias=bias)
    twin = torch_twin(module)  # in training mode, so that it takes no fused path
    x, probe = randn(BATCH, TIME, D_MODEL, seed=4), randn(BATCH, TIME, D_MODEL, seed=5)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    keep = masks.padding(LENGTHS, TIME) if padded else None

    output = module(ours, causal=causal, mask=keep)
    # The opposite polarity: True = ignore.
    expected, expected_weights = twin(
        theirs,
        theirs,
        theirs,
        attn_mask=masks.flip(masks.causal(TIME)) if causal else None,
        key_padding_mask=masks.flip(keep[:, 0, 0]) if padded else None,
        average_attn_weights=False,
    )
    assert expected_weights.shape == (BATCH, HEADS, TIME, TIME)
    assert close(output, expected)
    assert close(weights_of(module, x, causal=causal, mask=keep), expected_weights)

    (output * probe).sum().backward()
    (expected * probe).sum().backward()
    assert close(ours.grad, theirs.grad)
    for name, grad in zip(QKV, twin.in_proj_weight.grad.chunk(3), strict=True):
        assert close(getattr(module, name).weight.grad, grad)
    assert close(module.W_o.weight.grad, twin.out_proj.weight.grad)
    if bias:
        for name, grad in zip(QKV, twin.in_proj_bias.grad.chunk(3), strict=True):
            assert close(getattr(module, name).bias.grad, grad)
        assert close(module.W_o.bias.grad, twin.out_proj.bias.grad)


def fused_mask(kind):
    keep = torch.rand(BATCH, HEADS, TIME, TIME_K, generator=torch.Generator().manual_seed(6)) > 0.4
    return {
        "none": None,
        "boolean": keep,
        "boolean a head": keep[:1],
        "additive": randn(BATCH, 1, TIME, TIME_K, seed=7),
        "additive with -inf": randn(TIME, TIME_K, seed=8).masked_fill(~keep[0, 0], -math.inf),
    }[kind]


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize(
    "kind", ["none", "boolean", "boolean a head", "additive", "additive with -inf"]
)
def test_attend_equals_torchs_fused_attention_under_every_mask(kind, scale):
    q, k, v = qkv()
    mask = fused_mask(kind)
    output, weights = attend(q, k, v, mask=mask, scale=scale)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
    assert output.shape == (BATCH, HEADS, TIME, D_V)
    assert weights.shape == (BATCH, HEADS, TIME, TIME_K)
    assert close(output, expected)


@pytest.mark.parametrize(("time_q", "time_k"), [(2, 5), (5, 2), (7, 7), (1, 11), (11, 1)])
def test_causal_attend_aligns_upper_left_as_torchs_is_causal(time_q, time_k):
    q, k, v = randn(2, 3, time_q, 7), randn(2, 3, time_k, 7, seed=1), randn(2, 3, time_k, 13)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert close(attend(q, k, v, causal=True)[0], expected)


@given(
    st.tuples(*[st.integers(1, 5)] * 6),
    st.integers(0, 2**16),
    st.sampled_from(["none", "causal", "mask"]),
)
def test_attend_equals_torchs_fused_attention_on_every_shape(sizes, seed, kind):
    batch, heads, time_q, time_k, d_k, d_v = sizes
    q = randn(batch, heads, time_q, d_k, seed=seed)
    k = randn(batch, heads, time_k, d_k, seed=seed + 1)
    v = randn(batch, heads, time_k, d_v, seed=seed + 2)
    mask = randn(batch, heads, time_q, time_k, seed=seed + 3) > 0 if kind == "mask" else None
    output, weights = attend(q, k, v, causal=kind == "causal", mask=mask)
    # torch gives zeros, too, where a row has no visible key.
    expected = F.scaled_dot_product_attention(
        q, k, v, is_causal=kind == "causal", attn_mask=mask
    )  # fmt: skip
    assert close(output, expected)
    alive = torch.ones(time_q) if mask is None else mask.any(-1).double()
    assert close(weights.sum(-1), alive.expand(batch, heads, time_q).double())


@pytest.mark.parametrize("causal", [True, False])
def test_every_head_is_attention_with_its_own_columns_of_the_flat_matrices(causal):
    module, x = seeded(), randn(BATCH, TIME, D_MODEL)
    weights = weights_of(module, x, causal=causal)
    keep = np.tril(np.ones((TIME, TIME), dtype=bool)) if causal else None

    joined = np.empty((BATCH, TIME, D_MODEL))
    for item in range(BATCH):
        for head in range(HEADS):
            mine = slice(head * D_K, (head + 1) * D_K)
            q, k, v = (
                x[item].numpy() @ layer.weight.detach().numpy()[mine].T
                + layer.bias.detach().numpy()[mine]
                for layer in (module.W_q, module.W_k, module.W_v)
            )
            assert q.shape == (TIME, D_K)
            output, expected = numpy_attention(q, k, v, keep)
            np.testing.assert_allclose(weights[item, head].detach(), expected, atol=1e-12)
            joined[item, :, mine] = output
    mixed = joined @ module.W_o.weight.detach().numpy().T + module.W_o.bias.detach().numpy()
    np.testing.assert_allclose(module(x, causal=causal).detach(), mixed, rtol=0, atol=1e-12)


def test_a_tiny_example_gives_the_values_computed_by_hand():
    # d_k = 4, so that 1/sqrt(d_k) is 1/2 exactly. q meets k as ln 9, 0: scores 2 ln 3, 0;
    # scaled ln 3, 0; softmax 3/4, 1/4; output 3/4 (8, 4, 0) + 1/4 (0, 8, 16).
    q = torch.tensor([[[[2 * math.log(3), 0, 0, 0]]]], dtype=torch.float64)
    k = torch.tensor([[[[1, 0, 5, 0], [0, 1, 0, 5]]]], dtype=torch.float64)
    v = torch.tensor([[[[8, 4, 0], [0, 8, 16]]]], dtype=torch.float64)
    output, weights = attend(q, k, v)
    assert close(weights, torch.tensor([[[[0.75, 0.25]]]], dtype=torch.float64), 1e-15)
    assert close(output, torch.tensor([[[[6.0, 5.0, 4.0]]]], dtype=torch.float64), 1e-14)


def test_a_whole_module_gives_the_values_computed_by_hand():
    # Identity projections but for the values, which are doubled; every query is 0, so that the
    # weights are even, and the bias of the output is 1.
    module = MultiHeadAttention(d_model=4, heads=2, dtype=torch.float64)
    with torch.no_grad():
        for layer, factor in ((module.W_q, 0), (module.W_k, 1), (module.W_v, 2), (module.W_o, 1)):
            layer.weight.copy_(factor * torch.eye(4))
            layer.bias.fill_(1.0 if layer is module.W_o else 0.0)
    x = torch.tensor([[[1, 2, 3, 4], [3, 4, 5, 6], [8, 6, 1, -4]]], dtype=torch.float64)
    assert module(x).tolist() == [[[9, 9, 7, 5]] * 3]
    assert module(x, causal=True).tolist() == [[[3, 5, 7, 9], [5, 7, 9, 11], [9, 9, 7, 5]]]


def test_split_swap_and_merge_are_inverse_and_move_what_they_say():
    x = torch.arange(BATCH * TIME * D_MODEL).view(BATCH, TIME, D_MODEL)
    by_head = swap_time_and_heads(split(x, HEADS))
    for b, t, h, j in ((0, 0, 0, 0), (1, 4, 2, 6), (1, 2, 1, 3)):
        assert by_head[b, h, t, j] == x[b, t, h * D_K + j]
    assert by_head.data_ptr() == x.data_ptr()
    assert torch.equal(merge(swap_time_and_heads(by_head)), x)


def test_an_input_that_is_not_contiguous_gives_the_same_numbers():
    module, x = seeded(), randn(TIME, BATCH, D_MODEL).transpose(0, 1)
    assert not x.is_contiguous()
    assert close(module(x), module(x.contiguous()))


@pytest.mark.parametrize(
    ("shape", "rule"),
    [
        ((TIME, D_MODEL), "batch, time, d_model"),
        ((BATCH, TIME, D_MODEL + 1), "with d_model=21"),
        ((BATCH, D_MODEL, TIME), "with d_model=21"),
        ((1, BATCH, TIME, D_MODEL), "batch, time, d_model"),
        ((0, TIME, D_MODEL), "at least one batch item and one position"),
        ((BATCH, 0, D_MODEL), "at least one batch item and one position"),
    ],
)
def test_an_input_of_another_shape_is_refused_with_its_shape(shape, rule):
    with pytest.raises(ConfigError, match=rule) as caught:
        seeded()(torch.zeros(shape, dtype=torch.float64))
    assert caught.value.value == shape


@pytest.mark.parametrize(
    ("name", "index", "shape", "works"),
    [
        ("q", 0, (BATCH, TIME, D_K), ""),
        ("k", 1, (BATCH, HEADS, TIME_K, D_K + 1), "(2, 3, 11, 7)"),
        ("k", 1, (BATCH, 1, TIME_K, D_K), "(2, 3, 11, 7)"),
        ("v", 2, (BATCH, HEADS, TIME, D_V), "(2, 3, 11, 13)"),
        ("v", 2, (BATCH + 1, HEADS, TIME_K, D_V), "(2, 3, 11, 13)"),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_the_shape_that_does(name, index, shape, works):
    operands = list(qkv())
    operands[index] = torch.zeros(shape, dtype=torch.float64)
    with pytest.raises(ConfigError, match="must have") as caught:
        attend(*operands)
    assert (caught.value.field, caught.value.value) == (name, shape)
    assert works in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [("dropout", 1.0), ("dropout", math.nan), ("scale", math.nan), ("fill", 1.0), ("fill", 0)],
)
def test_a_value_out_of_range_is_refused_by_attend_and_by_the_module(field, value):
    with pytest.raises(ConfigError, match=f"{field}="):
        attend(*qkv(), **{field: value})
    with pytest.raises(ConfigError, match=f"{field}="):
        MultiHeadAttention(D_MODEL, HEADS, **{field: value})


@pytest.mark.parametrize(
    ("d_model", "heads", "field"),
    [(D_MODEL, 2, "d_model"), (0, 1, "d_model"), (D_MODEL, 0, "heads"), (D_MODEL, 3.0, "heads")],
)
def test_the_module_refuses_sizes_as_the_configuration_does(d_model, heads, field):
    with pytest.raises(ConfigError, match=f"{field}=.*Nearest that work"):
        MultiHeadAttention(d_model, heads)
