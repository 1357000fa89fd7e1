"""What attention is, whatever the sizes: permutations, identities and what a position can see."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import attend
from mha_core.inputs import build_module, random_input
from tests.core.support import close, configs, randn

exact = configs(dtype="float64")
seeds = st.integers(0, 2**16)


def run(config, module=None, x=None, **options):
    """The output and the weights of the configuration's forward."""
    seen = {}

    def observe(step, tensor):
        seen[step] = tensor
        return tensor

    module = build_module(config) if module is None else module
    x = random_input(config) if x is None else x
    output = module(x, causal=config.causal, observe=observe, **options)
    return output.detach(), seen["softmax"].detach()


def shuffled(count, seed):
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))


@given(configs(dtype="float64", causal=False), seeds)
def test_permuting_positions_permutes_the_output_and_both_axes_of_the_weights(config, seed):
    order = shuffled(config.time, seed)
    output, weights = run(config)
    moved, moved_weights = run(config, x=random_input(config)[:, order])
    assert close(moved, output[:, order])
    assert close(moved_weights, weights[:, :, order][..., order])


@given(exact, seeds)
def test_permuting_the_batch_permutes_the_output(config, seed):
    order = shuffled(config.batch, seed)
    output, weights = run(config)
    moved, moved_weights = run(config, x=random_input(config)[order])
    assert close(moved, output[order])
    assert close(moved_weights, weights[order])


@given(exact, seeds)
def test_permuting_the_heads_with_their_columns_leaves_the_output(config, seed):
    order = shuffled(config.heads, seed)
    columns = torch.arange(config.d_model).view(config.heads, config.d_k)[order].flatten()
    output, weights = run(config)
    module = build_module(config)
    with torch.no_grad():
        for layer in (module.W_q, module.W_k, module.W_v):
            layer.weight.copy_(layer.weight[columns])
            if config.bias:
                layer.bias.copy_(layer.bias[columns])
        module.W_o.weight.copy_(module.W_o.weight[:, columns])
    moved, moved_weights = run(config, module)
    assert close(moved, output)
    assert close(moved_weights, weights[:, order])


@given(exact)
def test_a_batch_item_alone_gives_what_it_gives_among_others(config):
    output, _ = run(config)
    alone, _ = run(config, x=random_input(config)[-1:])
    assert close(alone[0], output[-1])


@given(configs(dtype="float64", causal=True), seeds)
def test_a_causal_output_depends_on_no_later_position(config, seed):
    cut = seed % config.time
    x = random_input(config)
    later = x.clone()
    later[:, cut + 1 :] = randn(*later[:, cut + 1 :].shape, seed=seed)
    output, weights = run(config, x=x)
    changed, _ = run(config, x=later)
    assert close(changed[:, : cut + 1], output[:, : cut + 1])
    assert (weights.triu(1) == 0).all()
    assert (weights[:, :, 0, 0] == 1).all()


@given(configs(dtype="float64", causal=True))
def test_the_last_position_of_a_causal_forward_sees_what_an_open_one_sees(config):
    module, x = build_module(config), random_input(config)
    assert close(module(x, causal=True)[:, -1], module(x)[:, -1])


@given(exact)
def test_rows_of_weights_are_shares(config):
    _, weights = run(config)
    assert weights.shape == (config.batch, config.heads, config.time, config.time)
    assert (weights >= 0).all()
    assert close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))


@given(exact)
def test_the_same_vector_everywhere_passes_through_as_its_own_value(config):
    module = build_module(config)
    x = random_input(config)[:, :1].expand(-1, config.time, -1)
    output, weights = run(config, module, x)
    assert close(output, module.W_o(module.W_v(x)).detach())
    if not config.causal:
        assert close(weights, torch.full_like(weights, 1 / config.time))


@given(configs(dtype="float64", bias=True), seeds)
def test_the_bias_of_the_keys_never_changes_a_weight_and_that_of_the_queries_does(config, seed):
    module = build_module(config)
    _, weights = run(config, module)
    with torch.no_grad():
        module.W_k.bias.add_(randn(config.d_model, seed=seed))
    assert close(run(config, module)[1], weights)
    if config.time > 1:
        with torch.no_grad():
            module.W_q.bias.add_(3.0)
        assert not close(run(config, module)[1], weights, 1e-9)


@given(exact, st.floats(0.1, 3.0))
def test_the_default_scale_is_one_over_the_root_of_d_k(config, factor):
    q, k, v = (randn(2, config.heads, config.time, config.d_k, seed=seed) for seed in range(3))
    assert close(attend(q, k, v)[1], attend(q, k, v, scale=1 / math.sqrt(config.d_k))[1])
    assert close(attend(q * factor, k, v)[1], attend(q, k * factor, v)[1])
    assert close(attend(q * factor, k, v, scale=1)[1], attend(q, k, v, scale=factor)[1])


@given(exact)
def test_the_output_of_a_head_lies_between_its_smallest_and_largest_value(config):
    q, k, v = (randn(2, config.heads, config.time, config.d_k, seed=seed) for seed in range(3))
    output, _ = attend(q, k, v, causal=config.causal)
    assert (output <= v.amax(2, keepdim=True) + 1e-12).all()
    assert (output >= v.amin(2, keepdim=True) - 1e-12).all()


@pytest.mark.parametrize("time", [1, 5])
def test_one_hot_weights_pick_one_value(time):
    # Far apart keys: every query finds itself, so that attention is the identity.
    eye = 1e4 * torch.eye(time, dtype=torch.float64)[None, None]
    v = randn(1, 1, time, 3)
    assert torch.equal(attend(eye, eye, v)[0], v)
