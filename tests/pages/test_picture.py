"""The vision model: a drawn picture or one's own, a patch as the query, a head."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
import streamlit as st
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from PIL import Image
from streamlit.testing.v1 import AppTest

from mha_core.models.vision import load_vision, sample_image
from tests.pages.own import focus, give, open_source, proofs, take_back
from tests.pages.support import (
    address,
    components,
    config,
    open_app,
    piece,
    pieces,
    run,
    said,
    set_state,
    text,
)

PATCH = 16 * 5 + 9


@pytest.fixture(scope="module")
def vision() -> Any:
    return load_vision()


@pytest.fixture(scope="module")
def sample(vision: Any) -> torch.Tensor:
    """The model's own weights of layer 0 on the drawn picture, (h, 257, 257)."""
    weights: torch.Tensor = vision.capture(vision.prepare(sample_image()), 0).weights[0]
    return weights


def png(colour: tuple[int, int, int] = (200, 40, 10)) -> bytes:
    """Half of it one colour, half of it dark."""
    image = Image.new("RGB", (120, 80), (10, 10, 40))
    image.paste(colour, (0, 0, 60, 80))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def overlay(at: AppTest) -> str:
    """The section on the picture."""
    return piece(at, 'class="overlay"')


def note(at: AppTest) -> str:
    """What the section says it shows."""
    return text(piece(at, "On the picture"))


def cells(at: AppTest) -> list[float]:
    """What each patch tells of its weight, of three digits, row by row."""
    found = re.findall(
        r'data-pick="patch:(\d+)"[^>]* title="patch (\d+),(\d+) · ([^"]*)"', overlay(at)
    )
    assert [(int(n), 16 * int(row) + int(column)) for n, row, column, _ in found] == [
        (n, n) for n in range(256)
    ]
    return [float(value.replace("−", "-")) for *_, value in found]


def pooled(weights: torch.Tensor) -> NDArray[np.float32]:
    """The largest of each 3 x 3 cells, (time, time) -> (time / 3, time / 3), upwards."""
    largest = torch.nn.functional.max_pool2d(weights[None], 3, ceil_mode=True)
    found: NDArray[np.float32] = largest[0].numpy()
    return found


def chosen(at: AppTest, kind: str) -> list[str]:
    """What is marked as chosen: "head", or "cls" and "patch" for the query."""
    found = re.findall(r'data-pick="([^"]*)"[^>]* aria-checked="true"', overlay(at))
    return [pick for pick in found if pick.startswith(kind)]


def test_a_drawn_picture_is_there_at_once(sample: torch.Tensor) -> None:
    at = open_source("picture")
    assert said(at) == ""
    assert (config(at).batch, config(at).time, config(at).heads) == (1, 257, 6)
    assert config(at).d_model == 384
    assert "weights of [CLS] as the query; choose a patch" in note(at)
    assert chosen(at, "cls") == ["cls"]
    assert chosen(at, "patch") == []
    assert "the drawn scene" in overlay(at)
    assert_allclose(cells(at), sample[0, 0][1:], rtol=0.01, atol=1e-12)
    assert re.findall(r'data-pick="(head:\d)"', overlay(at)) == [f"head:{n}" for n in range(6)]


def test_our_forward_equals_the_models() -> None:
    at = open_source("picture")
    assert proofs(at)["equals DINOv2-small"]
    assert "own layer 0" in text(piece(at, 'class="proofs"'))


def test_a_patch_becomes_the_query(sample: torch.Tensor) -> None:
    at = open_source("picture")
    before = overlay(at)
    set_state(at, patch=PATCH)
    assert "weights of patch 5,9 as the query" in note(at)
    assert chosen(at, "patch") == [f"patch:{PATCH}"]
    assert chosen(at, "cls") == []
    assert_allclose(cells(at), sample[0, PATCH + 1][1:], rtol=0.01, atol=1e-12)
    set_state(at, patch=None)
    assert overlay(at) == before


def test_a_head_is_one_for_the_picture_and_the_maps(sample: torch.Tensor) -> None:
    at = set_state(open_source("picture"), head=4)
    assert chosen(at, "head") == ["head:4"]
    assert_allclose(cells(at), sample[4, 0][1:], rtol=0.01, atol=1e-12)
    assert "head 4, weights" in text(piece(at, 'class="focus-head"'))


def test_a_layer_of_ones_own(vision: Any) -> None:
    at = open_source("picture")
    assert at.slider(key="w_layer").max == 11
    at.slider(key="w_layer").set_value(11)
    run(at)
    weights = vision.capture(vision.prepare(sample_image()), 11).weights[0]
    assert_allclose(cells(at), weights[0, 0][1:], rtol=0.01, atol=1e-12)
    assert "own layer 11" in text(piece(at, 'class="proofs"'))
    assert address(at) == {"source": "picture", "layer": "11"}
    assert overlay(open_app(**address(at))) == overlay(at)


def test_special_tokens_can_be_hidden_and_rows_sum_to_one_again(sample: torch.Tensor) -> None:
    at = open_source("picture")
    assert_allclose(focus(at), pooled(sample[0]), rtol=1e-3, atol=1e-7)
    at.toggle(key="w_plain").set_value(True)
    run(at)
    patches = sample[0, 1:, 1:]
    shares = patches / patches.sum(-1, keepdim=True)
    assert_allclose(focus(at), pooled(shares), rtol=1e-3, atol=1e-7)
    assert "weights of [CLS] as the query" in note(at), "the picture goes on as it was"


def test_a_picture_of_ones_own(vision: Any) -> None:
    at = give(open_source("picture"), "picture", "mine.png", png())
    assert said(at) == ""
    assert "your picture" in overlay(at)
    weights = vision.capture(vision.prepare(png()), 0).weights[0]
    assert_allclose(cells(at), weights[0, 0][1:], rtol=0.01, atol=1e-12)
    assert proofs(at)["equals DINOv2-small"]
    take_back(at, "picture")
    assert "the drawn scene" in overlay(at)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.png", b"", "is not a picture"),
        ("a.png", b"no picture at all", "is not a picture"),
        ("a.png", png()[:-60], "is broken or cut off"),
        ("a.jpg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a picture"),
    ],
)  # fmt: skip
def test_a_broken_picture_is_refused_and_the_last_view_stays(
    name: str, data: bytes, why: str
) -> None:
    at = give(open_source("picture"), "picture", "mine.png", png())
    before = overlay(at)
    give(at, "picture", name, data)
    (error,) = at.sidebar.error
    assert why in error.value
    assert overlay(at) == before
    give(at, "picture", "next.png", png((10, 200, 90)))
    assert said(at) == ""
    assert overlay(at) != before


def test_a_broken_picture_can_be_the_first() -> None:
    at = give(open_source("picture"), "picture", "a.png", b"no picture at all")
    assert "is not a picture" in at.sidebar.error[0].value
    assert "the drawn scene" in overlay(at)


def test_a_pinned_picture_outlives_its_file() -> None:
    at = give(open_source("picture"), "picture", "mine.png", png())
    at.button(key="pin").click()
    run(at)
    give(at, "picture", "next.png", png((10, 200, 90)))
    give(at, "picture", "last.png", png((90, 20, 190)))
    st.cache_resource.clear()
    assert "compare" in components(run(at))


def test_without_a_picture_there_is_no_section_for_one() -> None:
    at = open_source("random", open_source("picture"))
    assert not [markup for markup in pieces(at) if "On the picture" in markup]
    assert config(at).d_model == 32
