"""A mask in each library's words, given to the real library, gives the weights of our own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from mha_core import MHAConfig, attend, masks, trace_forward
from mha_core.inputs import text_input
from mha_core.mask_lab import build, hugging
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.check import check, compare, kind_of_rows, library_weights, ours
from mha_core.mask_lab.forms import convert
from mha_core.mask_lab.lab import lab_of
from mha_core.mask_lab.words import BERT, GPT2, MHA, words
from tests.core.support import numpy_attention
from tests.mask_lab.support import BATCH, HEADS, KINDS, TIME, lab, parts_of, spec


def words_of(made, dtype=torch.float64, heads=HEADS):
    return words(*parts_of(made), batch=BATCH, heads=heads, dtype=dtype)


def word(made, name, dtype=torch.float64):
    return next(one for one in words_of(made, dtype) if one.id == name)


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_that_fits_gives_our_weights(kind):
    made, at = KINDS[kind], lab()
    keep = build.keep(made)
    fitting = [one for one in words_of(made) if one.given]
    assert {one.library for one in fitting} >= {MHA, BERT, GPT2}
    for one in fitting:
        found = check(at, keep, one)
        assert found.error == ""
        assert found.holds
        assert found.difference is not None
        assert found.difference < 1e-12


def test_our_weights_are_those_of_the_book():
    made, at = KINDS["causal padding"], lab()
    keep = build.keep(made)
    weights = ours(at, keep)
    q, k, v = (tensor.numpy() for tensor in at.qkv)
    for item in range(BATCH):
        for head in range(HEADS):
            expected = numpy_attention(
                q[item, head], k[item, head], v[item, head], keep[item, 0].numpy()
            )[1]
            assert np.abs(weights[item, head].numpy() - expected).max() < 1e-14


def test_a_part_of_a_run_and_a_text_go_through_every_library():
    config = MHAConfig(batch=5, time=150, d_model=21, heads=3, dtype="float64")
    part = lab_of(trace_forward(config))
    assert part.shape[2] < 150
    config = MHAConfig(time=3, dtype="float64")
    text = lab_of(trace_forward(config, x=text_input(config, ("a", "b", "a"))))
    for at in (part, part.cut(2, 7), text):
        made = MaskSpec(
            time_q=at.time, time_k=at.time, causal=True, lengths=(at.time,) * (at.batch - 1) + (2,)
        )
        given = words(*parts_of(made), batch=at.batch, heads=at.heads, dtype=at.x.dtype)
        for one in given:
            if one.given:
                found = check(at, build.keep(made), one)
                assert found.holds, (one.id, found.error)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_they_agree_in_the_smaller_dtypes_too(dtype):
    made, at = KINDS["causal padding"], lab(dtype=dtype)
    for one in words_of(made, at.x.dtype):
        if one.given:
            assert check(at, build.keep(made), one).holds, one.id


@pytest.mark.parametrize("name", ["sdpa_keep", "mha_two", "bert_extended"])
def test_a_wrong_mask_is_told_from_a_right_one(name):
    at = lab()
    right, wrong = KINDS["causal"], KINDS["window"]
    found = check(at, build.keep(right), word(wrong, name))
    assert not found.holds
    assert found.difference is None or not found.difference < 1e-3


@pytest.mark.parametrize(
    ("kind", "fits"),
    [
        ("nothing", {"bert_ones"}),
        ("causal", {"sdpa_causal", "mha_causal", "gpt2_ones"}),
        ("causal padding", {"gpt2_ones"}),
        ("padding", {"bert_ones"}),
        ("window", set()),
        ("drawn", set()),
    ],
)
def test_words_that_cannot_say_a_mask_say_so(kind, fits):
    some = {"sdpa_causal", "mha_causal", "bert_ones", "gpt2_ones"}
    found = {one.id: one for one in words_of(KINDS[kind]) if one.id in some}
    assert {name for name, one in found.items() if one.given} == fits
    assert all(bool(one.unfit) != bool(one.given) for one in found.values())


@pytest.mark.parametrize("kind", ["left padding", "an empty item", "an empty row"])
def test_rows_without_a_key_become_what_each_library_makes_of_them(kind):
    made, at = KINDS[kind], lab(dtype="float32")
    keep = build.keep(made)
    assert build.blind_rows(keep)
    became = {
        one.id: check(at, keep, one).blind for one in words_of(made, torch.float32) if one.given
    }
    assert {became["sdpa_keep"], became["sdpa_additive"]} == {"0"}
    assert {became["mha_two"], became["mha_heads"]} == {"NaN"}
    assert {became["bert_extended"], became["gpt2_extended"]} == {"even"}
    assert kind_of_rows(ours(at, keep)[~keep.any(-1).broadcast_to(BATCH, HEADS, TIME)]) == "0"


def test_torch_refuses_is_causal_beside_a_mask_and_alone():
    q, k, v = lab().qkv
    keep = build.keep(KINDS["causal"])
    with sdpa_kernel([SDPBackend.MATH]), pytest.raises(RuntimeError, match="is_causal"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=keep, is_causal=True)
    module, x = nn.MultiheadAttention(6, 3, batch_first=True), torch.zeros(1, 4, 6)
    with pytest.raises(RuntimeError, match="attn_mask"):
        module(x, x, x, is_causal=True, need_weights=False)


def test_a_library_that_raises_is_reported():
    at = lab()
    one = word(KINDS["causal"], "sdpa_keep")
    broken = type(one)(one.id, one.library, "", "", {"attn_mask": torch.ones(3, 4).bool()})
    found = check(at, build.keep(KINDS["causal"]), broken)
    assert found.difference is None
    assert not found.holds
    assert "must match the size" in found.error


def test_a_mask_per_head_goes_batch_first():
    # line/lighthouse PR#77: only item 1 has key 2 padded.
    pattern = torch.ones(3, 3, dtype=torch.bool)
    padding = torch.tensor([[True, True, True], [True, True, False]])[:, None, None, :]
    given = next(
        one for one in words(pattern, padding, batch=2, heads=2, dtype=torch.float32)
        if one.id == "mha_heads"
    ).given["attn_mask"]  # fmt: skip
    module = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1))

    def mass(mask):
        weights = module(x, x, x, attn_mask=mask, average_attn_weights=False)[1]
        return (weights[..., 2].sum(-1) > 0).tolist()  # (batch, h): whether key 2 got any

    assert mass(given) == [[True, True], [False, False]]
    repeated = masks.flip((pattern & padding)[:, 0]).repeat(2, 1, 1)
    assert mass(repeated) == [[True, False], [True, False]]


def test_the_other_polarity_shows():
    # rasbt/LLMs-from-scratch#1061, T=4, zero logits.
    keep = masks.causal(4)
    zeros, eye = torch.zeros(1, 1, 4, 2), torch.eye(4)[None, None]
    even = F.scaled_dot_product_attention(zeros, zeros, eye, attn_mask=keep)[0, 0]
    expected = [[1 / (row + 1)] * (row + 1) + [0.0] * (3 - row) for row in range(4)]
    assert np.allclose(even, expected, atol=1e-7)
    ignore = convert(keep, "keep", "ignore")
    swapped = F.scaled_dot_product_attention(zeros, zeros, eye, attn_mask=ignore)[0, 0]
    assert np.allclose(swapped[0], [0, 1 / 3, 1 / 3, 1 / 3], atol=1e-7)
    assert swapped[3].tolist() == [0, 0, 0, 0]
    module = nn.MultiheadAttention(2, 1, batch_first=True)
    x = torch.zeros(1, 4, 2)
    assert module(x, x, x, attn_mask=keep)[1][0, 3].isnan().all()


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_transformers_makes_our_extended_mask_of_ones_and_zeros(family):
    at = lab(dtype="float32")
    made = spec(causal=family == "gpt2", lengths=(5, 3))
    ones = build.padding(made)[:, 0, 0].long()
    theirs = hugging.prepared(at, family, ones)
    extended = convert(
        build.keep(made).expand(BATCH, 1, TIME, TIME), "keep", "extended", dtype=torch.float32
    )
    assert torch.equal(theirs, extended)
    assert torch.equal(hugging.prepared(at, family, extended), extended)  # 4-D passes as it is


def test_a_boolean_mask_in_four_dimensions_is_added_as_ones_by_an_eager_layer():
    at = lab()
    keep = build.keep(KINDS["causal"]).expand(BATCH, 1, TIME, TIME)
    q, k, v = at.qkv
    hidden_nothing = attend(q, k, v, mask=keep.double())[1]  # 0 and 1, added
    theirs = hugging.weights(at, "bert", keep)
    assert (theirs - hidden_nothing).abs().max() < 1e-14
    assert (theirs[..., 0, 1:] > 0).all()


def test_nothing_is_drawn_from_torchs_global_generator():
    at = lab()
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    for one in words_of(KINDS["causal"]):
        if one.given:
            library_weights(at, one)
    assert torch.equal(torch.rand(3), expected)


def test_rows_are_named_for_what_they_hold():
    even = torch.full((2, 4), 0.25)
    for rows, name in (
        (torch.empty(0, 4), ""),
        (torch.zeros(2, 4), "0"),
        (torch.full((2, 4), math.nan), "NaN"),
        (even, "even"),
        (torch.tensor([[0.5, 0.5, 0.0, 0.0]]), "other"),
    ):
        assert kind_of_rows(rows) == name
    third = torch.full((3, 3), 1 / 3).bfloat16()
    assert kind_of_rows(third) == "even"


def test_where_no_row_sees_a_key_there_is_nothing_to_compare():
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    found = compare(torch.zeros(1, 1, 3, 3), torch.zeros(1, 1, 3, 3), nothing)
    assert found.difference is None
    assert found.blind == "0"
