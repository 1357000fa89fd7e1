"""Layers of real models: each model loaded once for all sessions, what ran kept for a while."""

from __future__ import annotations

import streamlit as st

from mha_core import MHAConfig, Trace, budget
from mha_core.models.hub import MINILM, Encoded, TextModel, load
from mha_core.models.layer import TOLERANCE, Captured, Retraced, configuration, retrace
from mha_core.proofs import Proof
from pages.shared.choice import Choice, Origin, Words
from pages.shared.store import store

NAMES = {MINILM: "MiniLM-L6"}


@st.cache_resource(show_spinner="Loading the model, once", max_entries=2)
def text_model(source: str) -> TextModel:
    """A model that several sessions use: nothing of it is changed."""
    return load(source)


def choice(source: str, layer: int, sentences: str, pair: str) -> Choice:
    """A layer of a model on sentences, one a line.

    Raises:
        ConfigError: naming the field at fault.
    """
    texts = tuple(line for line in sentences.splitlines() if line.strip())
    origin = Origin(source, layer, texts, pair.strip() or None, NAMES.get(source, source))
    encoded = _encoded(origin)
    model = text_model(source)
    batch, time = encoded.inputs["input_ids"].shape
    # Before it runs: what it will take is known from its sizes.
    budget.check(MHAConfig(batch=batch, time=time, d_model=model.d_model, heads=model.heads))
    words = Words(encoded.tokens, encoded.special, encoded.lengths)
    return Choice(configuration(captured(origin)), None, origin, words)


def _encoded(origin: Origin) -> Encoded:
    return text_model(origin.model).encode(origin.texts, origin.pair)


def captured(origin: Origin) -> Captured:
    """What the layer was given, and what the model made of it."""

    def run() -> Captured:
        return text_model(origin.model).capture(_encoded(origin), origin.layer)

    found: Captured = store("captured").get(
        origin, run, lambda taken: taken.weights.nbytes + 2 * taken.x.nbytes
    )
    return found


def retraced(origin: Origin) -> Retraced:
    """Our forward on the layer, not yet timed, with the differences from the model's own."""
    found: Retraced = store("traces").get(
        origin, lambda: retrace(captured(origin), clock=False), lambda one: trace_bytes(one.trace)
    )
    return found


def trace_bytes(trace: Trace) -> int:
    """Bytes of what a trace holds: its tensors and its module's weights."""
    return trace.kept_bytes + sum(parameter.nbytes for parameter in trace.module.parameters())


def same(origin: Origin) -> Proof:
    """Our forward gives what the model itself gave."""
    one = retraced(origin)
    limit = TOLERANCE[one.trace.x.dtype]
    return Proof(
        f"equals {origin.name}",
        one.weights_difference <= limit,  # `retrace` has refused what is not
        f"weights {one.weights_difference:.1e}, output {one.output_difference:.1e}",
        f"largest difference from the model's own layer {origin.layer}, over all batch items, "
        "heads, queries and keys",
    )
