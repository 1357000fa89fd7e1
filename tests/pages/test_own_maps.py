"""Attention maps from a file: what is shown is what was given, and what is wrong is told."""

from __future__ import annotations

import json

import numpy as np
import pytest
import streamlit as st
import torch
from numpy.typing import NDArray

from tests.pages.own import (
    attention,
    captions,
    focus,
    give,
    labels,
    npy,
    npz,
    open_source,
    pt,
    safetensors,
    take_back,
    tiles,
)
from tests.pages.support import address, components, piece, pieces, run, said, set_state, text

BATCH, HEADS, TIME = 2, 3, 5
FIRST = attention(BATCH, HEADS, TIME, TIME)
SECOND = attention(BATCH, HEADS, TIME, TIME, seed=6)
WORDS = ["the", "cat", "sat", "<b>down</b>", "é"]


def same(shown: NDArray[np.float32], given: NDArray[np.float32]) -> bool:
    """Bit for bit: a map is not computed anew."""
    return np.array_equal(shown, given)


def test_before_a_file_there_is_nothing_wrong_and_the_last_view_stays() -> None:
    at = open_source("maps")
    assert not at.error
    assert "must be .npz, .npy, .safetensors or .pt with weights" in at.sidebar.info[0].value
    assert "flow_chart" in components(at), "the run of random weights is still there"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.npz", npz(FIRST, SECOND)),
        ("a.npy", npy(np.stack([FIRST, SECOND]))),
        ("a.pt", pt((torch.from_numpy(FIRST), torch.from_numpy(SECOND)))),
        ("a.pth", pt({"attentions": [torch.from_numpy(FIRST), torch.from_numpy(SECOND)]})),
        (
            "a.safetensors",
            safetensors({"layer.2": torch.from_numpy(FIRST), "layer.10": torch.from_numpy(SECOND)}),
        ),
    ],
)
def test_every_layer_head_and_item_is_as_given(name: str, data: bytes) -> None:
    at = give(open_source("maps"), "maps", name, data)
    assert said(at) == ""
    assert at.slider(key="w_layer").max == 1
    for layer, given in enumerate((FIRST, SECOND)):
        at.slider(key="w_layer").set_value(layer)
        run(at)
        for item in range(BATCH):
            for head in range(HEADS):
                assert same(focus(set_state(at, head=head, w_item=item)), given[item, head])


def test_there_is_no_pipeline_and_it_is_said_why() -> None:
    at = give(open_source("maps"), "maps", "mine.npy", npy(FIRST[0]))
    assert set(components(at)) == {"client", "heads"}
    assert not [markup for markup in pieces(at) if "shapes-box" in markup]
    assert "need the layer's input and weights" in captions(at)
    glance = text(piece(at, 'class="glance"'))
    assert "mine.npy" in glance
    for number, name in ((1, "batch"), (HEADS, "heads"), (TIME, "time")):
        assert f"{number} {name}" in glance
    assert "w_layer" not in [slider.key for slider in at.slider], "one layer needs no slider"
    assert address(at) == {}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.json", json.dumps(WORDS).encode()),
        ("t.txt", "\n".join(WORDS).encode()),
        ("t.txt", " ".join(WORDS).encode()),
    ],
)
def test_tokens_label_the_axes_as_typed(name: str, data: bytes) -> None:
    at = give(open_source("maps"), "maps", "mine.npz", npz(FIRST))
    assert labels(at) == ["0", "1", "2", "3", "4"]
    give(at, "tokens", name, data)
    assert said(at) == ""
    assert labels(at) == WORDS
    assert "<b>down" not in piece(at, 'class="focus-head"')


def test_too_few_tokens_are_refused_with_both_numbers() -> None:
    at = give(open_source("maps"), "maps", "mine.npz", npz(FIRST))
    before = tiles(at)
    give(at, "tokens", "t.json", b'["a", "b", "c"]')
    (error,) = at.sidebar.error
    assert "3 tokens" in error.value
    assert "must be 5, one a position" in error.value
    assert tiles(at) == before
    take_back(at, "tokens")
    assert said(at) == "", "without tokens positions are numbered again"
    assert labels(at) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("data", [b'["a", "b"', b"\xff\xfe\xff", b" ", b'["a", 7]'])
def test_tokens_that_cannot_be_read_are_refused_and_not_passed_over(data: bytes) -> None:
    at = give(open_source("maps"), "maps", "mine.npz", npz(FIRST))
    give(at, "tokens", "t.json", data)
    (error,) = at.sidebar.error
    assert error.value.startswith("tokens=")
    assert labels(at) == ["0", "1", "2", "3", "4"]
    give(at, "tokens", "t.json", json.dumps(WORDS).encode())
    assert labels(at) == WORDS


