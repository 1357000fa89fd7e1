"""Labels: always visible, otherwise as typed, and inert in a spreadsheet."""

import pytest

from mha_core.export.labels import EMPTY, clip, labels, neutral


@pytest.mark.parametrize(
    "word",
    ["the", "12", "2021-01-01", "<b>x</b>", "$x$", "naïve", "你好", "a b", "ĝis", "żaba", "👩‍👧"],
)
def test_typed_words_show_as_typed(word: str) -> None:
    assert labels([word]) == [word]


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("", EMPTY),
        (" ", "␣"),
        ("  ", "␣␣"),
        (" the", "␣the"),
        ("\n", "↵"),
        ("a\tb", "a⇥b"),
        ("\u00a0", "␣"),
        ("\u202eevil", "\\u202eevil"),
        ("\x00", "\\u0000"),
        ("\ud800", "\\ud800"),
        ("\uffff", "\\uffff"),
    ],
)
def test_what_has_no_ink_shows_as_a_symbol(token: str, shown: str) -> None:
    assert labels([token]) == [shown]


def test_byte_level_pieces_show_the_text_they_stand_for() -> None:
    # Public case 52, and its values: a space, a line feed, an accent of two bytes.
    assert labels(["ĠMurray", "Ċ", "Ã¡n", "", " "]) == ["␣Murray", "↵", "án", EMPTY, "␣"]


def test_a_letter_cut_between_two_pieces_shows_its_bytes() -> None:
    assert labels(["Ġna", "Ã", "¯", "ve"]) == ["␣na", "\\xc3", "\\xaf", "ve"]


def test_a_maltese_sentence_is_not_taken_for_byte_level_pieces() -> None:
    words = ["Ġunju", "huwa", "x-xahar", "ta\u2019", "żgħażagħ"]
    assert labels(words) == words


@pytest.mark.parametrize("token", ["=1+1", "+3", "-2", "@x", "\t=1", "\r=1", " =1", "＝1"])
def test_a_formula_gets_an_apostrophe(token: str) -> None:
    assert neutral(token, labels([token])[0]).startswith("'")


@pytest.mark.parametrize("token", ["the", "1-2", "a=b", "me@x", "", "'quoted"])
def test_other_labels_are_left_alone(token: str) -> None:
    assert neutral(token, labels([token])[0]) == labels([token])[0]


def test_a_long_label_says_that_it_goes_on() -> None:
    assert clip("abcdef", 4) == "abc…"
    assert clip("abcd", 4) == "abcd"
