"""Dropout: in training only, after softmax, from a generator of its own, scaled by 1/(1 - p)."""

from __future__ import annotations

import pytest
import torch

from mha_core import MHAConfig, attend, trace_forward
from tests.core.support import BATCH, D_MODEL, TIME, close, config, qkv, randn, seeded


def dropped_weights(p, seed=0, rows=1, keys=10):
    """The weights before and after dropout, of even rows."""
    seen = {}

    def observe(step, tensor):
        seen[step] = tensor
        return tensor

    q = torch.zeros(1, 1, rows, 2, dtype=torch.float64)
    k = torch.zeros(1, 1, keys, 2, dtype=torch.float64)
    generator = torch.Generator().manual_seed(seed)
    output, weights = attend(q, k, k + 1, dropout=p, generator=generator, observe=observe)
    return output, weights, seen["dropout"]


def test_it_runs_in_training_and_never_in_evaluation():
    module, x = seeded(dropout=0.5), randn(BATCH, TIME, D_MODEL)
    steps: list[str] = []

    def observe(step, tensor):
        steps.append(step)
        return tensor

    quiet = module.eval()(x, observe=observe)
    assert "dropout" not in steps
    assert torch.equal(quiet, module(x))

    steps.clear()
    noisy = module.train()(x, observe=observe)
    assert steps.index("dropout") == steps.index("softmax") + 1
    assert not close(noisy, quiet, 1e-3)


@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_every_weight_is_zero_or_divided_by_what_remains(p):
    _, weights, dropped = dropped_weights(p, rows=40)
    kept = dropped != 0
    assert kept.any()
    assert not kept.all()
    assert torch.allclose(dropped[kept], weights[kept] / (1 - p), rtol=1e-15)


def test_the_weights_returned_are_before_dropout_and_the_output_is_after():
    output, weights, dropped = dropped_weights(0.4, rows=20)
    assert close(weights.sum(-1), torch.ones(1, 1, 20, dtype=torch.float64))
    # The values are all 1, so that the output is the sum of the dropped row.
    assert close(output, dropped.sum(-1, keepdim=True).expand(output.shape))
    assert not close(dropped.sum(-1), weights.sum(-1), 0.01)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.75])
def test_on_average_nothing_changes(p):
    rows, keys = 500, 40
    _, _, dropped = dropped_weights(p, rows=rows, keys=keys)
    share = (dropped == 0).double().mean().item()
    # Five standard errors of a mean of rows·keys draws.
    error = 5 * (p * (1 - p) / (rows * keys)) ** 0.5
    assert share == pytest.approx(p, abs=error)
    assert dropped.sum(-1).mean().item() == pytest.approx(1.0, abs=error / (1 - p))


def test_a_single_key_keeps_all_or_nothing():
    _, _, dropped = dropped_weights(0.2, rows=50, keys=1)
    assert set(dropped.flatten().tolist()) == {0.0, 1.25}


def test_the_same_generator_draws_the_same_and_another_seed_draws_differently():
    one, other, third = (dropped_weights(0.5, seed, rows=9)[2] for seed in (1, 1, 2))
    assert torch.equal(one, other)
    assert not torch.equal(one, third)


def test_a_private_generator_leaves_the_global_one_alone():
    before = torch.get_rng_state()
    generator = torch.Generator().manual_seed(3)
    attend(*qkv(), dropout=0.5, generator=generator)
    seeded(dropout=0.5)(randn(BATCH, TIME, D_MODEL), generator=generator)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_traced_dropout_depends_on_the_seed_and_not_on_the_global_generator():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = trace_forward(config(dropout=0.5), profile=False)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    torch.rand(17)
    other = trace_forward(config(dropout=0.5), profile=False)
    assert torch.equal(one.tensor("dropout"), other.tensor("dropout"))
    another = trace_forward(config(dropout=0.5, seed=1), profile=False)
    assert not torch.equal(one.tensor("dropout") == 0, another.tensor("dropout") == 0)


def test_dropout_zero_draws_nothing_and_changes_nothing():
    assert "dropout" not in trace_forward(MHAConfig(), profile=False)
    plain = attend(*qkv())
    with_zero = attend(*qkv(), dropout=0.0)
    assert torch.equal(plain[0], with_zero[0])


def test_gradients_pass_through_the_weights_that_were_kept():
    q, k, v = (tensor.requires_grad_() for tensor in qkv())
    draws = [torch.Generator().manual_seed(5) for _ in range(2)]
    output, weights = attend(q, k, v, dropout=0.5, generator=draws[0])
    keep = torch.empty_like(weights).bernoulli_(0.5, generator=draws[1])
    expected = (weights * keep * 2) @ v
    grads = torch.autograd.grad(output.sum(), (q, k, v), retain_graph=True)
    for grad, wanted in zip(grads, torch.autograd.grad(expected.sum(), (q, k, v)), strict=True):
        assert close(grad, wanted)