def test_the_last_view_outlives_its_file_where_the_tokens_do_not_fit_the_next() -> None:
    at = give(open_source("maps"), "maps", "mine.npz", npz(FIRST))
    give(at, "tokens", "t.json", json.dumps(WORDS).encode())
    give(at, "maps", "longer.npz", npz(attention(BATCH, HEADS, 7, 7)))
    assert "must be 7, one a position" in at.sidebar.error[0].value
    st.cache_resource.clear()
    assert same(focus(run(at)), FIRST[0, 0])
    assert labels(at) == WORDS
    take_back(at, "tokens")
    assert len(labels(at)) == 7


def test_rows_that_do_not_sum_to_one_are_told_and_shown() -> None:
    maps = FIRST.copy()
    maps[1, 2, 3] *= 0.9
    at = give(open_source("maps"), "maps", "mine.npz", npz(maps))
    assert not at.error
    (warning,) = at.warning
    assert "1 of 30 rows do not sum to 1" in warning.value
    assert "batch item 1, head 2, query 3, sums to 0.9" in warning.value
    assert same(focus(set_state(at, head=2, w_item=1)), maps[1, 2])


def test_rows_that_see_no_key_are_told() -> None:
    maps = FIRST.copy()
    maps[0, :, 4] = 0
    at = give(open_source("maps"), "maps", "mine.npz", npz(maps))
    assert "3 of 30 rows see no key" in said(at)


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("scores.npy", npy(8 * FIRST - 4), ["must not be negative", "look like scores"]),
        ("scores.npy", npy(9 * FIRST), ["look like scores"]),
        ("empty.pt", pt(()), ["holds no weights", 'attn_implementation="eager"']),
        ("none.pt", pt((None, None)), ["holds no weights", 'attn_implementation="eager"']),
        ("mean.npy", npy(FIRST[0, 0]), ["has 2 axes", "average_attn_weights=False"]),
        ("ids.npy", npy(np.ones((2, 5, 5), int)), ["must hold floating-point numbers", "int64"]),
        ("objects.npy", npy(np.array([{"a": 1}])), ["Python objects, which are never loaded"]),
        ("model.pt", pt(torch.nn.Linear(2, 2)), ["cannot be read as .pt"]),
        ("short.npy", npy(FIRST)[:-4], ["it holds"]),
        ("broken.npz", npz(FIRST)[:-40], ["cannot be read as .npz"]),
        ("empty.npy", b"", ["cannot be read as .npy"]),
    ],
)  # fmt: skip
def test_what_is_no_map_is_refused_and_the_last_view_stays(
    name: str, data: bytes, told: list[str]
) -> None:
    at = give(open_source("maps"), "maps", "mine.npz", npz(FIRST))
    before = tiles(at)
    give(at, "maps", name, data)
    (error,) = at.sidebar.error
    for words in told:
        assert words in error.value
    assert tiles(at) == before
    give(at, "maps", "next.npz", npz(SECOND))
    assert said(at) == ""
    assert same(focus(at), SECOND[0, 0])


@pytest.mark.parametrize(("queries", "keys"), [(3, 6), (6, 3), (1, 4)])
def test_maps_need_not_be_square(queries: int, keys: int) -> None:
    maps = attention(HEADS, queries, keys)
    at = give(open_source("maps"), "maps", "cross.npy", npy(maps))
    assert not at.error
    assert f"{queries} queries and {keys} keys" in said(at)
    shown = focus(set_state(at, head=2))
    side = max(queries, keys)
    assert shown.shape == (side, side)
    assert same(shown[:queries, :keys], maps[2])
    absent = np.ones((side, side), bool)
    absent[:queries, :keys] = False
    assert np.isnan(shown[absent]).all(), "what is not there is not zero"


def test_a_view_of_another_source_does_not_pass_for_the_files() -> None:
    at = open_source("minilm")
    assert [markup for markup in pieces(at) if "The model and its tokens set the sizes" in markup]
    open_source("maps", at)
    assert not [markup for markup in pieces(at) if "set the sizes" in markup]


def test_a_layer_of_one_source_is_none_of_anothers() -> None:
    at = give(open_source("maps"), "maps", "deep.npy", npy(np.stack([FIRST] * 9)))
    at.slider(key="w_layer").set_value(8)
    run(at)
    open_source("minilm", at)
    assert not at.error, "MiniLM has 6 layers"
    assert at.slider(key="w_layer").value == 0
