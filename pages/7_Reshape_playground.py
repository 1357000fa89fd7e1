"""Reshape playground: type an einops pattern or a chain of torch steps, and see what it does."""

from __future__ import annotations

import streamlit as st

from pages.shared import look, reshape_state
from pages.shared.page import ICON, NAME
from pages.shared.reshape_editor import editor, sidebar
from pages.shared.reshape_section import files, flow_section, steps_section

st.set_page_config(page_title=f"Reshape playground · {NAME}", page_icon=ICON, layout="wide")
width = look.client()
look.page_name("Reshape playground")
run, error = reshape_state.resolve()
editor(error)
if run is None:
    sidebar(None)
    st.stop()
if error is not None:
    st.info("The last reshape that ran is shown.")
steps_section(run, width)
flow_section(run, width)
# What has changed is sent: the browser paints it before the rest comes.
look.let_paint()
sidebar(run)
files(run)
