"""Masks and numbers: a mask built and converted, how it broadcasts, and what its numbers do."""

from __future__ import annotations

import streamlit as st

from mha_core import Trace
from mha_core.mask_lab.lab import Lab, lab_of
from pages.shared import look, masks_state, runs
from pages.shared.choice import Choice
from pages.shared.masks_align import align_section
from pages.shared.masks_broadcast import broadcast_section
from pages.shared.masks_build import build_section
from pages.shared.masks_convert import convert_section
from pages.shared.masks_fill import fill_section
from pages.shared.masks_scale import scale_section
from pages.shared.page import open_run
from pages.shared.sidebar import sidebar

# Only the one in view is computed and drawn.
SECTIONS = {
    "Build": build_section,
    "Convert": convert_section,
    "Broadcast": broadcast_section,
    "Tq ≠ Tk": align_section,
    "Fill and NaN": fill_section,
    "Scale": scale_section,
}


@st.fragment
def masks(choice: Choice, trace: Trace, lab: Lab) -> None:
    """The choice of a section, and the section: what is chosen in it runs this alone."""
    chosen = masks_state.section(list(SECTIONS))
    masks_state.own_words(choice)
    SECTIONS[chosen](choice, lab)
    masks_state.home_link(chosen, trace)


choice, error, _ = open_run("Masks and numbers")
trace = runs.trace(choice)
masks(choice, trace, lab_of(trace))
# What has changed is sent: the browser paints it before the rest comes.
look.let_paint()
sidebar(choice, error)
