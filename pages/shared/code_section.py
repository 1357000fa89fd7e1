"""The code: a complete program that gives the numbers on the page."""

from __future__ import annotations

import streamlit as st

from mha_core.listing import program
from pages.shared.state import Choice


def code_section(choice: Choice) -> None:
    """The program, closed until opened."""
    panel = st.expander("Code: PyTorch that gives these numbers", key="w_code",
                        on_change="rerun", icon=":material/code:")  # fmt: skip
    if panel.open:
        panel.code(program(choice.config, choice.tokens), language="python")
