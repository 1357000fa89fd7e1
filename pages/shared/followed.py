"""The element that is followed: the same on every page."""

from __future__ import annotations

import streamlit as st

from mha_core import MHAConfig
from mha_core.window import Element


def followed(config: MHAConfig) -> Element:
    """The element chosen last; where the tensor has shrunk, the nearest there is."""
    wanted: Element = st.session_state.get("followed", Element(0, 3, 21))
    return Element(
        min(wanted.b, config.batch - 1),
        min(wanted.t, config.time - 1),
        min(wanted.c, config.d_model - 1),
    )


def follow(element: Element) -> None:
    st.session_state["followed"] = element
