"""Layers of text models: each model loaded once for all sessions, what ran kept for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from mha_core import MHAConfig, budget
from mha_core.models.encoded import Encoded
from mha_core.models.hub import MINILM, TextModel, load
from mha_core.models.images import ImageModel
from mha_core.models.layer import Captured, configuration
from mha_core.models.vision import sample_image
from pages.shared.choice import Choice, Given, Origin, Words
from pages.shared.store import store
from pages.shared.uploads import Upload, Waiting, kept, there, uploaded

NAMES = {MINILM: "MiniLM-L6"}
OTHER = "other"
PHOTO, SAMPLE = "photo", "sample"  # the picture for a vision model


@st.cache_resource(show_spinner="Loading the model, once", max_entries=3)
def model_of(source: str, *, download: bool = False) -> TextModel | ImageModel:
    """A model that several sessions use: nothing of it is changed."""
    return load(source, download=download)


def source_of(stored: dict[str, Any]) -> tuple[str, bool]:
    """The model asked for, and whether it may be fetched.

    Raises:
        Waiting: another model is wanted, and none was named yet.
    """
    if stored["source"] != OTHER:
        return stored["source"], False
    name = stored["model"].strip()
    if not name:
        raise Waiting(
            "model", "none yet", "must be a local folder, or the id of a model on the hub"
        )
    return name, bool(stored["download"])


def choice(stored: dict[str, Any]) -> Choice | Given:
    """A layer of a model on sentences, one a line; its maps alone where it is not plain.

    Raises:
        ConfigError: naming the field at fault.
        Waiting: no model was named yet.
    """
    source, download = source_of(stored)
    model = model_of(source, download=download)
    if isinstance(model, ImageModel):
        picture = photo()
        digest = SAMPLE if picture is None else picture.digest
        origin = Origin(source, stored["layer"], (), None, model.name, download, digest)
    else:
        texts = tuple(line for line in stored["sentences"].splitlines() if line.strip())
        pair = stored["pair"].strip() or None
        origin = Origin(source, stored["layer"], texts, pair, model.name, download)
    encoded = _encoded(origin)
    batch, time = len(encoded.tokens), len(encoded.tokens[0])
    # Before it runs: what it will take is known from its sizes.
    width = -(-model.d_model // model.heads) * model.heads
    budget.check(MHAConfig(batch=batch, time=time, d_model=width, heads=model.heads))
    words = Words(encoded.tokens, encoded.special, encoded.lengths)
    taken = captured(origin)
    if taken.module is None:
        heads = taken.weights.shape[1]
        notes = tuple(f"Not plain multi-head attention: {why}." for why in taken.uncovered)
        return Given(origin, taken.name, batch, heads, time, None, words, notes)
    return Choice(configuration(taken), None, origin, words)


def photo() -> Upload | None:
    """The picture for a vision model; None where it is the drawn one.

    Raises:
        ConfigError: the last one given was refused.
    """
    refused = st.session_state.get(f"refused_{PHOTO}") is not None
    return uploaded(PHOTO, missing="") if refused else there(PHOTO)


def _encoded(origin: Origin) -> Encoded:
    model = model_of(origin.model, download=origin.download)
    if isinstance(model, TextModel):
        return model.encode(origin.texts, origin.pair)
    if origin.picture == SAMPLE:
        return model.encode(sample_image())
    file = kept(PHOTO, origin.picture)
    if file is None:
        raise Waiting("picture", "another", "must be given again")
    return model.encode(file.content)


def captured(origin: Origin) -> Captured:
    """What the layer was given, and what the model made of it."""

    def run() -> Captured:
        model = model_of(origin.model, download=origin.download)
        return model.capture(_encoded(origin), origin.layer)

    found: Captured = store("captured").get(
        origin, run, lambda taken: taken.weights.nbytes + 2 * taken.x.nbytes
    )
    return found


def is_folder(name: str) -> bool:
    return Path(name.strip()).expanduser().is_dir()
