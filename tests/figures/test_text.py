"""Labels show what was typed, escaped; numbers as a person reads them."""

from __future__ import annotations

import html
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_core.figures.text import (
    breakable,
    label,
    labels,
    number,
    plural,
    tinted,
    tinted_sizes,
)
from mha_core.palette import DARK, LIGHT
from tests.figures.support import ODD, Tree


@given(st.text(max_size=30))
def test_a_label_is_never_empty_never_markup_and_never_long(token):
    shown = label(token)
    plain = html.unescape(shown)
    assert plain.strip()
    assert "<" not in shown
    assert ">" not in shown
    assert len(plain) <= 12


inked = st.characters(codec="utf-8", exclude_categories=["Z", "C"])


@given(st.text(inked, min_size=1, max_size=12))
def test_a_short_label_reads_as_typed(token):
    tree = Tree(f"<p>{label(token)}</p>")
    assert tree.balanced
    assert len(tree.found) == 1
    assert "".join(tree.found[0][2]) == token


def test_a_long_token_is_cut_in_the_middle_before_it_is_escaped():
    assert label("abcdefghijklmnop") == "abcdefgh…nop"
    assert label("&" * 20) == "&amp;" * 8 + "…" + "&amp;" * 3
    assert label("abcdefghijkl") == "abcdefghijkl"


@pytest.mark.parametrize(
    ("token", "shown"), [("", "∅"), (" ", "␣"), ("   ", "␣␣␣"), ("\n", "⏎"), ("\t", "⇥")]
)
def test_what_has_no_ink_has_a_sign(token, shown):
    assert label(token) == shown


def test_there_is_one_label_a_position():
    assert labels(None, 3) == ["0", "1", "2"]
    assert len(labels(ODD, len(ODD))) == len(ODD)
    assert labels(("a", "a"), 2) == ["a", "a"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.123456, "0.1235"),
        (-2.5, "−2.5"),
        (1234567.0, "1.235e+06"),
        (1e-7, "1e−07"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_short_with_a_true_minus_and_infinities_by_name(value, text):
    assert number(value) == text


def test_numbers_have_as_many_digits_as_asked():
    assert number(2 / 3, 2) == "0.67"


def test_plurals():
    assert (plural(1, "head"), plural(2000, "row")) == ("1 head", "2,000 rows")


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_shapes_are_written_as_shapes_with_a_tint_an_axis(colours):
    axes = ("batch", "h", "time", "d_k")
    for text, shown in (
        (tinted(axes, colours), axes),
        (tinted_sizes((2, 3, 5, 7), axes, colours), ("2", "3", "5", "7")),
    ):
        tree = Tree(f"<p>{text}</p>")
        assert "".join(tree.found[0][2]) == f"({', '.join(shown)})"
        spans = tree.all("span")
        assert spans == [
            ({"style": f"color:{colours.tints[axis]}"}, word)
            for axis, word in zip(axes, shown, strict=True)
        ]


def test_sizes_and_names_must_be_as_many():
    with pytest.raises(ValueError, match="zip"):
        tinted_sizes((2, 3), ("batch",), LIGHT)


def test_an_operation_breaks_after_a_bracket_and_before_a_dot_but_not_in_its_sizes():
    shown = breakable("contiguous().view(batch, d_model)")
    assert shown == "contiguous()<wbr>.view(<wbr>batch, d_model)"
    assert breakable("transpose(1, 2)") == 'transpose(<wbr><span class="nb">1, 2</span>)'
    assert Tree(f"<p>{breakable('a < b(1, 2)')}</p>").balanced
