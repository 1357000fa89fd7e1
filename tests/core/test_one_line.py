"""One row or column of weights: the strongest, their sums and the bars, against Python's own."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_core import MHAConfig, trace_forward
from mha_core.errors import ConfigError
from mha_core.one_line import line_of

NUMBERS = st.lists(st.tuples(st.floats(0, 1, width=32), st.booleans()), min_size=1, max_size=60)


def made(pairs, index=0, direction="query"):
    values = torch.tensor([value for value, _ in pairs], dtype=torch.float32)
    visible = torch.tensor([seen for _, seen in pairs])
    return line_of(values, visible, index, direction)


@settings(deadline=None, max_examples=150)
@given(NUMBERS, st.integers(1, 70))
def test_the_strongest_are_sorted_and_their_sums_run(pairs, count):
    line = made(pairs)
    ranked = sorted(
        (place for place, (_, seen) in enumerate(pairs) if seen), key=lambda at: -pairs[at][0]
    )
    assert line.seen == len(ranked)
    assert line.strongest(count) == ranked[:count]
    running = line.running(count)
    assert len(running) == len(ranked[:count])
    for rank, value in enumerate(running):
        expected = math.fsum(pairs[at][0] for at in ranked[: rank + 1])
        assert value == pytest.approx(expected, rel=1e-12)
    assert line.total == pytest.approx(math.fsum(pairs[at][0] for at in ranked), abs=1e-12)
    assert line.largest == (pairs[ranked[0]][0] if ranked else 0)


@settings(deadline=None, max_examples=100)
@given(NUMBERS)
def test_half_is_held_by_the_fewest(pairs):
    line = made(pairs)
    held = sorted((value for value, seen in pairs if seen), reverse=True)
    count, middle = line.half(), math.fsum(held) / 2
    if not middle:
        assert count == 0
        return
    assert math.fsum(held[:count]) >= middle * (1 - 1e-12)
    assert math.fsum(held[: count - 1]) < middle * (1 + 1e-12)


@settings(deadline=None, max_examples=100)
@given(NUMBERS, st.integers(1, 20))
def test_a_bar_is_the_largest_visible_of_what_it_holds(pairs, most):
    bars, spans = made(pairs).bars(most)
    assert len(bars) == len(spans) <= most
    assert [place for start, stop in spans for place in range(start, stop)] == list(
        range(len(pairs))
    )
    for bar, (start, stop) in zip(bars, spans, strict=True):
        there = [value for value, seen in pairs[start:stop] if seen]
        assert bar == max(there) if there else math.isnan(bar)


def test_a_row_and_a_column_of_real_weights():
    trace = trace_forward(MHAConfig(time=13, causal=True), profile=False)
    weights, visible = trace.weights[1, 2], torch.ones(13, 13, dtype=torch.bool).tril()
    row = line_of(weights[7], visible[7], 7)
    assert (row.seen, row.others) == (8, "key")
    assert row.total == pytest.approx(1, abs=1e-6)
    column = line_of(weights[:, 7], visible[:, 7], 7, "key")
    assert (column.seen, column.others) == (6, "query")
    assert column.total == pytest.approx(float(weights[:, 7].double().sum()), abs=1e-6)
    assert column.strongest(1) == [int(weights[:, 7].argmax())]


def test_equal_weights_keep_their_order():
    line = line_of(torch.full((6,), 0.25), None, 0)
    assert line.strongest(3) == [0, 1, 2]
    assert line.half() == 3


def test_what_was_given_is_left_as_it_was():
    weights, visible = torch.rand(9), torch.arange(9) < 4
    before = weights.clone()
    line = line_of(weights, visible, 2)
    assert torch.equal(weights, before)
    assert np.isnan(line.values[4:]).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_any_floating_dtype(dtype):
    weights = torch.tensor([0.25, 0.5, 0.125], dtype=dtype)
    assert line_of(weights, None, 0).values.tolist() == [0.25, 0.5, 0.125]


def test_nothing_visible():
    line = line_of(torch.zeros(5), torch.zeros(5, dtype=torch.bool), 3)
    assert (line.seen, line.largest, line.total, line.half()) == (0, 0.0, 0.0, 0)
    assert line.strongest(4) == line.running(4) == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1])
def test_what_is_no_weight_is_refused_unless_it_is_masked(bad):
    values = torch.tensor([0.5, bad, 0.5])
    with pytest.raises(ConfigError, match=r"weights=.*must be numbers from 0 on"):
        line_of(values, None, 0)
    assert line_of(values, torch.tensor([True, False, True]), 0).total == 1


def test_wrong_shapes_and_positions_are_refused():
    with pytest.raises(ConfigError, match=r"must be one row or column, \(n,\)"):
        line_of(torch.rand(3, 3), None, 0)
    with pytest.raises(ConfigError, match=r"must be one row or column, \(n,\)"):
        line_of(torch.rand(0), None, 0)
    with pytest.raises(ConfigError, match=r"visible=\(4,\): must be of the shape"):
        line_of(torch.rand(3), torch.ones(4, dtype=torch.bool), 0)
    for index in (-1, 3):
        with pytest.raises(ConfigError, match=f"key={index}: must be from 0 to 2"):
            line_of(torch.rand(3), None, index, "key")
