"""Weights from a file: nothing guessed, the numbers those of torch's own module."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import streamlit as st
import torch
from numpy.testing import assert_allclose
from torch import nn

from mha_core.inputs import text_input
from tests.pages.own import (
    captions,
    choose,
    give,
    labels,
    open_source,
    proofs,
    pt,
    safetensors,
    tiles,
)
from tests.pages.own_layer import (
    D_MODEL,
    FILE,
    HEADS,
    MODULE,
    layer,
    opened,
    page_input,
    per_head,
    shown,
)
from tests.pages.support import address, config, piece, run, said, set_state, stored, text

ROOT = Path(__file__).parents[2]


def test_before_a_file_there_is_nothing_wrong_and_the_last_view_stays() -> None:
    at = open_source("weights")
    assert not at.error
    assert "must be a .safetensors or .pt state dict" in at.sidebar.info[0].value
    assert config(at).d_model == 32
    assert tiles(at)


def test_heads_are_asked_and_never_guessed() -> None:
    at = opened()
    assert not at.error
    assert "No file holds the number of heads" in at.sidebar.info[0].value
    assert config(at).d_model == 32, "the last view stays"
    box = at.selectbox(key="w_answer_heads")
    assert box.value is None
    assert box.options == ["1", "2", "3", "4", "6", "8", "12", "24"]
    choose(at, "answer_heads", HEADS)
    assert said(at) == ""
    assert (config(at).d_model, config(at).heads) == (D_MODEL, HEADS)
    assert "(2, 3, 6, 8)" in text(piece(at, 'class="glance"'))


@pytest.mark.parametrize(
    ("name", "data"), [("a.safetensors", FILE), ("a.pt", pt(MODULE.state_dict()))]
)
def test_the_weights_on_the_page_are_torchs_own(name: str, data: bytes) -> None:
    at = opened(data, name, heads=HEADS)
    expected = per_head(MODULE, page_input(at))
    assert not torch.allclose(expected[0, 0], expected[1, 2], atol=0.01)
    for item in range(2):
        for head in range(HEADS):
            assert_allclose(shown(at, head, item), expected[item, head], atol=1e-6)
    # Nothing was masked: a later token does change an earlier one's row.
    assert proofs(at) == {
        "rows sum to 1": True, "no leak from the future": False, "equals torch": True,
        "finite everywhere": True,
    }  # fmt: skip


def test_a_text_and_a_causal_mask_of_ones_own() -> None:
    at = opened(heads=HEADS)
    at.button_group(key="w_input").set_value("text")
    at.toggle(key="w_causal").set_value(True)
    run(at)
    at.text_area(key="w_text").set_value("three short words")
    run(at)
    assert labels(at) == ["three", "short", "words"]
    x = text_input(config(at), ("three", "short", "words"))
    expected = per_head(MODULE, x, torch.ones(3, 3, dtype=torch.bool).triu(1))
    allowed = np.tril(np.ones((3, 3), bool))
    for head in range(HEADS):
        values = shown(at, head)
        assert np.array_equal(np.isnan(values), ~allowed)
        assert_allclose(values[allowed], expected[0, head].numpy()[allowed], atol=1e-6)


def test_of_several_layers_one_is_chosen() -> None:
    block = nn.TransformerEncoderLayer(D_MODEL, HEADS, 8, batch_first=True)
    encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    layers = {f"layers.{n}.self_attn.": layer(seed=n) for n in range(2)}
    state = encoder.state_dict()
    for prefix, module in layers.items():
        state |= {prefix + name: tensor for name, tensor in module.state_dict().items()}
    at = opened(pt({"epoch": 3, "model_state_dict": state}), "run.pt", heads=HEADS)
    assert at.selectbox(key="w_prefix").options == list(layers)
    for prefix, module in reversed(layers.items()):
        choose(at, "prefix", prefix)
        assert_allclose(shown(at, 1), per_head(module, page_input(at))[0, 1], atol=1e-6)


def test_the_order_in_one_matrix_is_asked_and_makes_a_difference() -> None:
    d_k = D_MODEL // HEADS
    rows = MODULE.in_proj_weight.detach()
    # [3, h, d_k] -> [h, 3, d_k]
    interleaved = rows.view(3, HEADS, d_k, D_MODEL).transpose(0, 1).reshape(3 * D_MODEL, D_MODEL)
    bias = MODULE.in_proj_bias.detach().view(3, HEADS, d_k).transpose(0, 1).reshape(-1)
    state = {
        "blocks.0.attn.qkv.weight": interleaved, "blocks.0.attn.qkv.bias": bias,
        "blocks.0.attn.proj.weight": MODULE.out_proj.weight,
        "blocks.0.attn.proj.bias": MODULE.out_proj.bias,
    }  # fmt: skip
    at = opened(safetensors(state), heads=HEADS)
    assert "head by head [h, 3, d_k]" in at.sidebar.info[0].value
    assert config(at).d_model == 32, "nothing is shown until the order is known"
    choose(at, "answer_order", "interleaved")
    expected = per_head(MODULE, page_input(at))[0, 2]
    assert_allclose(shown(at, 2), expected, atol=1e-6)
    choose(at, "answer_order", "stacked")
    assert said(at) == ""
    assert np.abs(shown(at, 2) - expected.numpy()).max() > 0.01


def test_another_width_asks_again_and_the_view_outlives_its_file() -> None:
    at = opened(heads=HEADS)
    before = shown(at, 2)
    wide = layer(32, 4)
    give(at, "weights", "wide.pt", pt(wide.state_dict()))
    assert at.selectbox(key="w_answer_heads").value is None, "3 does not divide 32"
    assert not at.error
    st.cache_resource.clear()  # what is in view may have to be made anew
    assert np.array_equal(shown(at, 2), before)
    choose(at, "answer_heads", 4)
    assert (config(at).d_model, config(at).heads) == (32, 4)
    assert_allclose(shown(at, 3), per_head(wide, page_input(at))[0, 3], atol=1e-6)


def test_a_pinned_run_outlives_its_file() -> None:
    at = opened(heads=HEADS)
    at.button(key="pin").click()
    run(at)
    give(at, "weights", "next.pt", pt(layer(seed=4).state_dict()))
    give(at, "weights", "last.pt", pt(layer(seed=5).state_dict()))
    choose(at, "answer_heads", HEADS)
    st.cache_resource.clear()
    run(at)
    table = piece(at, "<th>changed</th>")
    assert "mine.safetensors" in table
    assert "last.pt" in table


def test_a_file_stays_while_another_source_is_looked_at() -> None:
    at = opened(heads=HEADS)
    before = tiles(at)
    open_source("random", at)
    assert config(at).d_model == 32
    open_source("weights", at)
    assert said(at) == ""
    assert tiles(at) == before


def test_what_a_file_has_besides_is_said() -> None:
    state = dict(MODULE.state_dict()) | {"in_proj_scale": torch.ones(1)}
    state.pop("out_proj.bias")
    state["other.in_proj_weight"], state["other.out_proj.weight"] = (
        torch.ones(9, 4),
        torch.ones(4, 4),
    )
    at = opened(safetensors(state), heads=HEADS)
    assert "zeros instead: out_proj.bias" in captions(at)
    assert "not used: in_proj_scale" in captions(at)
    assert "not offered: other.in_proj_weight=(9, 4)" in captions(at)
    assert f"layout torch, d_model {D_MODEL}, float32" in captions(at)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_its_dtype_is_the_files(dtype: str) -> None:
    state = {name: t.to(getattr(torch, dtype)) for name, t in MODULE.state_dict().items()}
    at = opened(safetensors(state), heads=HEADS)
    assert said(at) == ""
    assert config(at).dtype == dtype


def test_no_address_can_carry_it() -> None:
    at = opened(heads=HEADS)
    assert address(at) == {}
    assert stored(at)["source"] == "weights"


def test_its_program_gives_the_same_numbers(tmp_path: Path) -> None:
    at = set_state(opened(heads=HEADS), w_code=True)
    (tmp_path / "mine.safetensors").write_bytes(FILE)
    program = at.code[0].value + "\nimport numpy\nnumpy.save('out.npy', weights.numpy())\n"
    (tmp_path / "program.py").write_text(program, encoding="utf-8")
    subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    weights = np.load(tmp_path / "out.npy")
    assert weights.shape == (2, HEADS, 6, 6)
    for head in range(HEADS):
        assert np.array_equal(shown(at, head, 1), weights[1, head])
