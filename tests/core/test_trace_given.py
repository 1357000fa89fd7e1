"""A user's own module, input and mask: run as they are, or refused with the misfit named."""

from __future__ import annotations

import math

import pytest
import torch

from mha_core import ConfigError, MultiHeadAttention, masks, trace_forward
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, close, config, randn, seeded


def test_a_users_module_and_input_are_what_runs():
    module = MultiHeadAttention(D_MODEL, HEADS, dtype=torch.float64)
    x = randn(BATCH, TIME, D_MODEL, seed=9)
    trace = trace_forward(config(causal=True), module, x)
    assert trace.module is module
    assert trace.x is x
    assert torch.equal(trace.output, module(x, causal=True).detach())
    assert torch.equal(trace.tensor("input"), x)
    assert not torch.equal(trace.output, trace_forward(config(causal=True)).output)


def test_tracing_leaves_the_users_module_and_input_as_they_were():
    module, x = seeded(), randn(BATCH, TIME, D_MODEL).requires_grad_()
    before = [parameter.clone() for parameter in module.parameters()]
    trace = trace_forward(config(), module, x)
    for parameter, copy in zip(module.parameters(), before, strict=True):
        assert torch.equal(parameter, copy)
        assert parameter.grad is None
        assert parameter.requires_grad
    assert x.requires_grad
    assert not trace.tensor("input").requires_grad


def test_a_boolean_mask_and_its_additive_form_give_the_same_trace():
    keep = masks.padding([TIME, 3], TIME)
    bias = torch.zeros(keep.shape, dtype=torch.float64).masked_fill(~keep, -math.inf)
    one, other = trace_forward(config(), mask=keep), trace_forward(config(), mask=bias)
    assert close(one.output, other.output)
    assert torch.equal(one.visible, other.visible)
    assert one.mask is not None
    assert "mask" in one


def test_the_mask_of_a_trace_is_the_users_own_and_not_the_causal_one():
    keep = masks.padding([TIME, 3], TIME)
    assert torch.equal(trace_forward(config(causal=True), mask=keep).mask, keep)
    assert trace_forward(config(causal=True)).mask is None


def test_an_additive_mask_too_low_for_the_dtype_is_seen_as_it_acts():
    bias = torch.zeros(TIME, TIME, dtype=torch.float64)
    bias[:, -1] = -1e300
    trace = trace_forward(config(dtype="float32"), mask=bias)
    assert (trace.weights[..., -1] == 0).all()
    assert torch.equal(trace.visible, bias == 0)


def test_a_query_without_a_key_is_traced_as_zeros():
    trace = trace_forward(config(), mask=masks.padding([TIME, 0], TIME))
    assert (trace.weights[1] == 0).all()
    assert torch.isfinite(trace.output).all()
    assert not trace.visible[1].any()


@pytest.mark.parametrize(
    ("field", "theirs"), [("d_model", 24), ("heads", 7), ("scale", 0.5), ("fill", -1e9)]
)
def test_a_module_that_differs_from_the_configuration_is_refused_with_its_own_value(field, theirs):
    options = {"d_model": D_MODEL, "heads": HEADS} | {field: theirs}
    module = MultiHeadAttention(**options, dtype=torch.float64)
    with pytest.raises(ConfigError, match=f"{field}=.*must be the module's {field}=") as caught:
        trace_forward(config(), module)
    (repair,) = caught.value.repairs
    assert repair == {field: theirs}
    trace_forward(config(**repair), module)


@pytest.mark.parametrize(
    "shape",
    [
        (BATCH, TIME + 1, D_MODEL),
        (BATCH + 1, TIME, D_MODEL),
        (BATCH, D_MODEL, TIME),
        (TIME, BATCH, D_MODEL),
        (TIME, D_MODEL),
        (0, TIME, D_MODEL),
    ],
)
def test_an_input_of_another_shape_is_refused_with_both(shape):
    with pytest.raises(ConfigError, match="must be") as caught:
        trace_forward(config(), x=torch.zeros(shape, dtype=torch.float64))
    assert str(shape) in str(caught.value)
    assert "(2, 5, 21)" in str(caught.value)


def test_an_input_of_another_dtype_is_refused_with_both():
    with pytest.raises(ConfigError, match=r"x='torch.float32': must have .* torch.float64"):
        trace_forward(config(), x=randn(BATCH, TIME, D_MODEL, dtype=torch.float32))


@pytest.mark.parametrize("shape", [(TIME, TIME + 1), (BATCH, TIME), (BATCH * HEADS, TIME, TIME)])
def test_a_mask_that_does_not_broadcast_is_refused_with_both_shapes(shape):
    with pytest.raises(ConfigError, match=r"mask=.*must broadcast to") as caught:
        trace_forward(config(), mask=torch.ones(shape, dtype=torch.bool))
    assert str(shape) in str(caught.value)
    assert "(2, 3, 5, 5)" in str(caught.value)


def test_a_mask_of_integers_is_refused():
    with pytest.raises(ConfigError, match=r"mask='torch\.int64': must be boolean"):
        trace_forward(config(), mask=torch.ones(TIME, TIME, dtype=torch.int64))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_input_that_is_not_finite_is_refused_with_the_place(value):
    x = randn(BATCH, TIME, D_MODEL)
    x[1, 3, 17] = value
    with pytest.raises(ConfigError, match=r"x=.*must be finite; the first of 1 .* at \(1, 3, 17\)"):
        trace_forward(config(), x=x)


@pytest.mark.parametrize("name", ["W_q.weight", "W_o.bias"])
def test_a_weight_that_is_not_finite_is_refused_by_name_with_the_place(name):
    module = seeded()
    parameter = dict(module.named_parameters())[name]
    with torch.no_grad():
        parameter[2:4] = math.nan
    place = r"\(2, 0\)" if parameter.dim() == 2 else r"\(2,\)"
    with pytest.raises(ConfigError, match=f"{name}=nan: must be finite.*at {place}"):
        trace_forward(config(), module)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_additive_mask_may_hold_minus_infinity_and_nothing_else_that_is_not_finite(value):
    bias = torch.zeros(TIME, TIME).masked_fill(~masks.causal(TIME), -math.inf)
    trace_forward(config(), mask=bias)
    bias[2, 1] = value
    with pytest.raises(ConfigError, match=r"mask=.*must be finite; the first of 1 .* at \(2, 1\)"):
        trace_forward(config(), mask=bias)
