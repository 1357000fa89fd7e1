"""Memory: every step's tensor as index space and as storage, and which operations copy."""

from __future__ import annotations

import streamlit as st

from mha_core import Trace
from pages.shared import look, runs
from pages.shared.choice import Choice
from pages.shared.memory_export import code, export
from pages.shared.memory_section import figure, home_link, refusal, table, view
from pages.shared.page import open_run
from pages.shared.sidebar import sidebar


@st.fragment
def memory(choice: Choice, trace: Trace, width: int) -> None:
    """All that follows the chosen step and element: choosing another runs this alone."""
    shown = view(trace, width)
    table(shown)
    figure(shown)
    home_link(shown)
    refusal(trace)
    export(choice, shown)
    code(shown)


choice, error, width = open_run("Memory")
memory(choice, runs.trace(choice), width)
# What has changed is sent: the browser paints it before the rest comes.
look.let_paint()
sidebar(choice, error)
