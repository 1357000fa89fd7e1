"""The vision model on a picture of the user's, or on the one that comes with the project."""

from __future__ import annotations

from typing import Any

import streamlit as st
from PIL import Image

from mha_core.models.layer import Captured, configuration
from mha_core.models.vision import LAYERS, TOKENS, Prepared, VisionModel, load_vision, sample_image
from pages.shared import state, uploads
from pages.shared.choice import Choice, Picture, Words
from pages.shared.store import store

KIND, SAMPLE = "picture", "sample"
TYPES = ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"]


@st.cache_resource(show_spinner="Loading the vision model, once")
def model() -> VisionModel:
    """The model, that several sessions use."""
    return load_vision()


def _read(data: bytes, _name: str) -> Prepared:
    return model().prepare(data)


@st.cache_resource(show_spinner=False)
def _sample() -> Prepared:
    return model().prepare(sample_image())


def controls(stored: dict[str, Any]) -> None:
    """The picture and the layer."""
    uploads.uploader(KIND, "a picture; until then, a drawn one", TYPES, _read)
    key, changed = state.widget("layer", min(max(0, stored["layer"]), LAYERS - 1))
    st.slider("layer", 0, LAYERS - 1, key=key, on_change=changed)


def choice(stored: dict[str, Any]) -> Choice:
    """A layer of the vision model on the picture.

    Raises:
        ConfigError: the model is not installed, the picture was refused, no such layer.
    """
    model()
    file = uploads.uploaded(KIND, missing="") if uploads.given(KIND) else None
    origin = Picture(SAMPLE if file is None else file.digest, stored["layer"])
    special = (True, *([False] * (len(TOKENS) - 1)))
    words = Words((TOKENS,), (special,), (len(TOKENS),))
    return Choice(configuration(captured(origin)), None, origin, words)


def prepared(origin: Picture) -> Prepared:
    """The picture as the model takes it.

    Raises:
        Waiting: the session has another picture now.
    """
    if origin.digest == SAMPLE:
        return _sample()
    file = uploads.kept(KIND, origin.digest)
    if file is None:
        raise uploads.Waiting("picture", "another", "must be given again")
    found: Prepared = file.content
    return found


def image(origin: Picture) -> Image.Image:
    """The picture as it is drawn under the weights."""
    return prepared(origin).picture


def captured(origin: Picture) -> Captured:
    """What the layer was given, and what the model made of it."""
    found: Captured = store("captured").get(
        origin,
        lambda: model().capture(prepared(origin), origin.layer),
        lambda taken: taken.weights.nbytes + 2 * taken.x.nbytes,
    )
    return found
