"""The code: a complete program that gives the numbers on the page."""

from __future__ import annotations

import streamlit as st

from mha_core import listing
from mha_core.models import listing as real
from mha_core.models.hub import MINILM
from pages.shared.choice import Choice, Origin, Picture, Weights


def code_section(choice: Choice) -> None:
    """The program, closed until opened."""
    panel = st.expander("Code: PyTorch that gives these numbers", key="w_code",
                        on_change="rerun", icon=":material/code:")  # fmt: skip
    if panel.open:
        panel.code(_program(choice), language="python")


def _program(choice: Choice) -> str:
    match choice.origin:
        case Origin(model=source, layer=layer, texts=texts, pair=pair, download=download):
            return (
                real.program(layer, texts, pair)
                if source == MINILM
                else real.any_model(source, layer, texts, pair, download=download)
            )
        case Picture(layer=layer):
            return real.vision(layer)
        case Weights(file=file, prefix=prefix, answers=answers):
            return real.own_weights(choice.config, file, prefix, dict(answers), choice.tokens)
    return listing.program(choice.config, choice.tokens)
