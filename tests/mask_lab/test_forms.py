"""From each form to each: the code lines do what `convert` does, and nothing is lost on the way."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError
from mha_core.mask_lab.forms import FORMS, convert, line

PAIRS = list(itertools.product(FORMS, FORMS))
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
T, N = True, False


def masks_():
    return st.lists(st.booleans(), min_size=6, max_size=6).map(
        lambda cells: torch.tensor(cells).view(2, 3)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_the_line_shown_is_the_conversion(source, target, dtype):
    keep = torch.tensor([[T, N, T], [N, N, T]])
    before = convert(keep, "keep", source, dtype=dtype)
    names = {"torch": torch, "dtype": dtype, source: before}
    exec(line(source, target), names)
    after = convert(before, source, target, dtype=dtype)
    assert names[target].dtype is after.dtype
    assert torch.equal(names[target], after)


@given(masks_(), st.sampled_from(PAIRS), st.sampled_from(DTYPES))
def test_there_and_back_is_the_same_mask(keep, pair, dtype):
    source, target = pair
    before = convert(keep, "keep", source, dtype=dtype)
    there = convert(before, source, target, dtype=dtype)
    assert torch.equal(convert(there, target, "keep"), keep)


def test_what_each_form_holds():
    keep = torch.tensor([T, N])
    made = {form: convert(keep, "keep", form, dtype=torch.float16) for form in FORMS}
    assert made["ignore"].tolist() == [N, T]
    assert made["additive"].tolist() == [0, -torch.inf]
    assert made["extended"].tolist() == [0, -65504]
    assert made["attention_mask"].tolist() == [1, 0]
    assert made["attention_mask"].dtype is torch.int64
    assert made["additive"].dtype is torch.float16


@pytest.mark.parametrize(
    ("form", "mask", "said"),
    [
        ("keep", torch.ones(2), "keep='float32': must be boolean"),
        ("ignore", torch.ones(2, dtype=torch.int64), "ignore='int64': must be boolean"),
        ("additive", torch.tensor([T]), "must be floating point"),
        ("additive", torch.tensor([0.0, -1.5]), r"must be 0 or -inf .* at \(1,\): a bias"),
        ("extended", torch.tensor([0.0, -torch.inf]), r"must be 0 or -3.40282e\+38 everywhere"),
        ("attention_mask", torch.tensor([1.0, 0.0]), "must be integers"),
        ("attention_mask", torch.tensor([1, 2]), r"must be 1 or 0 .* at \(1,\)"),
    ],
)
def test_what_is_not_in_its_form_is_refused(form, mask, said):
    with pytest.raises(ConfigError, match=said):
        convert(mask, form, "keep")


def test_no_such_form():
    with pytest.raises(ConfigError, match=r"form='bias': is not offered.*keep, ignore"):
        line("keep", "bias")
    with pytest.raises(ConfigError, match="form='bias'"):
        convert(torch.tensor([T]), "bias", "keep")
