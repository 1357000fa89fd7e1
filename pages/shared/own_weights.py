"""Weights of the user's own: the layer in the file, and what the file does not say."""

from __future__ import annotations

from typing import Any

import streamlit as st

from mha_core import MHAConfig, MultiHeadAttention
from mha_core.inputs import tokenize
from mha_core.layouts import Found, build, find_layers, read_state, survey
from pages.shared import state, uploads
from pages.shared.choice import Choice, Weights

KIND = "weights"
_EXPECTED = "must be a .safetensors or .pt state dict with the weights of an attention layer"


def _read(data: bytes, name: str) -> Any:
    tensors = read_state(data, name)
    find_layers(tensors)  # refuses a file with none
    return tensors


def controls(stored: dict[str, Any]) -> None:
    """The file, its layers, and the questions it leaves open."""
    uploads.uploader(KIND, "weights of one or more attention layers",
                     ["safetensors", "pt", "pth"], _read)  # fmt: skip
    file = uploads.there(KIND)
    if file is None:
        return
    both = survey(file.content)
    names = [found.prefix for found in both.found]
    if len(names) > 1:
        key, changed = state.widget("prefix", _layer(both.found, stored).prefix)
        st.selectbox("layer", names, key=key, on_change=changed)
    found = _layer(both.found, stored)
    st.caption(f"layout {found.layout}, d_model {found.d_model}, {found.dtype}")
    for question in found.asks:
        answer = _answers(stored, file.digest).get(question.field)
        shown = answer if answer in question.choices else None
        field = f"answer_{question.field}"
        key = f"w_{field}"
        st.session_state[key] = shown
        st.selectbox(
            question.field, question.choices, key=key, index=None, placeholder="choose",
            help=question.text, on_change=_answer, args=(file.digest, question.field, key),
        )  # fmt: skip
    for note in found.notes:
        st.caption(uploads.plain(note))
    for error in both.refused:
        st.caption(uploads.plain(f"not offered: {error}"))


def _answer(digest: str, field: str, key: str) -> None:
    answers = _answers(state.values(), digest)
    state.put({"answers": answers | {"file": digest, field: st.session_state[key]}})


def _answers(stored: dict[str, Any], digest: str) -> dict[str, Any]:
    """What was answered of this file: another one is asked again."""
    answers: dict[str, Any] = stored["answers"]
    return answers if answers.get("file") == digest else {}


def _layer(layers: tuple[Found, ...], stored: dict[str, Any]) -> Found:
    return next((found for found in layers if found.prefix == stored["prefix"]), layers[0])


def choice(stored: dict[str, Any]) -> Choice:
    """The stored fields as a run of the file's layer.

    Raises:
        ConfigError: the file, or what does not fit.
        Waiting: the file or an answer is still to come.
    """
    file = uploads.uploaded(KIND, missing=_EXPECTED)
    found = _layer(survey(file.content).found, stored)
    answers: dict[str, int | str] = {}
    for question in found.asks:
        answer = _answers(stored, file.digest).get(question.field)
        if answer is None or answer not in question.choices:
            raise uploads.Waiting(question.field, "not chosen", question.text)
        answers[question.field] = answer
    origin = Weights(file.digest, file.name, found.prefix, tuple(sorted(answers.items())))
    module = made(origin)
    tokens = None
    time = stored["time"]
    if stored["input"] == "text":
        tokens = tuple(tokenize(stored["text"], limit=state.LIMITS["time"]))
        time = len(tokens)
    config = MHAConfig(
        batch=stored["batch"], time=time, d_model=module.d_model, heads=module.heads,
        causal=stored["causal"], seed=stored["seed"], bias=module.W_q.bias is not None,
        dtype=str(module.W_q.weight.dtype).removeprefix("torch."),
    )  # fmt: skip
    return Choice(config, tokens, origin)


def made(origin: Weights) -> MultiHeadAttention:
    """The module of the layer, from the session's file.

    Raises:
        ConfigError: weights that are not finite, or answers that do not fit.
        Waiting: the session has another file now.
    """
    file = uploads.kept(KIND, origin.digest)
    if file is None:
        raise uploads.Waiting("file", origin.file, "must be given again")
    found = next(one for one in survey(file.content).found if one.prefix == origin.prefix)
    return build(file.content, found, **dict(origin.answers))  # type: ignore[arg-type]
