"""Attention maps of the user's own: checked, and looked at like any others."""

from __future__ import annotations

from typing import Any

import streamlit as st

from mha_core.attention_files import read_attention
from mha_core.attention_given import GivenAttention
from mha_core.attention_maps import given_maps, squared
from mha_core.attention_rows import check_rows
from mha_core.attention_tokens import check_tokens, read_tokens
from mha_core.errors import ConfigError
from mha_core.maps import HeadMaps
from pages.shared import state, uploads
from pages.shared.choice import Given

KIND, TOKENS = "maps", "tokens"
_EXPECTED = (
    "must be .npz, .npy, .safetensors or .pt with weights (h, time, time), (batch, h, time, time) "
    "or a tuple of layers, as output_attentions=True gives"
)


def controls(stored: dict[str, Any]) -> None:
    """The maps, their tokens, and the layer."""
    uploads.uploader(KIND, "attention weights", ["npz", "npy", "safetensors", "pt", "pth"],
                     read_attention)  # fmt: skip
    uploads.uploader(
        TOKENS, "tokens, if any: JSON or text", ["json", "txt"], lambda data, _: read_tokens(data)
    )
    file = uploads.there(KIND)
    if file is None:
        return
    given: GivenAttention = file.content
    if len(given.layers) > 1:
        last = len(given.layers) - 1
        key, changed = state.widget("layer", min(max(0, stored["layer"]), last))
        st.slider("layer", 0, last, key=key, on_change=changed)
    st.caption(f"{uploads.plain(file.name)}: {uploads.plain(given.names[_index(given, stored)])}")


def _index(given: GivenAttention, stored: dict[str, Any]) -> int:
    return int(min(max(0, stored["layer"]), len(given.layers) - 1))


def choice(stored: dict[str, Any]) -> Given:
    """The maps of the chosen layer.

    Raises:
        ConfigError: the file or its tokens do not fit.
        Waiting: no file was given yet.
    """
    file = uploads.uploaded(KIND, missing=_EXPECTED)
    given: GivenAttention = file.content
    layer = _index(given, stored)
    weights = given.layers[layer]
    tokens = None
    if uploads.given(TOKENS):
        tokens = tuple(uploads.uploaded(TOKENS, missing="").content)
        check_tokens(tokens, weights)
    batch, heads, queries, keys = weights.shape
    checked = check_rows(given)
    notes = [] if checked.warning is None else [checked.warning]
    if checked.unseen:
        notes.append(f"{checked.unseen} of {checked.rows} rows see no key: all their weights are 0")
    if queries != keys:
        notes.append(f"{queries} queries and {keys} keys: what is missing of the square is absent")
    title = f"{file.name}, {given.names[layer]}"
    return Given(
        (file.digest, layer), title, batch, heads, max(queries, keys), tokens, None, tuple(notes)
    )


def maps(given: Given, item: int) -> HeadMaps:
    """The maps of a batch item.

    Raises:
        ConfigError: the session has another file now.
    """
    assert isinstance(given.source, tuple)
    digest, layer = given.source
    file = uploads.kept(KIND, digest)
    if file is None:
        raise ConfigError("file", given.title, "must be given again")
    return squared(given_maps(file.content.layers[layer], item))
