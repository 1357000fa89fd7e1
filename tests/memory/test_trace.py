"""A trace's memory: the element at every step, what matmul copies, and calls made on it."""

from __future__ import annotations

import contextlib
import io
import itertools

import pytest
import torch
from hypothesis import given, settings

from mha_core import MHAConfig, memory, trace_forward
from mha_core.errors import ConfigError
from mha_core.inputs import text_input
from mha_core.memory import Refusal
from mha_core.window import Element
from tests.core.support import SIZES, config, configs
from tests.flow.support import moved, runs
from tests.memory.support import walked


@settings(max_examples=40, deadline=None)
@given(runs())
def test_the_element_is_where_index_tensors_say(case: tuple[MHAConfig, Element]) -> None:
    made, element = case
    trace = trace_forward(made, clock=False)
    numbers = moved(made)
    wanted = (element.b * made.time + element.t) * made.d_model + element.c
    stops = {stop.step.id: stop for stop in memory.journey(trace, element, made.time - 1)}
    assert list(stops) == [step.id for step in trace.steps]
    for name, stop in stops.items():
        source = f"{name[:-2]}_q" if name[-2:] in ("_k", "_v") else name
        if source in numbers:
            assert int(numbers[source][stop.place.index]) == wanted
        else:
            head = element.c // made.d_k
            assert stop.place.index == (element.b, head, element.t, made.time - 1)
        assert stop.value == pytest.approx(float(trace.tensor(name)[stop.place.index]), nan_ok=True)


