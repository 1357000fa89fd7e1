"""Written in any layout, through a file and back: the same bits, names and dtypes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, MultiHeadAttention
from mha_core.layouts import (
    FORMS,
    LAYOUTS,
    ORDERS,
    ORIENTATIONS,
    build,
    read_state,
    to_bytes,
    write,
)
from mha_core.layouts.packing import fuse, unfuse
from tests.core.support import D_K, D_MODEL, HEADS, configs, randn, seeded
from tests.layouts.support import choices, equal, layer, only, read, run, same

DTYPES = ["float32", "float64", "bfloat16", "float16"]


@pytest.mark.parametrize("layout", LAYOUTS)
@given(
    config=st.data(),
    form=st.sampled_from(FORMS),
    order=st.sampled_from(ORDERS),
    orientation=st.sampled_from(ORIENTATIONS),
    dtype=st.sampled_from(DTYPES),
    prefix=st.sampled_from(["", "attn.", "module._orig_mod.h.0.attn."]),
)
def test_every_layout_reads_back_bit_for_bit(
    layout, config, form, order, orientation, dtype, prefix
):
    config = config.draw(configs())
    module = seeded(**config.to_dict() | {"dtype": dtype, "fill": -torch.inf})
    answers = choices(layout, order, orientation)
    state = write(module, layout, prefix=prefix, **answers)

    again = read_state(to_bytes(state, form), f"weights.{form}")
    found = only(again)
    built = build(again, found, heads=config.heads, **answers)
    rewritten = write(built, found.layout, prefix=found.prefix, **answers)

    assert (found.layout, found.prefix, found.dtype) == (layout, prefix, dtype)
    assert (found.d_model, found.bias) == (config.d_model, config.bias)
    assert set(found.names) == set(again) == set(state)
    assert {question.field for question in found.asks} == {"heads", *answers}
    assert same(built, module)
    assert rewritten.keys() == state.keys()
    assert all(equal(rewritten[name], state[name]) for name in state)


def test_interleaved_rows_are_those_counted_by_hand():
    fused = torch.arange(3 * D_MODEL)
    q, k, v = unfuse(fused, HEADS, "interleaved")

    for head in range(HEADS):
        for j in range(D_K):
            row = head * D_K + j
            start = head * 3 * D_K
            assert (q[row], k[row], v[row]) == (start + j, start + D_K + j, start + 2 * D_K + j)
    assert torch.equal(fuse([q, k, v], HEADS, "interleaved"), fused)


def test_stacked_rows_are_those_counted_by_hand():
    q, k, v = unfuse(torch.arange(3 * D_MODEL), HEADS, "stacked")

    assert q.tolist() == list(range(D_MODEL))
    assert k.tolist() == list(range(D_MODEL, 2 * D_MODEL))
    assert v.tolist() == list(range(2 * D_MODEL, 3 * D_MODEL))


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if len(LAYOUTS[name].orders) > 1])
def test_a_stacked_file_read_as_interleaved_gives_other_maps(layout):
    state, x = layer(layout), randn(2, 5, D_MODEL, seed=3)

    _, right = run(read(state, order="stacked"), x)
    _, wrong = run(read(state, order="interleaved"), x)

    assert torch.equal(right, run(seeded(), x)[1])
    assert (right - wrong).abs().max() > 0.01


def test_a_matrix_read_in_the_other_orientation_gives_other_maps():
    state, x = layer("matrices"), randn(2, 5, D_MODEL, seed=3)

    _, right = run(read(state, orientation="linear"), x)
    _, wrong = run(read(state, orientation="conv1d"), x)

    assert torch.equal(right, run(seeded(), x)[1])
    assert (right - wrong).abs().max() > 0.01


def test_the_copies_are_the_modules_own():
    state = layer("mha_core")
    module = build(state, only(state), heads=HEADS)
    written = write(module, "mha_core")
    state["W_q.weight"].zero_()
    written["W_k.weight"].zero_()

    assert same(module, seeded())
    assert not module.training


def test_nothing_is_drawn_from_the_global_generator():
    state = layer("torch")
    before = torch.get_rng_state()
    build(state, only(state), heads=HEADS)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("form", FORMS)
def test_equal_modules_give_equal_files(form):
    assert to_bytes(layer("torch"), form) == to_bytes(layer("torch"), form)


def test_one_projection_without_a_bias_is_written_with_zeros():
    module = MultiHeadAttention(D_MODEL, HEADS, dtype=torch.float64)
    module.W_k.bias = None
    bias = write(module, "torch")["in_proj_bias"]

    assert not bias[D_MODEL : 2 * D_MODEL].any()
    assert torch.equal(bias[:D_MODEL], module.W_q.bias)


@pytest.mark.parametrize(
    ("layout", "given", "says"),
    [
        ("qkv", {}, "order=None: must be chosen"),
        ("qkv", {"order": "sideways"}, "order='sideways': is not one that layout qkv"),
        ("torch", {"order": "interleaved"}, "order='interleaved': .*torch.*These work: stacked"),
        ("mha_core", {"order": "stacked"}, "order='stacked': .*These work: None"),
        ("matrices", {}, "orientation=None: must be chosen"),
        ("gpt2", {"orientation": "linear"}, "orientation='linear': .*These work: conv1d"),
        ("gpt3", {}, "layout='gpt3': is not known.*These work: torch, .*bert"),
    ],
)
def test_a_choice_that_is_missing_or_impossible_is_refused_when_writing(layout, given, says):
    with pytest.raises(ConfigError, match=says):
        write(seeded(), layout, **given)


def test_another_form_of_file_is_refused():
    with pytest.raises(ConfigError, match=r"form='onnx': is not offered.*safetensors, pt"):
        to_bytes(layer("torch"), "onnx")
