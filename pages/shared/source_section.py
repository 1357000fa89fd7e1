"""The source in the sidebar: random weights, a real model, or a file of the user's own."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from mha_core.errors import ConfigError
from pages.shared import layers, look, own_maps, own_picture, own_weights, state
from pages.shared.choice import Choice, Given
from pages.shared.sources import SOURCES


def source_chooser(stored: dict[str, Any]) -> None:
    """Where weights and input come from."""
    key, changed = state.widget("source", stored["source"])
    st.selectbox(
        "source", list(SOURCES), key=key, on_change=changed,
        format_func=lambda name: SOURCES.get(name, name),
        help="Random weights show shapes; only trained ones show attention.",
    )  # fmt: skip


def source_controls(stored: dict[str, Any], choice: Choice | Given | None) -> None:
    """What the source needs, and the sizes it makes."""
    match stored["source"]:
        case "picture":
            own_picture.controls(stored)
        case "weights":
            own_weights.controls(stored)
        case "maps":
            own_maps.controls(stored)
        case _:
            _text(stored)
    if choice is not None and choice.words is not None:
        st.html(look.block(_sizes(choice)))


def _text(stored: dict[str, Any]) -> None:
    """Sentences and layer; for another model, which one."""
    if stored["source"] == layers.OTHER:
        key, changed = state.widget("model", stored["model"])
        st.text_input(
            "folder, or hub id", key=key, on_change=changed, placeholder="e.g. ~/models/gpt2",
            help="A model of transformers with its tokenizer, on this machine. Weights from "
            "safetensors only; no code that comes with it is run.",
        )  # fmt: skip
        if stored["model"].strip() and not layers.is_folder(stored["model"]):
            key, changed = state.widget("download", stored["download"])
            st.toggle("download it from the hub", key=key, on_change=changed)
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
    try:
        source, download = layers.source_of(stored)
        last = layers.text_model(source, download=download).layers - 1
    except ConfigError:
        return  # said where errors are
    if last > 0:
        key, changed = state.widget("layer", min(max(0, stored["layer"]), last))
        st.slider("layer", 0, last, key=key, on_change=changed)


def _sizes(choice: Choice | Given) -> str:
    c = look.colours()
    of = choice.config if isinstance(choice, Choice) else choice
    parts: list[tuple[str, int]] = [("batch", of.batch), ("time", of.time)]
    if isinstance(choice, Choice):
        parts.append(("d_model", choice.config.d_model))
    parts.append(("h", of.heads))
    if isinstance(choice, Choice):
        parts.append(("d_k", choice.config.d_k))
    cells = "".join(
        f'<span style="color:{c.tints[name]}">{name}</span><b>{value}</b>' for name, value in parts
    )
    assert choice.words is not None
    padded = sum(of.time - length for length in choice.words.lengths)
    note = f"; {padded} of padding" if padded else ""
    name = choice.title if isinstance(choice, Given) else getattr(choice.origin, "name", "")
    return (
        f'<div class="sizes">{cells}</div>'
        f'<div class="key">{html.escape(name)}: {sum(choice.words.lengths)} tokens{note}. '
        "The model and its tokens set the sizes.</div>"
    )
