"""Tokens of given weights: kept as typed, and never cut to fit."""

from __future__ import annotations

import contextlib
import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError
from mha_core.attention_tokens import check_tokens, read_tokens

ODD = [
    "the",
    "the",
    "7",
    "2024-01-02",
    "<b>x</b>",
    "=1+1",
    "a\x00b",
    "\u202eשלום",
    "👩‍👩‍👧",
    "Ġcat",
    "▁",
]
TOKENS = st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1)


@given(TOKENS)
def test_a_json_list_gives_the_tokens_it_holds(tokens):
    for text in (json.dumps(tokens), json.dumps(tokens, ensure_ascii=False, indent=1)):
        assert read_tokens(text) == tokens
        assert read_tokens(text.encode()) == tokens


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"])), min_size=1))
def test_lines_are_tokens_with_their_spaces(tokens):
    tokens = ["a[", *tokens, "b"]
    for text in ("\n".join(tokens), "\n".join(tokens) + "\n"):
        assert read_tokens(text) == tokens
        assert read_tokens(text.replace("\n", "\r\n").encode("utf-8-sig")) == tokens


@pytest.mark.parametrize("form", [json.dumps, "\n".join, " ".join])
def test_odd_tokens_are_kept_as_typed(form):
    assert read_tokens(form(ODD)) == ODD
    assert read_tokens(form(ODD).encode()) == ODD


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("[CLS] the cat [SEP]", ["[CLS]", "the", "cat", "[SEP]"]),
        ("[CLS]\nthe\n", ["[CLS]", "the"]),
        ("a\n\n \nb\n", ["a", "", " ", "b"]),
        ("the cat sat\n\n", ["the", "cat", "sat"]),
        ("the\ncat\n\n", ["the", "cat", ""]),
        ("a\nb\r\nc", ["a", "b\r", "c"]),
        ("a\x0bb\x85c\nd", ["a\x0bb\x85c", "d"]),
        ('["", " ", "\\n"]', ["", " ", "\n"]),
    ],
)
def test_each_form_is_told_from_the_others(text, tokens):
    assert read_tokens(text) == tokens


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("", "must have at least one token"),
        (" \n\n", "must have at least one token"),
        ("[]", "must have at least one token"),
        ('["the", 7]', "tokens='7': must be a list of strings; token 1 is not one"),
        ("[null]", "tokens='None'.*token 0"),
        ('["a", "b"', "JSON list that cannot be read: Expecting"),
        (r'["\ud800"]', "token 0 has half of a character"),
        ("a \udfff", "token 1 has half of a character"),
        (b"caf\xe9", r"tokens=b'\\xe9': must be UTF-8; byte 3 is not"),
        ("a b".encode("utf-16"), "must be UTF-8; byte 0 is not"),
        ("a" * (8 * 2**20 + 1), r"'8\.0 MiB': must be at most"),
    ],
)
def test_what_holds_no_tokens_is_refused(data, message):
    with pytest.raises(ConfigError, match=message):
        read_tokens(data)


@given(st.one_of(st.binary(), st.text(), st.text('[]"{},\\u\n ')))
def test_anything_is_tokens_or_a_config_error(data):
    with contextlib.suppress(ConfigError):
        assert read_tokens(data)


def test_brackets_without_end_are_text_or_a_config_error():
    assert read_tokens("[" * 100_000) == ["[" * 100_000]
    with pytest.raises(ConfigError, match="cannot be read"):
        read_tokens('["a",' + "[" * 100_000)


@given(st.integers(1, 30), st.integers(1, 30))
def test_the_count_must_be_the_axis_and_the_error_names_both(count, time):
    tokens, weights = ["a"] * count, torch.zeros(1, 2, time, time)
    if count == time:
        check_tokens(tokens, weights)
        return
    with pytest.raises(ConfigError, match=f"'{count} tokens': must be {time}, one a position"):
        check_tokens(tokens, weights)


def test_twelve_labels_on_sixteen_positions_are_not_cut():
    # jessevig/bertviz#80
    with pytest.raises(ConfigError, match=r"12 tokens.*must be 16.*16 queries and keys.*16, 16\)"):
        check_tokens(["a"] * 12, torch.zeros(1, 3, 16, 16))


def test_queries_and_keys_are_labelled_apart_where_they_differ():
    # pytorch/pytorch#27461: add_bias_kv and add_zero_attn add columns.
    weights = torch.zeros(2, 2, 3, 5)
    check_tokens(["a"] * 3, weights, axis="query")
    check_tokens(["a"] * 5, weights, axis="key")
    with pytest.raises(ConfigError, match=r"'3 tokens': must be 5.*the map has 5 keys"):
        check_tokens(["a"] * 3, weights, axis="key")
    for count in (3, 5):
        with pytest.raises(ConfigError, match="one list cannot label 3 queries and 5 keys"):
            check_tokens(["a"] * count, weights)
