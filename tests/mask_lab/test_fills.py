"""Fills by dtype, on the cases people met: what is stored, what leaks, where NaN is born."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mha_core import ConfigError
from mha_core.mask_lab import build
from mha_core.mask_lab.check import ours
from mha_core.mask_lab.fill_records import HOWS
from mha_core.mask_lab.filled import BACKWARD, FORWARD, run, survey
from mha_core.mask_lab.fills import DTYPES, FILLS, stored, value_of
from tests.mask_lab.support import BATCH, HEADS, KINDS, TIME, lab, parts_of, spec

BLIND = KINDS["an empty row"]


def filled(made, fill, dtype="float32", at=None, **how):
    return run(at or lab(dtype="float32"), parts_of(made), fill, dtype, **how)


# Whether masked_fill takes the number, and what a float32 tensor of it becomes in the dtype.
# NVIDIA/apex#1052, facebookresearch/fairseq#3575.
STORED = {
    ("-inf", "float32"): (True, -math.inf),
    ("-inf", "float16"): (True, -math.inf),
    ("-inf", "bfloat16"): (True, -math.inf),
    ("finfo(dtype).min", "float32"): (True, -3.4028234663852886e38),
    ("finfo(dtype).min", "float16"): (True, -65504.0),
    ("finfo(dtype).min", "bfloat16"): (True, -3.3895313892515355e38),
    ("finfo(float32).min", "float32"): (True, -3.4028234663852886e38),
    ("finfo(float32).min", "float16"): (False, -math.inf),
    ("finfo(float32).min", "bfloat16"): (False, -math.inf),
    ("-1e9", "float32"): (True, -1e9),
    ("-1e9", "float16"): (False, -math.inf),
    ("-1e9", "bfloat16"): (True, -998244352.0),
    ("-1e4", "float32"): (True, -1e4),
    ("-1e4", "float16"): (True, -1e4),
    ("-1e4", "bfloat16"): (True, -9984.0),
    ("-65505", "float16"): (False, -65504.0),
    ("-65504", "float16"): (True, -65504.0),
}


@pytest.mark.parametrize(("fill", "dtype"), STORED)
def test_what_a_fill_becomes(fill, dtype):
    takes, becomes = STORED[fill, dtype]
    found = stored(fill, getattr(torch, dtype))
    assert found.becomes == becomes
    assert (found.refused == "") == takes
    if not takes:
        assert "cannot be converted" in found.refused
    assert found.exact == (becomes == found.asked)


def test_the_named_fills_are_all_looked_at():
    assert {fill for fill, _ in STORED} >= set(FILLS)
    with pytest.raises(ConfigError, match="fill='7'"):
        value_of("7", torch.float32)
    with pytest.raises(ConfigError, match="fill='often'"):
        value_of("often", torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_empty_row_is_nan_under_minus_infinity_and_even_under_a_number(dtype):
    infinite = filled(BLIND, "-inf", dtype)
    assert infinite.leak.blind == BATCH * HEADS
    assert infinite.leak.blind_weights == "NaN"
    assert infinite.born.step == "softmax"
    assert infinite.born.first == (0, 0, 2, 0)
    assert infinite.born.nan == BATCH * HEADS * TIME
    lowest = filled(BLIND, "finfo(dtype).min", dtype)
    assert lowest.leak.blind_weights == "even"
    assert lowest.born is None


def test_nan_goes_on_from_where_it_is_born():
    found = filled(BLIND, "-inf")
    bad = {one.step for one in found.forward if one.nan}
    assert bad == {"softmax", "weighted_values", "merge", "output"}
    assert [one.step for one in found.forward] == list(FORWARD)
    output = next(one for one in found.forward if one.step == "output")
    assert output.nan == BATCH * HEADS * 7  # one position of each item, every number of it
    assert output.first == (0, 2, 0)


def test_one_empty_row_spoils_gradients_though_its_output_is_sliced_off():
    # pytorch/pytorch PR#196170: masked_fill stops NaN on its way to q and k, an addition does not.
    replaced = filled(BLIND, "-inf", backward=True)
    assert [one.step for one in replaced.backward] == list(BACKWARD)
    spoilt = {one.step for one in replaced.spoilt}
    assert {"W_v", "W_o", "v", "mask"} <= spoilt
    assert not spoilt & {"W_q", "W_k", "scores", "scale"}
    added = {one.step for one in filled(BLIND, "-inf", how="add", backward=True).spoilt}
    assert {"W_q", "W_k", "W_v", "W_o", "scores", "input"} <= added
    for fill in ("finfo(dtype).min", "-1e9"):
        assert filled(BLIND, fill, backward=True).spoilt == ()


def test_torchs_own_module_spoils_the_same_weights():
    at = lab(dtype="float32")
    module = nn.MultiheadAttention(21, 3, batch_first=True)
    keep = build.keep(BLIND)
    out, _ = module(at.x, at.x, at.x, attn_mask=~keep, need_weights=True)
    out[:, [0, 1, 3, 4]].sum().backward()
    assert module.in_proj_weight.grad.isnan().any()
    out, _ = module(at.x, at.x, at.x, attn_mask=~keep, need_weights=False)
    module.zero_grad()
    out[:, [0, 1, 3, 4]].sum().backward()
    assert not module.in_proj_weight.grad.isnan().any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_our_own_softmax_has_zeros_and_no_nan_anywhere(dtype):
    found = filled(BLIND, "-inf", dtype, ours=True, backward=True)
    assert found.fill == "ours"
    assert found.leak.blind_weights == "0"
    assert found.born is None
    assert found.spoilt == ()
    assert len(found.backward) == len(BACKWARD)


def test_without_an_empty_row_minus_infinity_is_exact():
    at = lab(dtype="float32")
    found = filled(KINDS["causal"], "-inf", at=at, backward=True)
    assert found.leak.largest == 0
    assert found.leak.blind == 0
    assert found.born is None
    assert found.spoilt == ()
    assert (ours(at, build.keep(KINDS["causal"])).triu(1) == 0).all()


def test_a_small_number_leaks_by_its_exponential():
    # huggingface/lerobot PR#710: -10 added to 12 against 0 leaves the hidden key .88.
    scores = torch.tensor([12.0 - 10.0, 0.0]).softmax(-1)
    assert scores[0] == pytest.approx(0.88, abs=0.005)
    at = lab(dtype="float32")
    found = filled(KINDS["causal"], "-2", how="add", at=at)
    q, k, _ = at.qkv
    scaled = q @ k.mT / 7**0.5
    hidden = torch.ones(TIME, TIME).triu(1).bool()
    weights = (scaled - 2.0 * hidden).softmax(-1)
    expected = weights.masked_fill(~hidden, 0.0)
    assert found.leak.largest == pytest.approx(float(expected.max()), rel=1e-5)
    assert found.leak.total == pytest.approx(float(expected.sum(-1).max()), rel=1e-5)
    assert expected[found.leak.at] == expected.max()


def test_the_lowest_number_added_twice_is_minus_infinity():
    # lucidrains/nGPT-pytorch#11.
    low = "finfo(dtype).min"
    both = spec(drawn=tuple((2, key, False) for key in range(TIME)), lengths=(5, 0))
    once, twice = filled(both, low, how="add"), filled(both, low, how="add twice")
    assert once.born is None
    # Item 1 is padding from end to end: row 2 is hidden by both parts, the others by one.
    assert twice.born.step == "softmax"
    assert twice.born.first == (1, 0, 2, 0)
    assert twice.born.nan == HEADS * TIME
    mixed = spec(causal=True, lengths=(5, 3), side="left")
    found = filled(mixed, low, how="add twice")
    # Rows 0 and 1 of item 1: keys hidden once take all from keys hidden twice.
    assert found.born is None
    assert found.leak.blind_weights == "other"


def test_a_number_that_scores_outgrow_leaks():
    # Scores of thousands: -1e4 no longer stands out, and a masked key takes weight.
    quiet = filled(KINDS["causal"], "-1e4", how="add")
    loud = filled(KINDS["causal"], "-1e4", how="add", times=1e5)
    assert quiet.leak.largest == 0
    assert loud.leak.largest > 0.5
    assert filled(KINDS["causal"], "-1e9", how="add", times=1e5).leak.largest == 0


def test_float16_overflows_in_the_scores_and_the_step_is_named():
    # prescient-design/e3tools PR#3.
    loud = filled(KINDS["causal"], "-inf", "float16", times=1e5)
    assert loud.overflowed.step in ("scores", "q")
    assert loud.born is not None
    quiet = filled(KINDS["causal"], "-inf", "bfloat16", times=1e5)
    assert quiet.overflowed is None
    assert quiet.born is None


def test_replacing_with_what_does_not_fit_is_torchs_error_and_adding_is_infinite():
    refused = filled(BLIND, "-1e9", "float16")
    assert "cannot be converted" in refused.error
    assert refused.leak is None
    assert refused.forward == ()
    added = filled(BLIND, "-1e9", "float16", how="add")
    assert added.error == ""
    assert added.leak.blind_weights == "NaN"


@pytest.mark.parametrize("how", HOWS)
def test_the_survey_is_each_run_as_far_as_the_weights(how):
    at, made = lab(dtype="float32"), KINDS["left padding"]
    rows = survey(at, parts_of(made), ("ours", *FILLS), DTYPES, how=how)
    assert [[one.dtype for one in row] for row in rows] == [list(DTYPES)] * 6
    for row in rows:
        for one in row:
            mine = one.fill == "ours"
            fill = "-inf" if mine else one.fill
            alone = filled(made, fill, one.dtype, at=at, how=how, ours=mine)
            assert one.leak == alone.leak
            assert one.stored == alone.stored
            assert one.error == alone.error
            assert str(one.born) == str(alone.born)  # a NaN is not equal to itself


def test_words_that_are_not_offered_are_refused():
    with pytest.raises(ConfigError, match="dtype='int8'"):
        filled(BLIND, "-inf", "int8")
    with pytest.raises(ConfigError, match="how='gently'"):
        filled(BLIND, "-inf", how="gently")
