"""Charts as plain data: axes that hold every point, ticks at round numbers, words for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_core.charts import (
    Chart,
    Mark,
    Series,
    alt_text,
    colour,
    legend,
    marks_within,
    short_seconds,
    si,
    written,
    x_axis,
    y_axis,
)
from mha_core.palette import DARK, LIGHT

UNITS = ["number", "bytes", "FLOPs", "seconds", "ratio", "nats"]


def chart(x=(16.0, 32.0), y=(1.0, 2.0), unit="number", **changes):
    return Chart("cost", "time", unit, (Series("one", tuple(x), tuple(y), "time"),), **changes)


@given(
    st.lists(st.floats(1e-9, 1e15), min_size=1, max_size=9),
    st.sampled_from(UNITS),
    st.booleans(),
)
def test_the_axis_holds_every_point_and_its_ticks_lie_on_it(y, unit, log):
    made = chart(range(1, len(y) + 1), y, unit, log_y=log)
    axis = y_axis(made)
    assert axis.low <= min(y)
    assert max(y) <= axis.high
    assert len(axis.ticks) == len(axis.words)
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert len(axis.ticks) <= 14
    if log:
        assert axis.low > 0
        assert all(axis.low <= tick <= axis.high for tick in axis.ticks)


@given(st.sets(st.integers(1, 10**6), min_size=1, max_size=40), st.integers(2, 9))
def test_x_has_ticks_at_sizes_that_were_computed(sizes, most):
    made = chart(sorted(map(float, sizes)), [1.0] * len(sizes))
    axis = x_axis(made, most)
    assert set(axis.ticks) <= set(map(float, sizes))
    assert len(axis.ticks) <= most
    assert axis.low < min(sizes)
    assert max(sizes) < axis.high


def test_spreads_and_reach_widen_the_axes():
    one = Series("one", (16.0,), (2.0,), "time", low=(1.0,), high=(500.0,))
    made = Chart("cost", "time", "ratio", (one,), reach=(4.0, 64.0))
    assert y_axis(made).low < 1.0
    assert y_axis(made).high > 500.0
    assert x_axis(made).ticks == (4.0, 16.0, 64.0)


def test_an_empty_chart_has_no_numbers_on_it():
    made = Chart("cost", "time", "seconds", (), empty="not measured yet", reach=(16.0, 32.0))
    assert y_axis(made).words == ()
    assert x_axis(made).words == ("16", "32")
    assert alt_text([made]) == "cost over time: not measured yet."


def test_bytes_have_ticks_at_powers_of_two():
    axis = y_axis(chart(y=(1000.0, 3e9), unit="bytes"))
    assert all(tick == 2 ** round(tick.bit_length() - 1) for tick in map(int, axis.ticks))
    assert all(word.endswith(("iB", " B")) for word in axis.words)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1536, "bytes", "1.5 KiB"), (1024, "bytes", "1 KiB"), (2.5e9, "FLOPs", "2.5 G"),
        (999, "FLOPs", "999"), (1e15, "FLOPs", "1 P"), (0.00002, "seconds", "20 µs"),
        (0.0015, "seconds", "1.5 ms"), (2.0, "seconds", "2 s"), (3e-9, "seconds", "3 ns"),
        (2.345, "ratio", "2.35 ×"), (1.386, "nats", "1.39"), (31.9697, "number", "31.97"),
    ],
)  # fmt: skip
def test_values_are_written_with_their_unit(value, unit, expected):
    assert written(value, unit) == expected


def test_si_and_seconds_keep_three_digits():
    assert si(123_456) == "123 k"
    assert short_seconds(0.123456) == "123 ms"


def test_the_legend_has_a_name_once_and_no_colour_where_they_differ():
    one = Series("a", (1.0,), (1.0,), "time")
    other = Series("a", (1.0,), (2.0,), "batch", "points")
    same = Series("b", (1.0,), (2.0,), "batch")
    made = [
        Chart("x", "time", "number", (one, same)),
        Chart("y", "time", "number", (other, same)),
    ]
    assert [(series.name, series.colour) for series in legend(made)] == [
        ("b", "batch"), ("a", "muted"),
    ]  # fmt: skip


def test_words_say_both_ends_and_the_marks():
    made = chart(marks=(Mark(24.0, "equal"),))
    assert alt_text([made]) == "cost over time: one from 1 at 16 to 2 at 32; equal at 24."


def test_marks_beyond_the_axis_are_left_out():
    made = chart(marks=(Mark(20.0, "in"), Mark(4000.0, "out")))
    assert [mark.text for mark in marks_within(made, x_axis(made))] == ["in"]


@pytest.mark.parametrize("ground", [LIGHT, DARK])
def test_colours_are_the_palettes(ground):
    assert colour("time", ground) == ground.tints["time"]
    assert colour("muted", ground) == ground.muted
