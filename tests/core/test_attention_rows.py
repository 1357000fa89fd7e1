"""Given weights are looked at: what cannot be weights is refused, what is off is told."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError
from mha_core.attention_given import given_attention
from mha_core.attention_rows import Row, check_rows
from tests.core.support import BATCH, HEADS, TIME, TIME_K, randn

SHAPE = (BATCH, HEADS, TIME, TIME_K)


def maps(seed=0, dtype=torch.float32, shape=SHAPE):
    return randn(*shape, seed=seed, dtype=torch.float32).softmax(-1).to(dtype)


def check(*layers, **how):
    return check_rows(given_attention(layers), **how)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_weights_of_every_dtype_pass_with_the_rounding_of_their_own(dtype):
    found = check(maps(dtype=dtype, shape=(2, 3, 64, 257)))
    assert (found.off, found.unseen, found.first, found.warning) == (0, 0, (), None)
    assert found.rows == 2 * 3 * 64
    assert 0 <= found.largest < found.tolerance


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [("float16", 1e-2), ("bfloat16", 2e-2), ("float32", 1e-4), ("float64", 1e-4)],
)
def test_the_tolerance_is_the_dtypes(dtype, tolerance):
    for share, off in ((0.4, 0), (1.9, 1)):
        weights = torch.zeros(1, 1, 1, 2, dtype=torch.float64)
        weights[..., 0] = 1 - share * tolerance
        found = check(weights.to(getattr(torch, dtype)))
        assert (found.off, found.tolerance) == (off, tolerance)


def test_a_tolerance_that_is_given_is_the_one():
    assert check(maps() * 0.97, tolerance=0.04).off == 0
    assert check(maps() * 0.97, tolerance=0.02).off == BATCH * HEADS * TIME


def test_rows_that_are_off_are_told_by_place_number_and_how_much():
    one, two = maps(), maps(1)
    two[1, 2, 3] *= 0.889
    two[1, 2, 4] *= 1.05
    found = check(one, two)
    assert (found.off, found.rows, found.unseen) == (2, 2 * BATCH * HEADS * TIME, 0)
    assert found.first[0] == Row(1, 1, 2, 3, pytest.approx(0.889, abs=1e-5))
    assert [row.query for row in found.first] == [3, 4]
    assert found.largest == pytest.approx(0.111, abs=1e-5)
    assert "2 of 60 rows do not sum to 1 (± 0.0001)" in found.warning
    assert "off by 0.111" in found.warning
    assert "layer 1, batch item 1, head 2, query 3, sums to 0.889" in found.warning


@given(st.lists(st.integers(0, BATCH * HEADS * TIME * 2 - 1), unique=True), st.integers(0, 9))
def test_every_row_that_is_off_is_counted_and_the_first_five_are_named(places, seed):
    rows = torch.stack([maps(seed), maps(seed + 1)]).flatten(0, 3)
    rows[places] *= 0.9
    found = check(*rows.view(2, *SHAPE))
    assert found.off == len(places)
    flat = [
        ((row.layer * BATCH + row.item) * HEADS + row.head) * TIME + row.query
        for row in found.first
    ]
    assert flat == sorted(places)[:5]


def test_rows_without_a_key_are_counted_apart():
    weights = maps()
    weights[1, 0, 2:4] = 0
    found = check(weights)
    assert (found.unseen, found.off, found.warning) == (2, 0, None)
    assert check(torch.zeros(SHAPE)).unseen == BATCH * HEADS * TIME


@pytest.mark.parametrize("p", [0.1, 0.2, 0.5])
def test_dropout_in_training_is_a_warning(p):
    # pytorch/pytorch#42929: weights are 1/(1 - p) or 0, and some rows lose every key.
    torch.manual_seed(0)
    causal = randn(3, 7, 31, 31, dtype=torch.float32)
    causal = causal.masked_fill(torch.ones(31, 31).triu(1).bool(), -torch.inf).softmax(-1)
    found = check(torch.nn.functional.dropout(causal, p))
    assert found.off > 0
    assert "model.eval()" in found.warning


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, -0.01, 2.5])
def test_a_value_that_is_no_weight_is_refused_with_its_first_index(value):
    weights = maps(seed=3)
    weights[1, 2, 3, 7] = value
    weights[1, 2, 4, 0] = value
    with pytest.raises(ConfigError, match=r"layer 1=.*the first of 2 that break this") as caught:
        check(maps(), weights)
    assert "batch item 1, head 2, query 3, key 7 of shape (2, 3, 5, 11)" in str(caught.value)
    # A row of NaN is what a softmax makes of a query without a key: no sign of scores.
    assert ("scores" in str(caught.value)) == (value == value and value != torch.inf)


@pytest.mark.parametrize(
    "scores",
    [
        randn(*SHAPE),
        randn(*SHAPE).abs(),
        randn(*SHAPE).sigmoid(),
        randn(*SHAPE).masked_fill(torch.ones(TIME, TIME_K).triu(1).bool(), -torch.inf),
        torch.full(SHAPE, 0.01),
        randn(*SHAPE).softmax(-2) * 1.5,
        torch.tensor([[[1.5, 0.2]]]),
    ],
)
def test_scores_are_refused_as_scores(scores):
    with pytest.raises(ConfigError, match=r"look like scores.*after softmax"):
        check(scores)
