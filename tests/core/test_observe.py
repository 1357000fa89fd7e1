"""`observe` sees every step in order, once, and what it returns is what goes on."""

from __future__ import annotations

import pytest
import torch

from mha_core import attend
from mha_core.steps import STEPS
from tests.core.support import (
    BATCH,
    D_K,
    D_MODEL,
    HEADS,
    TIME,
    TIME_K,
    close,
    qkv,
    randn,
    seeded,
)

OPTIONAL = {"mask", "dropout"}


def observed(call, *args, **options):
    """The ids and the shapes seen, in order."""
    seen = []

    def observe(step, tensor):
        seen.append((step, tuple(tensor.shape)))
        return tensor

    call(*args, observe=observe, **options)
    return seen


def replacing(step, change):
    return lambda name, tensor: change(tensor) if name == step else tensor


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_module_shows_the_steps_of_the_vocabulary_in_order(causal, masked, dropout):
    mask = torch.ones(TIME, TIME, dtype=torch.bool) if masked else None
    seen = observed(
        seeded(dropout=dropout), randn(BATCH, TIME, D_MODEL), causal=causal, mask=mask
    )  # fmt: skip
    ran = {"mask": causal or masked, "dropout": dropout > 0}
    assert [step for step, _ in seen] == [step for step in STEPS if ran.get(step, True)]


def test_every_step_has_the_shape_that_the_vocabulary_says():
    axes = {"batch": BATCH, "time": TIME, "d_model": D_MODEL, "h": HEADS, "d_k": D_K}
    seen = observed(seeded(dropout=0.5), randn(BATCH, TIME, D_MODEL), causal=True)
    assert len(seen) == len(STEPS)
    for step, shape in seen:
        assert shape == tuple(axes[axis] for axis in STEPS[step].output)


def test_attend_shows_its_own_steps():
    seen = observed(attend, *qkv(), causal=True, dropout=0.5)
    assert [step for step, _ in seen] == [
        "scores", "scale", "mask", "softmax", "dropout", "weighted_values",
    ]  # fmt: skip
    assert {shape for step, shape in seen[:5]} == {(BATCH, HEADS, TIME, TIME_K)}


def test_an_observer_that_returns_what_it_is_given_changes_nothing():
    module, x = seeded(), randn(BATCH, TIME, D_MODEL)
    kept = module(x, causal=True, observe=lambda _step, tensor: tensor)
    assert torch.equal(kept, module(x, causal=True))


def test_ablating_a_head_takes_exactly_its_share_out_of_the_output():
    module, x = seeded(), randn(BATCH, TIME, D_MODEL)
    outputs = {}

    def ablate(head):
        def change(tensor):
            outputs[head] = tensor[:, head].clone()
            tensor = tensor.clone()
            tensor[:, head] = 0
            return tensor

        return replacing("weighted_values", change)

    full = module(x)
    for head in range(HEADS):
        without = module(x, observe=ablate(head))
        columns = module.W_o.weight[:, head * D_K : (head + 1) * D_K]
        assert close(full - without, outputs[head] @ columns.T)
        assert not close(full, without, 1e-3)


@pytest.mark.parametrize("step", [step for step in STEPS if step not in OPTIONAL])
def test_a_tensor_returned_at_any_step_reaches_the_output(step):
    module, x = seeded(), randn(BATCH, TIME, D_MODEL)
    changed = module(x, observe=replacing(step, lambda tensor: tensor * 1.5 + tensor.flip(-1)))
    assert not close(module(x), changed, 1e-3)


def test_what_is_returned_at_the_mask_and_dropout_steps_goes_on_too():
    module, x = seeded(dropout=0.5), randn(BATCH, TIME, D_MODEL)

    def even(tensor):
        return torch.zeros_like(tensor)

    open_to_all = module(x, causal=True, observe=replacing("mask", even))
    assert not close(open_to_all, module(x, causal=True), 1e-3)
    nothing = module(x, observe=replacing("dropout", even))
    assert close(nothing, module.W_o.bias.expand(nothing.shape))


def test_weights_replaced_at_softmax_are_the_weights_returned():
    even = torch.full((BATCH, HEADS, TIME, TIME_K), 1 / TIME_K, dtype=torch.float64)
    q, k, v = qkv()
    output, weights = attend(q, k, v, observe=replacing("softmax", lambda _tensor: even))
    assert weights is even
    assert close(output, v.mean(2, keepdim=True).expand(output.shape))