@settings(max_examples=10, deadline=None)
@given(configs())
def test_its_place_is_the_one_in_the_storage(made: MHAConfig) -> None:
    element = Element(made.batch - 1, made.time // 2, made.d_model - 1)
    trace = trace_forward(made, clock=False)
    for stop in memory.journey(trace, element):
        assert walked(trace.tensor(stop.step.id))[stop.place.index] == stop.place.offset


def test_it_is_unmoved_at_views_alone() -> None:
    trace = trace_forward(config(), clock=False)
    stops = memory.journey(trace, Element(1, 3, 9))
    assert {stop.step.id for stop in stops if stop.unmoved} == {
        *(f"{name}_{n}" for name in ("split", "transpose") for n in "qkv"), "transpose_back",
    }  # fmt: skip
    at = {stop.step.id: stop.place.offset for stop in stops}
    # By hand, (2, 3, 5, 7): [1, 1, 3, 2] of the heads' layout; (1·5 + 3)·21 + 9 of the other.
    assert at["transpose_back"] == ((1 * 3 + 1) * 5 + 3) * 7 + 2
    assert at["merge"] == at["split_q"] == (1 * 5 + 3) * 21 + 9


def test_an_element_or_a_key_outside_is_refused() -> None:
    trace = trace_forward(config(), clock=False)
    with pytest.raises(ConfigError, match="c=21: must be from 0 to 20"):
        memory.journey(trace, Element(0, 0, 21))
    with pytest.raises(ConfigError, match=r"key=5: must be from 0 to 4.*works: 4"):
        memory.journey(trace, Element(0, 0, 0), 5)


@settings(max_examples=60, deadline=None)
@given(configs())
def test_matmul_copies_the_operands_whose_strides_refuse(made: MHAConfig) -> None:
    trace = trace_forward(made, clock=False)
    for step in memory.PRODUCTS:
        sides = memory.operands(trace, step)
        clones = [one for one in trace[step].operators if one.name == "aten.clone"]
        refused = [side for side in sides if side.refusal is not None]
        assert [one.output for one in clones] == [side.shape for side in refused]
        assert trace[step].copied == sum(side.nbytes for side in refused)


def test_the_operands_are_those_of_the_code() -> None:
    trace = trace_forward(config(dropout=0.5), clock=False)
    q, keys = memory.operands(trace, "scores")
    assert keys.shape == trace.tensor("transpose_k").transpose(-2, -1).shape
    assert keys.strides == trace.tensor("transpose_k").transpose(-2, -1).stride()
    assert q.refusal is not None
    assert q.refusal.axis == 0
    weights, v = memory.operands(trace, "weighted_values")
    assert weights.strides == trace.tensor("dropout").stride()
    assert weights.refusal is None
    assert v.refusal is not None


def test_the_calls_do_what_they_are_known_for() -> None:
    trace = trace_forward(MHAConfig(), clock=False)
    made = {(call.on, call.code): call for call in memory.calls(trace)}
    size = trace["project_q"].nbytes
    view = made["project_q", "q.view(2, 6, 4, 8)"]
    assert (view.shares, view.copied, view.strides) == (True, 0, (192, 32, 8, 1))
    swap = made["split_q", "q.transpose(1, 2)"]
    assert (swap.shares, swap.copied, swap.contiguous) == (True, 0, False)
    same = made["project_q", "q.contiguous()"]
    assert (same.itself, same.operators, same.copied) == (True, (), 0)
    copy = made["transpose_q", "q.contiguous()"]
    assert (copy.shares, copy.copied, copy.contiguous) == (False, size, True)
    assert [one.name for one in copy.operators] == ["aten.clone"]
    assert made["split_q", "q.reshape(2, 6, 32)"].shares
    assert made["transpose_back", "out.reshape(2, 6, 32)"].copied == size


def test_the_error_is_torchs_own() -> None:
    trace = trace_forward(config(), clock=False)
    call = memory.calls(trace)[-1]
    assert call.code == "out.view(2, 5, 21)"
    with pytest.raises(RuntimeError, match="view size is not compatible") as raised:
        torch.zeros(2, 3, 5, 7).transpose(1, 2).view(2, 5, 21)
    assert call.error == str(raised.value)
    assert (call.shape, call.strides, call.copied) == (None, None, 0)


@settings(max_examples=40, deadline=None)
@given(configs())
def test_torch_refuses_the_view_where_the_rule_does(made: MHAConfig) -> None:
    trace = trace_forward(made, clock=False)
    step = trace["transpose_back"]
    rule = memory.view_strides(step.shape, step.strides, (made.batch, made.time, made.d_model))
    call = memory.calls(trace)[-1]
    assert isinstance(rule, Refusal) == (call.error is not None)
    assert isinstance(rule, Refusal) == (min(made.time, made.heads, made.d_k) > 1)
    if not isinstance(rule, Refusal):
        assert call.strides == rule


def test_a_text_lies_otherwise_and_is_read_as_it_lies() -> None:
    """Its input is a transposed sum: not contiguous, so that the first projection copies it."""
    made = MHAConfig(batch=2, time=3)
    trace = trace_forward(made, x=text_input(made, ("a", "b", "c")), clock=False)
    stop = memory.journey(trace, Element(1, 2, 5))[0]
    assert not stop.step.contiguous
    assert walked(trace.tensor("input"))[1, 2, 5] == stop.place.offset == (2 * 2 + 1) * 32 + 5


def test_the_table_has_what_was_read() -> None:
    trace = trace_forward(config(causal=True), clock=False)
    stops = memory.journey(trace, Element(1, 2, 3))
    table = memory.frame(stops)
    assert list(table["id"]) == [step.id for step in trace.steps]
    for row, stop in zip(table.to_dict("records"), stops, strict=True):
        tensor = trace.tensor(stop.step.id)
        assert row["strides"] == str(tensor.stride())
        assert row["contiguous"] == tensor.is_contiguous()
        assert row["element offset"] * 8 == row["element byte"]
        offsets = list(walked(tensor).values())
        steps = [b - a for a, b in itertools.pairwise(offsets)]
        assert row["jumps"] == sum(step != 1 for step in steps)


@pytest.mark.parametrize("causal", [False, True])
def test_the_program_prints_the_same(causal: bool) -> None:
    made = MHAConfig(**(SIZES | {"causal": causal}))
    element = Element(1, 2, 9)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(memory.program(made, element, 3), "program", "exec"), {})
    lines = said.getvalue()
    trace = trace_forward(made, clock=False)
    stops = {stop.step.id: stop for stop in memory.journey(trace, element, 3)}
    for name in (
        "project_q", "split_q", "transpose_q", "scores", "softmax", "weighted_values",
        "transpose_back", "merge", "output",
    ):  # fmt: skip
        stop = stops[name]
        line = next(line for line in lines.splitlines() if line.startswith(f"{name} "))
        assert f"strides {stop.step.strides} " in line
        assert f"contiguous {stop.step.contiguous} " in line
        assert line.endswith(f"{stop.place.index} -> {stop.place.offset}")
    assert f"view after transpose: {memory.calls(trace)[-1].error}" in lines
