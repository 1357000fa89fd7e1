"""Each proof holds on every run that deserves it, and fails on one that does not."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch import nn

from mha_core import MHAConfig, masks, proofs, trace_forward
from mha_core.inputs import build_module
from mha_core.proofs import finite, leak, parity, prove, row_sums
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, config, configs, randn, torch_twin

NAMES = ["rows sum to 1", "no leak from the future", "equals torch", "finite everywhere"]

BLIND_ROW = torch.ones(TIME, TIME, dtype=torch.bool)
BLIND_ROW[2] = False
ADDED = torch.zeros(TIME, TIME).masked_fill(~BLIND_ROW, -math.inf)
MASKS = {
    "padding": masks.padding([TIME, 2], TIME),
    "all keys of an item": masks.padding([TIME, 0], TIME),
    "all keys of all items": masks.padding([0, 0], TIME),
    "one row": BLIND_ROW,
    "a mask a head": torch.ones(HEADS, 1, TIME, dtype=torch.bool).tril(2),
    "one row of keys": torch.tensor([True, False, True, True, True]),
    "added": randn(BATCH, HEADS, TIME, TIME),
    "added, one row": ADDED,
}
every_mask = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
every_dtype = pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])


def traced(mask=None, **changes):
    return trace_forward(config(**changes), mask=mask, profile=False)


def largest(figure):
    """The first number of a figure."""
    return float(re.search(r"nan|\d[\d.e+-]*", figure)[0])


def tampered(trace, step, change):
    """The trace with another tensor at one step."""
    steps = tuple(
        replace(s, tensor=change(s.tensor.clone())) if s.id == step else s for s in trace.steps
    )
    return replace(trace, steps=steps)


def add(place, amount):
    def change(tensor):
        tensor[place] += amount
        return tensor

    return change


@given(configs())
def test_all_hold_on_every_run_and_no_leak_exactly_on_the_causal_ones(made):
    found = prove(trace_forward(made, profile=False))
    assert [proof.name for proof in found] == NAMES
    rows, future, equal, numbers = found
    assert rows.holds is equal.holds is numbers.holds is True
    assert future.holds is (None if made.time == 1 else made.causal)


@every_dtype
@pytest.mark.parametrize(
    "changes",
    [
        {"causal": True},
        {"causal": True, "dropout": 0.4},
        {"causal": True, "scale": 0.7},
        {"causal": True, "bias": False, "heads": 1},
        {"causal": True, "fill": -1e4},
        {"causal": True, "time": 40, "d_model": 96, "heads": 4},
    ],
    ids=str,
)
def test_all_hold_in_every_precision(dtype, changes):
    assert [proof.holds for proof in prove(traced(dtype=dtype, **changes))] == [True] * 4


@every_mask
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("fill", [-math.inf, -1e9])
def test_all_hold_under_every_mask(mask, causal, fill):
    trace = traced(mask, causal=causal, fill=fill)
    assert row_sums(trace).holds is True
    assert parity(trace).holds is True
    assert finite(trace).holds is True
    if causal and math.isinf(fill):
        assert leak(trace).holds is True


def test_a_fill_that_only_float64_holds_is_proven_too():
    trace = traced(causal=True, dropout=0.5, fill=-1e300)
    assert [proof.holds for proof in prove(trace)] == [True] * 4


@pytest.mark.parametrize("amount", [1e-3, -1e-3, math.nan])
def test_one_weight_too_large_breaks_the_sum_of_its_row(amount):
    trace = traced(dtype="float32")
    assert row_sums(trace).holds is True
    proof = row_sums(tampered(trace, "softmax", add((1, 2, 3, 4), amount)))
    assert proof.holds is False
    assert largest(proof.figure) == pytest.approx(abs(amount), rel=0.1, nan_ok=True)


def test_softmax_over_the_queries_breaks_the_sums():
    # PetrochukM/PyTorch-NLP#2.
    trace = traced()
    wrong = tampered(trace, "softmax", lambda _: trace.tensor("scale").softmax(-2))
    assert row_sums(wrong).holds is False


def test_rows_that_see_no_key_are_counted_and_must_be_zero():
    trace = traced(BLIND_ROW)
    assert f"{BATCH * HEADS} rows see no key" in row_sums(trace).detail
    assert row_sums(tampered(trace, "softmax", add((0, 0, 2, 0), 0.5))).holds is False
    assert "see no key" not in row_sums(traced()).detail


def test_a_finite_fill_leaves_an_even_spread_and_an_added_infinity_zeros():
    assert row_sums(traced(BLIND_ROW, fill=-1e9)).holds is True
    assert "see no key" not in row_sums(traced(BLIND_ROW, fill=-1e9)).detail
    assert "rows see no key" in row_sums(traced(ADDED, fill=-1e9)).detail


def test_how_many_rows_were_summed_and_that_dropout_comes_after():
    detail = row_sums(traced(dropout=0.5)).detail
    assert f"{BATCH * HEADS * TIME} rows" in detail
    assert "after dropout they do not" in detail
    assert "dropout" not in row_sums(traced()).detail


# The future.


def test_without_causal_the_future_leaks_and_the_figure_says_how_much():
    proof = leak(traced())
    assert proof.holds is False
    leaks, closed = re.fullmatch(r"leaks (\S+) \(with causal: (\S+)\)", proof.figure).groups()
    assert float(leaks) > 0.01
    assert float(closed) == 0


def test_with_causal_nothing_leaks_and_the_figure_says_what_would():
    proof = leak(traced(causal=True))
    assert proof.holds is True
    used, open_ = re.fullmatch(r"(\S+) \(without causal: (\S+)\)", proof.figure).groups()
    assert float(used) == 0
    assert float(open_) > 0.01


def test_the_leak_is_the_change_of_the_earlier_outputs():
    trace = traced(time=4)
    changed = trace.x.clone()
    changed[:, 2:] = randn(BATCH, 2, D_MODEL, seed=3)
    with torch.no_grad():
        moved = (trace.module(changed) - trace.module(trace.x))[:, :2].abs().max()
    assert "positions 0–1" in leak(trace).detail
    # Other tokens, so another number of the same size.
    assert 0.1 < largest(leak(trace).figure) / float(moved) < 10


@pytest.mark.parametrize("causal", [True, False])
def test_one_position_has_no_future(causal):
    proof = leak(traced(time=1, causal=causal))
    assert proof.holds is None
    assert proof.figure == "time is 1"


def test_a_fill_that_is_too_small_leaks_in_spite_of_causal():
    # fairseq#3575: -10 is not minus infinity.
    assert leak(traced(causal=True, fill=-10.0)).holds is False
    assert leak(traced(causal=True, fill=-1e9)).holds is True


def test_the_trace_stays_as_it_was():
    made = config(dropout=0.5, causal=True)
    trace = trace_forward(made, profile=False)
    x, weight = trace.x.clone(), trace.module.W_q.weight.detach().clone()
    state = torch.get_rng_state()
    prove(trace)
    assert torch.equal(trace.x, x)
    assert torch.equal(trace.module.W_q.weight, weight)
    assert trace.module.training
    assert torch.equal(torch.get_rng_state(), state)


# torch's own.


# The bias of W_k adds the same to all scores of a row, which softmax takes out again.
@pytest.mark.parametrize(
    ("layer", "part"),
    [(f"W_{n}", "weight") for n in "qkvo"] + [(f"W_{n}", "bias") for n in "qvo"],
)
def test_a_weight_changed_after_the_run_is_noticed(layer, part):
    trace = traced()
    assert parity(trace).holds is True
    with torch.no_grad():
        getattr(getattr(trace.module, layer), part).flatten()[3] += 0.5
    proof = parity(trace)
    assert proof.holds is False
    assert largest(proof.figure.split("nn.MHA")[1]) > 1e-4


@pytest.mark.parametrize("step", ["weighted_values", "output", "transpose_q", "transpose_v"])
@pytest.mark.parametrize("amount", [0.1, math.nan])
def test_a_number_that_torch_would_not_give_is_noticed(step, amount):
    place = (1, 2, 3, 4)[: 3 if step == "output" else 4]
    assert parity(tampered(traced(), step, add(place, amount))).holds is False


def test_a_mask_that_was_not_applied_is_noticed():
    trace = traced(causal=True)
    assert parity(replace(trace, config=config(causal=False))).holds is False
    assert parity(replace(trace, mask=masks.padding([2, 2], TIME))).holds is False


def test_the_figures_name_both_of_torchs_and_one_where_only_one_can():
    assert re.fullmatch(r"nn\.MHA \S+, SDPA \S+", parity(traced()).figure)
    scaled = parity(traced(scale=0.5))
    assert re.fullmatch(r"SDPA \S+", scaled.figure)
    assert "knows no other scale" in scaled.detail
    assert "other scale" not in parity(traced()).detail


def test_positions_that_see_no_key_are_left_out_of_the_comparison_and_counted():
    assert f"{TIME} positions see no key" in parity(traced(masks.padding([0, TIME], TIME))).detail
    assert f"{BATCH} positions see no key" in parity(traced(BLIND_ROW)).detail
    assert "see no key" not in parity(traced(BLIND_ROW, fill=-1e9)).detail
    trace = traced(BLIND_ROW)
    assert parity(tampered(trace, "output", add((0, 1, 0), 0.1))).holds is False


def test_torchs_module_gets_the_same_weights():
    module = build_module(config())
    ours, theirs = proofs.as_multihead_attention(module), torch_twin(module)
    assert isinstance(ours, nn.MultiheadAttention)
    assert not ours.training
    for name, parameter in theirs.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter)
    without = proofs.as_multihead_attention(build_module(config(bias=False)))
    assert without.in_proj_bias is None


# Finite.


def test_the_first_overflow_is_named_with_its_step_place_and_value():
    # prescient-design/e3tools PR#3: 300 · 300 · 64 passes what float16 holds.
    made = MHAConfig(batch=1, time=5, d_model=64, heads=1, dtype="float16")
    module = build_module(made)
    with torch.no_grad():
        for layer in (module.W_q, module.W_k):
            layer.weight.copy_(torch.eye(64))
            layer.bias.zero_()
    x = torch.full((1, 5, 64), 300.0, dtype=torch.float16)
    trace = trace_forward(made, module, x, profile=False)
    proof = finite(trace)
    assert proof.holds is False
    assert "first in scores[0, 0, 0, 0] = inf" in proof.figure
    wrong = sum(int((~torch.isfinite(step.tensor)).sum()) for step in trace.steps)
    assert proof.figure.startswith(f"{wrong:,} NaN or infinite in {len(trace.steps)} tensors")
    # NaN on both sides is not equality.
    assert parity(trace).holds is row_sums(trace).holds is leak(trace).holds is False


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("step", ["input", "transpose_k", "scale", "softmax", "merge"])
def test_one_number_that_is_not_finite_is_found(step, value):
    trace = traced(causal=True)
    place = (1, 2, 3) if trace[step].tensor.dim() == 3 else (1, 2, 3, 1)
    proof = finite(tampered(trace, step, add(place, value)))
    assert proof.holds is False
    assert proof.figure.startswith("1 NaN or infinite")
    assert f"first in {step}{list(place)} = {value}" in proof.figure


def test_the_infinities_of_the_mask_are_meant_and_any_other_there_is_not():
    trace = traced(causal=True)
    assert (trace.tensor("mask") == -math.inf).any()
    assert finite(trace).holds is True
    assert "in 18 tensors" in finite(trace).figure
    for place, value in (((0, 0, 3, 1), -math.inf), ((0, 0, 1, 3), math.nan)):
        assert finite(tampered(trace, "mask", add(place, value))).holds is False


def test_only_kept_tensors_are_counted():
    trace = trace_forward(config(), keep=["input", "softmax"], profile=False)
    assert finite(trace).figure == "0 NaN or infinite in 2 tensors"
