"""Operators, copies and memory of a trace, against independent listings and accountings."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from torch.profiler import ProfilerActivity, profile

from mha_core import MHAConfig, cost, trace_forward
from mha_core.inputs import build_module, random_input
from mha_core.trace import timed
from tests.core.support import (
    BATCH,
    D_MODEL,
    HEADS,
    TIME,
    Listing,
    config,
    configs,
)

ACTIVATION = BATCH * TIME * D_MODEL * 8
MAP = BATCH * HEADS * TIME * TIME * 8


def names(step):
    return [operator.name for operator in step.operators]


@given(configs())
def test_the_operators_of_all_steps_are_those_of_the_forward(made):
    module, x = build_module(made), random_input(made)
    with Listing() as listing, torch.no_grad():
        module(x, causal=made.causal)
    trace = trace_forward(made)
    assert [name for step in trace.steps for name in names(step)] == listing.names


@pytest.mark.parametrize("changes", [{}, {"heads": 1}, {"time": 1}, {"batch": 1}, {"causal": True}])
def test_the_operators_of_a_step_are_those_of_its_one_line(changes):
    trace = trace_forward(config(**changes))
    tensor = trace.tensor
    lines = {
        "split_q": lambda: tensor("project_q").view(trace["split_q"].shape),
        "transpose_k": lambda: tensor("split_k").transpose(1, 2),
        "scores": lambda: tensor("transpose_q") @ tensor("transpose_k").transpose(-2, -1),
        "scale": lambda: tensor("scores") / trace.config.d_k**0.5,
        "softmax": lambda: tensor(trace["softmax"].reads[0]).softmax(-1),
        "weighted_values": lambda: tensor("softmax") @ tensor("transpose_v"),
        "merge": lambda: tensor("transpose_back").contiguous().view(trace["merge"].shape),
    }
    for step, line in lines.items():
        with Listing() as listing:
            line()
        assert names(trace[step]) == listing.names
        assert all(operator.output for operator in trace[step].operators)


def test_the_copies_hidden_in_the_products_and_in_merge_show():
    trace = trace_forward(config())
    copied = {step.id: step.copied for step in trace.steps if step.copied}
    # The batched product reads q and k, and then v, from contiguous copies; merge makes its own.
    assert copied == {
        "scores": 2 * ACTIVATION,
        "weighted_values": ACTIVATION,
        "merge": ACTIVATION,
    }
    assert names(trace["scores"]).count("aten.clone") == 2
    assert names(trace["weighted_values"]).count("aten.clone") == 1
    assert names(trace["merge"]) == ["aten.clone", "aten.view"]
    assert trace["scores"].allocated == 2 * ACTIVATION + MAP
    assert trace["weighted_values"].allocated == 2 * ACTIVATION


@pytest.mark.parametrize("changes", [{"heads": 1}, {"time": 1}])
def test_with_one_head_or_one_position_nothing_is_copied_and_merge_is_a_view(changes):
    trace = trace_forward(config(**changes))
    assert sum(step.copied for step in trace.steps) == 0
    assert trace["merge"].view_of == "transpose_back"
    assert trace["merge"].storage == "view"
    assert trace["transpose_q"].contiguous


def test_with_one_batch_item_only_merge_copies():
    trace = trace_forward(config(batch=1))
    assert [step.id for step in trace.steps if step.copied] == ["merge"]


def test_storage_says_view_copy_or_new():
    storage = {step.id: step.storage for step in trace_forward(config(causal=True)).steps}
    views = {f"{name}_{n}" for name in ("split", "transpose") for n in "qkv"} | {"transpose_back"}
    for step, kind in storage.items():
        assert kind == ("view" if step in views else "copy" if step == "merge" else "new")


@given(configs())
def test_bytes_allocated_are_at_least_the_tensors_own_unless_it_is_a_view(made):
    for step in trace_forward(made).steps:
        if step.id == "input" or step.view_of is not None:
            assert step.allocated == 0
        else:
            assert step.allocated >= step.nbytes + step.copied - (
                step.nbytes if step.storage == "copy" else 0
            )


def profiled_peak(call):
    """The most bytes that torch's allocator had handed out during the call."""
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        result = call()
    del result  # only after the profile, so that it counts until its end
    live = peak = 0
    for event in run.profiler.kineto_results.events():
        if event.name() == "[memory]":
            live += event.nbytes()
            peak = max(peak, live)
    return peak


