"""Mistakes that were made in public code with shapes: the right value, and not the wrong one."""

from __future__ import annotations

import pytest
import torch

from mha_core import ConfigError, MHAConfig, MultiHeadAttention, attend, masks, trace_forward
from mha_core.attention import merge, split, swap_time_and_heads
from tests.core.support import close, config, randn, seeded


def test_heads_are_transposed_back_before_they_are_merged():
    # jsbaan/transformer-from-scratch PR#6: reshaping at once mixes positions, in the same shape.
    by_head = torch.arange(8).view(1, 2, 2, 2)
    merged = merge(swap_time_and_heads(by_head))
    assert merged.tolist() == [[[0, 1, 4, 5], [2, 3, 6, 7]]]
    assert by_head.reshape(1, 2, 4).tolist() == [[[0, 1, 2, 3], [4, 5, 6, 7]]]


def test_view_alone_raises_on_the_transposed_context_and_merge_copies():
    # facebookresearch/fairseq#2598.
    context = torch.arange(24).view(1, 2, 3, 4)
    back = swap_time_and_heads(context)
    assert (context.stride(), back.stride()) == ((24, 12, 4, 1), (24, 4, 12, 1))
    assert not back.is_contiguous()
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        back.view(1, 3, 8)
    assert torch.equal(merge(back), back.reshape(1, 3, 8))


@pytest.mark.parametrize(("d_model", "heads", "counts"), [(10, 3, "1, 2, 5, 10"), (13, 2, "1, 13")])
def test_a_width_that_the_heads_do_not_divide_names_both_and_every_count(d_model, heads, counts):
    # pytorch/pytorch#28719: the message named no values.
    for make in (
        lambda: MHAConfig(d_model=d_model, heads=heads),
        lambda: MultiHeadAttention(d_model, heads),
    ):
        with pytest.raises(ConfigError, match=f"d_model={d_model}.*heads={heads}.*{counts}"):
            make()


@pytest.mark.parametrize("heads", [0, -1])
def test_no_heads_or_fewer_are_refused(heads):
    with pytest.raises(ConfigError, match=f"heads={heads}: must be at least 1"):
        MultiHeadAttention(8, heads)


def test_the_batch_comes_first_and_batch_items_never_meet():
    # pytorch/pytorch#122959: with batch == time the wrong axis gives the same shape.
    module = MultiHeadAttention(8, 2, dtype=torch.float64)
    x = randn(4, 4, 8)
    changed = x.clone()
    changed[3] += 5
    assert torch.equal(module(x)[0], module(changed)[0])
    assert not close(module(x)[3], module(changed)[3], 1e-3)
    moved = x.clone()
    moved[0, 3] += 5
    assert not close(module(x)[0, 0], module(moved)[0, 0], 1e-3)


@pytest.mark.parametrize("shape", [(0, 3, 8), (2, 0, 8)])
def test_an_empty_batch_or_time_is_refused_and_never_none(shape):
    # pytorch/pytorch PR#192651: the weights came back as None.
    module = MultiHeadAttention(8, 2).eval()
    with torch.no_grad(), pytest.raises(ConfigError, match="at least one batch item"):
        module(torch.zeros(shape))
    batch, time, _ = shape
    with pytest.raises(ConfigError, match="must be at least 1"):
        MHAConfig(batch=batch, time=time, d_model=8, heads=2)


def test_the_mask_of_a_batch_item_reaches_all_of_its_heads_and_no_others():
    # lsdefine/attention-is-all-you-need-keras#36 and line/lighthouse PR#77: a mask repeated
    # batch-major met scores flattened head-major. Only item 1 has key 2 padded.
    keep = torch.ones(2, 1, 1, 3, dtype=torch.bool)
    keep[1, ..., 2] = False
    weights = trace_forward(config(batch=2, time=3, heads=3), mask=keep).weights
    mass = weights[..., 2].sum(-1)
    assert (mass[0] > 0).all()
    assert (mass[1] == 0).all()


def test_a_mask_repeated_over_batch_and_heads_in_one_axis_is_refused():
    # Either order of repetition has the shape (batch * h, Tq, Tk): only names tell them apart.
    q = randn(2, 3, 5, 7)
    with pytest.raises(ConfigError, match=r"mask=\(6, 5, 5\).*must broadcast to"):
        attend(q, q, q, mask=torch.ones(6, 5, 5, dtype=torch.bool))


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_heads_share_d_model_and_add_no_parameters(heads):
    # pytorch/pytorch#60445.
    module = MultiHeadAttention(64, heads)
    assert sum(parameter.numel() for parameter in module.parameters()) == 16640
    assert module.d_k == 64 // heads


def test_heads_are_blocks_of_columns_and_not_every_hth_column():
    # arogozhnikov/einops#384: "(h d)" is not "(d h)".
    assert split(torch.arange(6).view(1, 1, 6), 2).tolist() == [[[[0, 1, 2], [3, 4, 5]]]]


def test_there_is_a_map_a_head_and_none_is_averaged():
    # pytorch/pytorch#34537: the default was the mean over heads.
    weights = trace_forward(config(batch=2, time=3, heads=7)).weights
    assert weights.shape == (2, 7, 3, 3)
    assert not close(weights[:, 0], weights[:, 1], 1e-3)
    assert close(weights.sum((1, 3)), torch.full((2, 3), 7.0, dtype=torch.float64))


def test_the_weights_need_not_be_square():
    # pytorch/pytorch#27461: bias_k and a zero key add columns.
    q, k = randn(2, 3, 5, 7), randn(2, 3, 7, 7, seed=1)
    keep = torch.cat([masks.causal(5), torch.ones(5, 2, dtype=torch.bool)], dim=1)
    _, weights = attend(q, k, k, mask=keep)
    assert weights.shape == (2, 3, 5, 7)
    assert (weights[..., 0, 1:5] == 0).all()
    assert (weights[..., 0, 5:] > 0).all()


def test_batch_size_changes_the_numbers_only_within_rounding():
    # pytorch/pytorch#34060.
    module = MultiHeadAttention(128, 8)
    x = randn(2, 11, 128, dtype=torch.float32) * 128**0.5
    assert close(module(x)[:1], module(x[:1]), 1e-4)


def test_a_key_bias_alone_never_changes_a_map():
    # huggingface/transformers#999.
    module = seeded(heads=7)
    with torch.no_grad():
        module.W_k.weight.zero_()
        module.W_q.bias.fill_(2.0)
        module.W_k.bias.normal_(generator=torch.Generator().manual_seed(0))
    weights = trace_forward(config(heads=7), module).weights
    assert close(weights, torch.full_like(weights, 1 / 5))


def test_permuting_the_columns_of_q_and_k_alike_leaves_the_maps_and_of_one_alone_does_not():
    # tatsu-lab/stanford_alpaca#227: the order of rows that rotary code expects.
    order = [0, 2, 1, 3]
    q, k = randn(1, 2, 5, 4), randn(1, 2, 5, 4, seed=1)
    weights = attend(q, k, k)[1]
    assert close(attend(q[..., order], k[..., order], k)[1], weights)
    assert not close(attend(q[..., order], k, k)[1], weights, 0.05)
