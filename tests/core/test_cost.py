"""FLOPs and bytes in closed form are what torch counts, and what the trace counts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from torch.utils.flop_counter import FlopCounterMode

from mha_core import MHAConfig, cost, trace_forward
from mha_core.inputs import build_module, random_input
from mha_core.steps import STEPS
from tests.core.support import config, configs


@given(configs())
def test_the_sum_is_what_torchs_counter_counts(made):
    module, x = build_module(made), random_input(made)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(x, causal=made.causal)
    assert sum(cost.flops(made).values()) == counter.get_total_flops()


@given(configs())
def test_every_step_is_what_the_trace_counted(made):
    counts = cost.flops(made)
    assert list(counts) == list(STEPS)
    for step in trace_forward(made).steps:
        assert step.flops == counts[step.id]


def test_flops_of_the_odd_sizes_by_hand():
    # (2·5, 21) x (21, 21) for each projection; 2·3 products of (5, 7) and (7, 5), and back.
    counts = {step: count for step, count in cost.flops(config()).items() if count}
    assert counts == {
        "project_q": 2 * 10 * 21 * 21,
        "project_k": 2 * 10 * 21 * 21,
        "project_v": 2 * 10 * 21 * 21,
        "scores": 6 * 2 * 5 * 5 * 7,
        "weighted_values": 6 * 2 * 5 * 7 * 5,
        "output": 2 * 10 * 21 * 21,
    }


@given(configs())
def test_parameters_and_bytes_are_those_of_the_tensors(made):
    trace = trace_forward(made, profile=False)
    assert cost.parameters(made) == trace.parameters
    assert cost.activation_bytes(made) == trace.x.nbytes == trace["output"].nbytes
    assert cost.map_bytes(made) == trace.weights.nbytes


@pytest.mark.parametrize(
    ("dtype", "size"), [("float64", 8), ("float32", 4), ("bfloat16", 2), ("float16", 2)]
)
def test_a_number_has_the_bytes_of_its_dtype(dtype, size):
    assert cost.itemsize(MHAConfig(dtype=dtype)) == size


def test_the_number_of_heads_changes_neither_parameters_nor_flops():
    made = [MHAConfig(d_model=64, heads=heads) for heads in (1, 2, 8, 64)]
    assert {cost.parameters(one) for one in made} == {4 * 64 * 64 + 4 * 64}
    assert len({sum(cost.flops(one).values()) for one in made}) == 1
