"""The source in the sidebar: random weights, a real model, or a file of the user's own."""

from __future__ import annotations

import html
from typing import Any

import streamlit as st

from mha_core.errors import ConfigError
from mha_core.models.images import ImageModel
from mha_core.models.vision_image import decoded
from pages.shared import layers, look, own_maps, own_picture, own_weights, state, uploads
from pages.shared.choice import Choice, Given, Origin, Picture
from pages.shared.sources import SOURCES


def source_chooser(stored: dict[str, Any]) -> None:
    """Where weights and input come from."""
    # A layer of one model is none of another's: begin at the first.
    key, changed = state.widget("source", stored["source"], also={"layer": 0})
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
            _model(stored)
    if choice is not None and choice.words is not None and _is_of(stored, choice):
        st.html(look.block(_sizes(choice)))


def _is_of(stored: dict[str, Any], choice: Choice | Given) -> bool:
    """Whether the view is of the source in the chooser: it may be the last of another."""
    origin = choice.origin if isinstance(choice, Choice) else choice.source
    if isinstance(origin, Origin):
        named = stored["model"].strip() if stored["source"] == layers.OTHER else stored["source"]
        return bool(origin.model == named)
    return isinstance(origin, Picture) and stored["source"] == "picture"


def _model(stored: dict[str, Any]) -> None:
    """What a model reads, and the layer; for another model, which one."""
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
    try:
        source, download = layers.source_of(stored)
        model = layers.model_of(source, download=download)
    except ConfigError:
        _sentences(stored)
        return  # said where errors are
    if isinstance(model, ImageModel):
        uploads.uploader(
            layers.PHOTO, "a picture; until then, a drawn one", own_picture.TYPES,
            lambda data, _: decoded(data),
        )  # fmt: skip
    else:
        _sentences(stored)
    last = model.layers - 1
    if last > 0:
        key, changed = state.widget("layer", min(max(0, stored["layer"]), last))
        st.slider("layer", 0, last, key=key, on_change=changed)


def _sentences(stored: dict[str, Any]) -> None:
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
