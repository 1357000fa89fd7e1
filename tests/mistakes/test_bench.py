"""Where mistakes run: the configuration in view, clamped where it is large."""

from __future__ import annotations

import pytest
import torch

from mha_core import MHAConfig, trace_forward
from mha_core.inputs import build_module, random_input
from mha_core.mistakes import MISTAKES, bench, examine


def test_a_small_configuration_runs_as_it_is():
    config = MHAConfig(causal=True, dropout=0.3, seed=5)
    made = bench.seeded(config)
    assert made.clamped == ()
    assert made.sizes == {"batch": 2, "time": 6, "d_model": 32, "h": 4, "d_k": 8}
    assert torch.equal(made.x, random_input(config))
    same = build_module(config)
    for name, parameter in same.named_parameters():
        assert torch.equal(parameter, made.module.get_parameter(name))
    assert not made.module.training


@pytest.mark.parametrize(
    ("fields", "sizes", "clamped"),
    [
        ({"time": 512}, {"time": 16}, ("time 16 of 512",)),
        ({"batch": 64}, {"batch": 4}, ("batch 4 of 64",)),
        ({"d_model": 2048, "heads": 64}, {"d_model": 512, "h": 64, "d_k": 8},
         ("d_model 512 of 2048",)),
        ({"d_model": 2040, "heads": 24}, {"d_model": 504, "h": 24, "d_k": 21},
         ("d_model 504 of 2040",)),
        ({"d_model": 2048, "heads": 2048}, {"d_model": 2048, "h": 2048, "d_k": 1}, ()),
        ({"dtype": "bfloat16"}, {"d_model": 32}, ("float32 for bfloat16",)),
    ],
)  # fmt: skip
def test_a_large_one_is_clamped_and_it_says_so(fields, sizes, clamped):
    made = bench.seeded(MHAConfig(**fields))
    assert made.clamped == clamped
    assert {name: made.sizes[name] for name in sizes} == sizes
    assert made.x.dtype in (torch.float32, torch.float64)


def test_a_text_keeps_its_first_words():
    words = tuple(f"w{n}" for n in range(20))
    made = bench.seeded(MHAConfig(time=20), words)
    assert made.x.shape == (2, 16, 32)
    assert made.clamped == ("time 16 of 20",)


def test_a_run_gives_its_own_module_and_input():
    trace = trace_forward(MHAConfig(batch=6, time=20, d_model=12, heads=3, dropout=0.5))
    made = bench.of_trace(trace)
    assert torch.equal(made.x, trace.x[:4, :16])
    assert torch.equal(made.module.W_q.weight, trace.module.W_q.weight)
    assert made.clamped == ("batch 4 of 6", "time 16 of 20")
    assert not made.module.training
    assert trace.module.training  # is left as it was


def test_padding_is_left_out_of_a_run():
    trace = trace_forward(MHAConfig(batch=3, time=9))
    assert bench.of_trace(trace, (9, 4, 7)).x.shape == (3, 4, 32)


def test_a_run_in_half_precision_is_looked_at_in_float32():
    trace = trace_forward(MHAConfig(dtype="bfloat16"))
    made = bench.of_trace(trace)
    assert made.x.dtype is torch.float32
    assert made.clamped == ("float32 for bfloat16",)
    assert trace.module.W_q.weight.dtype is torch.bfloat16  # is left as it was
    assert examine(MISTAKES["no_scale"], made.module, made.x).passed