def forward_peak(made):
    module, x = build_module(made), random_input(made)
    return profiled_peak(lambda: module(x, causal=made.causal))


@pytest.mark.parametrize(
    "made",
    [
        MHAConfig(batch=2, time=33, heads=3, d_model=21),
        MHAConfig(batch=3, time=7, heads=4, d_model=132, bias=False),
        MHAConfig(batch=2, time=47, heads=5, d_model=35, causal=True, dtype="float64"),
        MHAConfig(batch=3, time=31, heads=2, d_model=26, dropout=0.3),
        MHAConfig(batch=1, time=101, heads=1, d_model=13, causal=True, fill=-1e9),
        MHAConfig(batch=1, time=1, heads=1, d_model=97),
    ],
    ids=lambda made: f"{made.batch}x{made.time}x{made.d_model}x{made.heads}",
)
def test_the_peak_is_what_torchs_own_allocator_reports(made):
    peak = trace_forward(made).peak_bytes
    # The allocator also sees scratch space of kernels, a few bytes here.
    assert peak == pytest.approx(forward_peak(made), rel=0.01, abs=256)


@pytest.mark.parametrize("changes", [{}, {"causal": True}, {"causal": True, "dropout": 0.3}])
def test_recording_holds_no_tensor_longer_than_the_forward_does(changes):
    made = config(time=67, **changes)
    module, x = build_module(made), random_input(made)
    recorded = profiled_peak(lambda: trace_forward(made, module, x, keep=[], profile=False))
    assert recorded == pytest.approx(forward_peak(made), rel=0.01)


@given(configs(causal=False))
def test_the_peak_is_the_sum_of_what_the_code_holds_at_the_worst_step(made):
    if min(made.batch, made.heads, made.time) == 1:
        return  # fewer copies, see above
    activation, score = cost.activation_bytes(made), cost.map_bytes(made)
    # q, k, v and: in scores both copies and a map; in scale two maps; in the output the weights,
    # the merged heads and the result.
    worst = 3 * activation + max(2 * activation + score, 2 * score)
    assert trace_forward(made).peak_bytes == worst


def test_dropout_holds_four_maps_at_once():
    trace = trace_forward(config(dropout=0.5, time=101))
    score = cost.map_bytes(trace.config)
    assert trace.peak_bytes == 3 * cost.activation_bytes(trace.config) + 4 * score


def test_a_user_mask_that_hides_all_keys_of_a_query_costs_its_repair():
    mask = torch.ones(TIME, TIME, dtype=torch.bool)
    plain = trace_forward(config(), mask=mask)
    mask[2] = False
    repaired = trace_forward(config(), mask=mask)
    assert names(plain["softmax"]).count("aten.masked_fill") == 0
    assert names(repaired["softmax"]).count("aten.masked_fill") == 2


def test_without_profiling_nothing_is_counted_and_the_rest_is_the_same():
    trace, full = trace_forward(config(), profile=False), trace_forward(config())
    assert trace.peak_bytes is None
    assert trace.milliseconds is None
    for step, other in zip(trace.steps, full.steps, strict=True):
        assert (step.allocated, step.copied, step.flops, step.milliseconds) == (None,) * 4
        assert step.operators == ()
        assert torch.equal(step.tensor, other.tensor)
        assert (step.shape, step.strides, step.view_of) == (
            other.shape, other.strides, other.view_of,
        )  # fmt: skip


def test_profiling_times_every_step_and_the_whole():
    trace = trace_forward(config(causal=True))
    assert all(step.milliseconds >= 0 for step in trace.steps)
    assert trace["input"].milliseconds == 0
    assert trace.milliseconds > 0
    assert sum(step.milliseconds for step in trace.steps) > 0


def test_a_trace_is_timed_later_and_is_else_the_same():
    trace = trace_forward(config(causal=True), clock=False)
    assert trace.milliseconds is None
    assert trace["scores"].operators
    later = timed(trace)
    assert later.milliseconds > 0
    assert later["input"].milliseconds == 0
    for step, other in zip(trace.steps, later.steps, strict=True):
        assert step.milliseconds is None
        assert other.tensor is step.tensor
        assert replace(other, milliseconds=None, tensor=None) == replace(step, tensor=None)
