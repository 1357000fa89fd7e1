"""Ranges of positions, as people type them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_core.errors import ConfigError
from mha_core.ranges import read_range, write_range


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("1000–1200", (1000, 1201)),
        ("1,000-1,200", (1000, 1201)),
        (" 0 : 9 ", (0, 10)),
        ("3..5", (3, 6)),
        ("3 to 5", (3, 6)),
        ("7", (7, 8)),
        ("", (0, 2000)),
        ("   ", (0, 2000)),
        ("0–1999", (0, 2000)),
    ],
)
def test_both_ends_are_meant(text: str, span: tuple[int, int]) -> None:
    assert read_range(text, 2000, "keys") == span


@pytest.mark.parametrize(
    ("text", "rule", "works"),
    [
        ("9–3", "reversed", "3–9"),
        ("-4–3", "within 0–9", "0–3"),
        ("5–10", "within 0–9", "5–9"),
        ("99999999999999999999", "within 0–9", "9–9"),
        ("one to two", "two positions", "0–9"),
        ("1.5–2", "two positions", "0–9"),
        ("٣–٤", "two positions", "0–9"),
        ("1–2–3", "two positions", "0–9"),
        ("<b>", "two positions", "0–9"),
    ],
)
def test_what_is_no_range_is_refused(text: str, rule: str, works: str) -> None:
    with pytest.raises(ConfigError, match=rule) as caught:
        read_range(text, 10, "queries")
    assert caught.value.field == "queries"
    assert works in str(caught.value)


def test_an_error_repeats_only_so_much() -> None:
    with pytest.raises(ConfigError) as caught:
        read_range("x" * 10_000, 10, "keys")
    assert len(str(caught.value)) < 300


@given(st.integers(1, 10**5), st.data())
def test_what_is_written_is_read_back(time: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, time - 1))
    span = (start, data.draw(st.integers(start + 1, time)))
    assert read_range(write_range(span, time), time, "keys") == span


@given(st.text(max_size=30), st.integers(1, 1000))
def test_any_text_is_a_range_or_refused(text: str, time: int) -> None:
    with contextlib.suppress(ConfigError):
        start, stop = read_range(text, time, "keys")
        assert 0 <= start < stop <= time
