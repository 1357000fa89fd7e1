"""Causal at Tq other than Tk, and a cache that gives what the whole forward gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from mha_core import ConfigError, MHAConfig, attend, trace_forward
from mha_core.mask_lab.align import aligned, decode
from mha_core.mask_lab.lab import lab_of
from tests.mask_lab.support import BATCH, D_K, HEADS, TIME, lab


@pytest.mark.filterwarnings("ignore:Lower right causal bias")
@given(st.integers(1, 9), st.integers(1, 9))
def test_both_alignments_are_torchs_own(time_q, time_k):
    upper, lower = aligned(time_q, time_k)
    assert torch.equal(upper.keep, causal_upper_left(time_q, time_k)._materialize())
    assert torch.equal(lower.keep, causal_lower_right(time_q, time_k)._materialize())
    for one in (upper, lower):
        assert torch.equal(one.weights > 0, one.keep)
        counts = one.keep.sum(-1)
        assert torch.allclose(one.weights.sum(-1), (counts > 0).float())
        assert one.blind == [query for query in range(time_q) if not counts[query]]


def test_the_numbers_of_two_queries_and_five_keys():
    # Dao-AILab/flash-attention#517.
    upper, lower = aligned(2, 5)
    assert upper.weights.tolist() == [[1, 0, 0, 0, 0], [0.5, 0.5, 0, 0, 0]]
    assert torch.allclose(lower.weights, torch.tensor([[0.25] * 4 + [0], [0.2] * 5]))
    upper, lower = aligned(5, 2)
    assert lower.blind == [0, 1, 2]
    assert lower.weights.tolist() == [[0, 0]] * 3 + [[1, 0], [0.5, 0.5]]
    assert upper.blind == []


@pytest.mark.parametrize(("prompt", "chunk"), [(1, 1), (3, 1), (2, 2), (1, 3), (TIME, 1)])
def test_a_cache_gives_the_full_causal_forward(prompt, chunk):
    at = lab()
    steps = decode(at, prompt, chunk)
    assert [step.start for step in steps] == [0, *range(prompt, TIME, chunk)]
    assert steps[-1].stop == TIME
    for step in steps:
        assert step.difference < 1e-14
        new = step.stop - step.start
        assert step.x == step.output == (BATCH, new, HEADS * D_K)
        assert step.q == (BATCH, HEADS, new, D_K)
        assert step.k == (BATCH, HEADS, step.stop, D_K)
        assert step.scores == (BATCH, HEADS, new, step.stop)
        assert step.mask == ((new, step.stop) if new > 1 else None)
        assert step.cache_bytes == 2 * BATCH * HEADS * step.stop * D_K * 8
        assert step.projected == new


def test_the_full_forward_is_the_modules_own():
    trace = trace_forward(MHAConfig(causal=True, dtype="float64", time=6))
    at = lab_of(trace)
    assert torch.equal(at.finish(attend(*at.qkv, causal=True)[0]), trace.output)


def test_upper_left_is_wrong_in_every_later_call():
    steps = decode(lab(), 2, 1)
    assert steps[0].upper_left < 1e-14  # as many queries as keys
    assert all(step.upper_left > 0.01 for step in steps[1:])


@pytest.mark.parametrize(
    ("prompt", "chunk", "field"), [(0, 1, "prompt"), (6, 1, "prompt"), (1, 0, "chunk")]
)
def test_pieces_out_of_range_are_refused(prompt, chunk, field):
    with pytest.raises(ConfigError, match=f"{field}=.*from 1 to time=5"):
        decode(lab(), prompt, chunk)
