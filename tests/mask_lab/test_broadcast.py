"""Axis by axis as torch broadcasts, and every refusal is torch's own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError
from mha_core.mask_lab.broadcast import attempts, axes, expanded, ours, parse_shape, traps
from tests.mask_lab.support import BATCH, HEADS, TIME, lab

TARGET = (2, 3, 5, 7)
NAMES = {"batch": 2, "h": 3, "Tq": 5, "Tk": 7}


@given(st.lists(st.sampled_from([1, 2, 3, 5, 7]), max_size=6))
def test_a_shape_fits_where_every_axis_does_and_torch_agrees(shape):
    try:
        torch.zeros(TARGET) + torch.zeros(shape)
        fits = torch.broadcast_shapes(tuple(shape), TARGET) == torch.Size(TARGET)
    except RuntimeError:
        fits = False
    found = axes(shape, TARGET)
    assert all(axis.fits for axis in found) == fits
    assert (expanded(shape, TARGET) is not None) == fits
    assert (ours(shape, TARGET) == "") == fits
    assert [axis.name for axis in found[-4:]] == ["batch", "h", "Tq", "Tk"]


def test_each_axis_says_what_happens_to_it():
    verdicts = {
        (5, 7): ["added", "added", "same", "same"],
        (2, 1, 1, 7): ["same", "stretched", "stretched", "same"],
        (2, 7): ["added", "added", "wrong", "same"],
        (6, 5, 7): ["added", "wrong", "same", "same"],
        (4, 2, 3, 5, 7): ["extra", "same", "same", "same", "same"],
        (): ["added"] * 4,
    }
    for shape, wanted in verdicts.items():
        assert [axis.verdict for axis in axes(shape, TARGET)] == wanted


def test_a_repeated_axis_has_stride_zero_and_no_memory_of_its_own():
    view = expanded((2, 1, 1, 7), TARGET)
    assert view.stride() == (7, 0, 0, 1)
    assert view.untyped_storage().nbytes() == 14


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("2, 1, 1, 7", (2, 1, 1, 7)),
        ("(batch, 1, 1, Tk)", (2, 1, 1, 7)),
        ("batch*h, Tq, Tk", (6, 5, 7)),
        ("2·3,5,7,", (6, 5, 7)),
        ("()", ()),
        ("", ()),
    ],
)
def test_shapes_are_read_as_they_are_typed(text, shape):
    assert parse_shape(text, NAMES) == shape


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2, heads", "shape='heads': is neither a size nor the name.*batch, h, Tq, Tk"),
        ("2,,3", "shape=''"),
        ("-1, 7", "shape='-1'"),
        ("٣", "is neither a size"),
        ("__import__('os')", "is neither a size"),
        ("1,1,1,1,1,1,1,1,1", "at most 8 axes"),
        ("100000, 100000", "at most 4,194,304 cells"),
    ],
)
def test_what_is_no_shape_is_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        parse_shape(text, NAMES)


def verdicts(shape):
    """Whether SDPA, masked_fill, attn_mask and key_padding_mask of nn.MultiheadAttention ran."""
    return [not one.error for one in attempts(shape, lab(dtype="float32"))]


def test_every_library_takes_shapes_of_its_own():
    assert verdicts((TIME, TIME)) == [True, True, True, False]
    assert verdicts((BATCH, 1, 1, TIME)) == [True, True, False, False]
    assert verdicts((BATCH, TIME)) == [False, False, False, True]
    assert verdicts((BATCH * HEADS, TIME, TIME)) == [False, False, True, False]
    assert verdicts((BATCH, TIME, TIME)) == [False, False, False, False]


def test_refusals_are_in_torchs_words_and_ours_names_what_works():
    found = attempts((BATCH, TIME, TIME), lab(dtype="float32"))
    assert found[0].error.startswith("RuntimeError: The size of tensor a (3) must match")
    assert "must broadcast to (batch, h, Tq, Tk) = (2, 3, 5, 5)" in ours(
        (BATCH, TIME, TIME), (BATCH, HEADS, TIME, TIME)
    )


def test_equal_sizes_hide_a_mask_of_another_meaning():
    assert "batch and Tq are both 4" in traps((4, 4), (4, 2, 4, 4))[0]
    assert "batch and h are both 3" in traps((3, 5, 5), (3, 3, 5, 5))[0]
    assert "transposed mask" in traps((5, 5), (2, 3, 5, 5))[0]
    assert traps((2, 1, 1, 7), TARGET) == []
    # The trap is real: item b's padding is read as query b's row.
    padding = torch.tensor([[True, False], [True, True]])
    scores = torch.zeros(2, 1, 2, 2).masked_fill(~padding, -torch.inf).softmax(-1)
    assert scores[1, 0, 0].tolist() == [1, 0]  # item 1 has no padding, and lost key 1 in query 0
