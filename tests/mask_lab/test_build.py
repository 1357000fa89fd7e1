"""A mask is what its parts say, cell by cell, and the code that is shown builds the same one."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given
from transformers import masking_utils as hf

from mha_core import ConfigError
from mha_core.mask_lab import build
from mha_core.mask_lab.build import MaskSpec
from tests.mask_lab.support import TIME, spec, specs


def by_hand(made: MaskSpec, item: int | None, query: int, key: int) -> bool:
    """One cell, from the definition of each part."""
    position = query + (made.time_k - made.time_q if made.align == "lower_right" else 0)
    drawn = {(q, k): v for q, k, v in made.drawn}
    if (query, key) in drawn:
        visible = drawn[query, key]
    else:
        visible = True
        if made.causal or made.prefix:
            visible = key <= position or key < made.prefix
        if made.window:
            visible &= abs(position - key) < made.window
        if made.blocks:
            visible &= block(made.blocks, position) == block(made.blocks, key)
    if item is not None:
        length = made.lengths[item]
        visible &= key < length if made.side == "right" else key >= made.time_k - length
    return visible


def block(sizes: tuple[int, ...], position: int) -> int:
    if position < 0:
        return -1
    if len(sizes) == 1:
        return position // sizes[0]
    end = 0
    for number, size in enumerate(sizes[:-1]):
        end += size
        if position < end:
            return number
    return len(sizes) - 1


@given(specs())
def test_every_cell_is_what_the_parts_say(made):
    keep = build.keep(made)
    if not made.lengths:
        assert keep.shape == (made.time_q, made.time_k)
        keep = keep[None, None]
    else:
        assert keep.shape == (len(made.lengths), 1, made.time_q, made.time_k)
    for item in range(len(keep)):
        for query in range(made.time_q):
            for key in range(made.time_k):
                wanted = by_hand(made, item if made.lengths else None, query, key)
                assert bool(keep[item, 0, query, key]) == wanted


@given(specs())
def test_the_program_builds_the_same_mask(made):
    names: dict[str, object] = {}
    exec(build.program(made), names)
    assert torch.equal(names["keep"], build.keep(made))


@given(specs())
def test_a_mask_survives_json(made):
    assert MaskSpec.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def hf_keep(function):
    """The mask of a transformers mask function, of one item and as many queries as keys."""
    return hf.sdpa_mask(1, TIME, TIME, mask_function=function, allow_is_causal_skip=False)[0, 0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_parts_are_those_of_transformers(size):
    causal = build.keep(spec(causal=True))
    assert torch.equal(causal, hf_keep(hf.causal_mask_function))
    window = build.keep(spec(causal=True, window=size))
    assert torch.equal(window, hf_keep(hf.sliding_window_causal_mask_function(size)))
    blocks = build.keep(spec(causal=True, blocks=(size,)))
    chunked = hf.chunked_causal_mask_function(size, torch.zeros(1, dtype=torch.long))
    assert torch.equal(blocks, hf_keep(chunked))


def test_packed_sequences_are_those_of_transformers():
    packed = build.keep(spec(causal=True, blocks=(2, 1, 2)))
    ids = torch.tensor([[0, 0, 1, 2, 2]])
    both = hf.and_masks(hf.causal_mask_function, hf.packed_sequence_mask_function(ids))
    assert torch.equal(packed, hf_keep(both))


def test_is_causal_is_the_plain_pattern_and_no_other():
    assert build.is_causal(spec(causal=True))
    assert build.is_causal(spec(prefix=1))  # the first key is seen by every query anyhow
    assert build.is_causal(spec(causal=True, window=TIME))
    for other in (spec(), spec(prefix=2), spec(causal=True, window=2)):
        assert not build.is_causal(other)


def test_left_padding_under_causal_leaves_rows_without_a_key():
    made = spec(causal=True, lengths=(5, 3), side="left")
    assert build.blind_rows(build.keep(made)) == [(1, 0), (1, 1)]
    assert build.blind_rows(build.keep(spec(causal=True, lengths=(5, 3)))) == []
    row = spec(drawn=tuple((2, key, False) for key in range(TIME)))
    assert build.blind_rows(build.keep(row)) == [(0, 2)]


@pytest.mark.parametrize(
    ("field", "value", "nearest"),
    [
        ("prefix", 6, "5"),
        ("window", -1, "0"),
        ("lengths", (5, 9), "5"),
        ("lengths", (-2, 5), "0"),
        ("blocks", (0,), "1"),
        ("drawn", ((7, 0, True),), "4"),
        ("time_q", 0, "1"),
        ("time_k", 10**6, "4096"),
    ],
)
def test_what_is_out_of_range_is_refused_with_the_nearest_that_works(field, value, nearest):
    with pytest.raises(ConfigError, match=rf"{field}.*Nearest that works: {nearest}"):
        spec(**{field: value})


def test_unknown_words_are_refused():
    with pytest.raises(ConfigError, match="align='right'"):
        spec(align="right")
    with pytest.raises(ConfigError, match="side='top'"):
        spec(side="top")
    with pytest.raises(ConfigError, match="colour='red': no such field"):
        MaskSpec.from_dict({"time_q": 2, "time_k": 2, "colour": "red"})
