"""Bytes in closed form: exact in tensors, within 5 % of what the allocator gave."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_core import MHAConfig, attend, cost, trace_forward
from mha_core.inputs import build_module, generator, random_input
from mha_core.measure import allocated_bytes, peak_bytes
from tests.core.support import config, configs

SCALARS = 64  # bytes: the numbers that a mask's fill and a scale become, one each


def unmasked_or_not():
    """Configurations with a mask, dropout and a finite fill in any combination."""
    return configs().flatmap(
        lambda made: st.builds(
            lambda dropout, fill: MHAConfig(**(vars(made) | {"dropout": dropout, "fill": fill})),
            dropout=st.sampled_from([0.0, 0.25]),
            fill=st.sampled_from([-math.inf, -1e9, torch.finfo(made.torch_dtype).min]),
        )
    )


def larger(**fixed):
    """Large enough that tensors, not single numbers, are what is allocated."""
    return st.builds(
        lambda heads, d_k, **fields: MHAConfig(d_model=heads * d_k, heads=heads, **fields, **fixed),
        heads=st.integers(1, 6),
        d_k=st.sampled_from([3, 8, 16]),
        batch=st.integers(1, 3),
        time=st.integers(16, 70),
        causal=st.booleans(),
        bias=st.booleans(),
        dtype=st.sampled_from(["float32", "float64"]),
    )


@given(unmasked_or_not())
def test_every_step_allocates_what_the_formula_says(made):
    formula = cost.allocated(made)
    for step in trace_forward(made, keep=(), clock=False).steps:
        assert step.allocated == formula[step.id], step.id


@given(unmasked_or_not())
def test_the_peak_is_what_the_formula_says(made):
    assert trace_forward(made, keep=(), clock=False).peak_bytes == cost.peak(made)


@settings(max_examples=25)
@given(larger())
def test_the_allocator_gave_within_five_per_cent_of_the_formulas(made):
    module, x = build_module(made), random_input(made)

    def run():
        return module(x, causal=made.causal)

    run()
    assert abs(peak_bytes(run, "cpu") - cost.peak(made)) <= 0.05 * cost.peak(made) + SCALARS
    total = sum(cost.allocated(made).values())
    assert abs(allocated_bytes(run) - total) <= 0.05 * total + SCALARS


@settings(max_examples=25)
@given(larger())
def test_the_peak_of_attend_alone_is_the_formulas(made):
    rng = generator(0, "qkv")
    shape = (made.batch, made.heads, made.time, made.d_k)
    q, k, v = (torch.randn(shape, generator=rng).to(made.torch_dtype) for _ in "qkv")
    formula = cost.attend_peak(made)
    measured = peak_bytes(lambda: attend(q, k, v, causal=made.causal)[0], "cpu")
    assert abs(measured - formula) <= 0.05 * formula + SCALARS


def test_bytes_of_the_odd_sizes_by_hand():
    # (2, 5, 21) in float64 is 1680 bytes, a map (2, 3, 5, 5) is 1200; q, k and v are copied.
    counts = {step: count for step, count in cost.allocated(config()).items() if count}
    assert counts == {
        "project_q": 1680, "project_k": 1680, "project_v": 1680,
        "scores": 2 * 1680 + 1200, "scale": 1200, "softmax": 1200,
        "weighted_values": 2 * 1680, "merge": 1680, "output": 1680,
    }  # fmt: skip
    assert cost.peak(config()) == 3 * 1680 + 2 * 1680 + 1200  # under the scores


@pytest.mark.parametrize("one", [{"batch": 1}, {"heads": 1}, {"time": 1}])
def test_with_one_of_an_axis_heads_are_not_copied(one):
    made = config(**one)
    assert cost.allocated(made)["scores"] == cost.map_bytes(made)


@given(configs())
def test_attention_costs_as_many_flops_as_the_projections_at_twice_d_model(made):
    there = MHAConfig(**(vars(made) | {"time": cost.crossover_time(made)}))
    counts = cost.flops(there)
    projections = sum(counts[f"project_{n}"] for n in "qkv") + counts["output"]
    assert counts["scores"] + counts["weighted_values"] == projections
