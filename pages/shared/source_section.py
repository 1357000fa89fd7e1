"""The source: random weights, or a layer of a real model on sentences of the user's."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from pages.shared import layers, look, state
from pages.shared.choice import Choice

SOURCES = {"random": "random weights", **layers.NAMES}


def source_chooser(stored: dict[str, Any]) -> None:
    """Where weights and input come from."""
    key, changed = state.widget("source", stored["source"])
    st.selectbox(
        "source", list(SOURCES), key=key, on_change=changed,
        format_func=lambda name: SOURCES.get(name, name),
        help="Random weights show shapes; only trained ones show attention.",
    )  # fmt: skip


def source_controls(stored: dict[str, Any], choice: Choice | None) -> None:
    """Sentences, layer, and the sizes they make."""
    key, changed = state.widget("sentences", stored["sentences"])
    st.text_area(
        "sentences, one a line", key=key, on_change=changed, height=100,
        help="Each line is one batch item; shorter ones are padded.",
    )  # fmt: skip
    key, changed = state.widget("pair", stored["pair"])
    st.text_input(
        "second sentence", key=key, on_change=changed, placeholder="none",
        help="Beside a single sentence: the model reads both as a pair.",
    )  # fmt: skip
    model = layers.text_model(stored["source"])
    last = model.layers - 1
    key, changed = state.widget("layer", min(max(0, stored["layer"]), last))
    st.slider("layer", 0, last, key=key, on_change=changed)
    if choice is not None and choice.origin is not None:
        st.html(look.block(_sizes(choice)))


def _sizes(choice: Choice) -> str:
    c, config = look.colours(), choice.config
    parts = [
        (config.batch, "batch"), (config.time, "time"), (config.d_model, "d_model"),
        (config.heads, "h"), (config.d_k, "d_k"),
    ]  # fmt: skip
    cells = "".join(
        f'<span style="color:{c.tints[name]}">{name}</span><b>{value}</b>' for value, name in parts
    )
    assert choice.words is not None
    assert choice.origin is not None
    padded = sum(config.time - length for length in choice.words.lengths)
    note = f"; {padded} of padding" if padded else ""
    tokens = sum(choice.words.lengths)
    name = html.escape(choice.origin.name)
    return (
        f'<div class="sizes">{cells}</div>'
        f'<div class="key">{name}: {tokens} tokens{note}. Its weights and its tokens set the sizes.'
        "</div>"
    )
