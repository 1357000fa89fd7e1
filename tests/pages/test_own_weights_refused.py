"""Weights that cannot be read: told beside the control, with what was found and expected."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from tests.pages.own import choose, empty, give, pt, safetensors, tiles
from tests.pages.own_layer import FILE, HEADS, MODULE, layer, opened, page_input, per_head, shown
from tests.pages.support import config, said


def _broken(place: int) -> bytes:
    return FILE[:place]


_NAN = {name: tensor.clone() for name, tensor in MODULE.state_dict().items()}
_NAN["out_proj.weight"][5, 7] = torch.nan


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.safetensors", b"", ["is empty"]),
        ("a.safetensors", _broken(len(FILE) - 9), ["broken, incomplete"]),
        ("a.safetensors", pt({}), ["must be a safetensors file", "found a PyTorch file"]),
        ("a.pt", b"junk", ["must be a PyTorch file, as it is named; found something else"]),
        ("a.pt", pt(nn.Linear(2, 2)), ["Python objects besides tensors", "none is run"]),
        ("a.pt", pt({"epoch": 3}), ["holds no tensors by name", "epoch (int)"]),
        (
            "a.pt",
            pt({"in_proj_weight": torch.ones(12, 5), "out_proj.weight": torch.ones(4, 4)}),
            ["in_proj_weight=(12, 5)", "must be (12, 4) for d_model=4"],
        ),
        (
            "a.pt",
            pt({"conv.weight": torch.ones(3, 4)}),
            ["conv.weight (3, 4)", "in_proj_weight (3 d_model, d_model)"],
        ),
    ],
)  # fmt: skip
def test_a_refused_file_is_told_beside_its_control(name: str, data: bytes, told: list[str]) -> None:
    at = opened(heads=HEADS)
    before = tiles(at)
    give(at, "weights", name, data)
    (error,) = at.sidebar.error
    for words in told:
        assert words in error.value
    assert tiles(at) == before, "the last view stays"
    empty(at, "weights")
    assert said(at) == "", "the last file that was read is in use"
    other = layer(seed=9)
    give(at, "weights", "next.pt", pt(other.state_dict()))
    assert not at.error
    assert "No file holds the number of heads" in said(at), "another file is asked again"
    assert tiles(at) == before
    choose(at, "answer_heads", HEADS)
    assert said(at) == ""
    assert_allclose(shown(at, 0), per_head(other, page_input(at))[0, 0], atol=1e-6)


def test_a_refused_file_can_be_the_first() -> None:
    at = opened(b"junk")
    assert "must be a safetensors file" in at.sidebar.error[0].value
    assert config(at).d_model == 32
    empty(at, "weights")
    assert not at.error
    assert "must be a .safetensors or .pt state dict" in at.sidebar.info[0].value


def test_a_number_that_is_not_finite_is_named() -> None:
    at = opened(safetensors(_NAN), heads=HEADS)
    (error,) = at.sidebar.error
    assert "out_proj.weight=nan" in error.value
    assert "(5, 7)" in error.value
