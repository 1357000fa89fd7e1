"""The code: a complete program that gives the numbers on the page."""

from __future__ import annotations

import streamlit as st

from mha_core import listing
from mha_core.models import listing as real
from pages.shared.choice import Choice


def code_section(choice: Choice) -> None:
    """The program, closed until opened."""
    panel = st.expander("Code: PyTorch that gives these numbers", key="w_code",
                        on_change="rerun", icon=":material/code:")  # fmt: skip
    if panel.open:
        panel.code(_program(choice), language="python")


def _program(choice: Choice) -> str:
    if choice.origin is not None:
        return real.program(choice.origin.layer, choice.origin.texts, choice.origin.pair)
    return listing.program(choice.config, choice.tokens)
