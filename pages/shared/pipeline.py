"""One run, from top to bottom: what it did to the shapes, its flow, its heads, its proofs."""

from __future__ import annotations

import streamlit as st

from mha_core.errors import ConfigError
from pages.shared import runs
from pages.shared.choice import Choice, Picture
from pages.shared.code_section import code_section
from pages.shared.compare_section import compare_section
from pages.shared.export_section import export_section
from pages.shared.flow_section import flow_section
from pages.shared.glance import chosen_step, glance, glance_html, table
from pages.shared.heads import of_trace
from pages.shared.heads_section import heads_section
from pages.shared.picture_section import picture_section
from pages.shared.proof_section import proof_section
from pages.shared.sidebar import sidebar


def pipeline(choice: Choice, error: ConfigError | None, width: int) -> None:
    """The sections, in the order in which what has changed is to be painted."""
    trace = runs.trace(choice, clock=st.session_state.get("w_detail", False))
    place = glance(trace)
    table(trace)
    flow_section(trace, chosen_step(trace), width)
    if isinstance(choice.origin, Picture):
        picture_section(choice.origin, trace)
    heads_section(of_trace(choice, trace))
    sidebar(choice, error)
    if trace.milliseconds is None:
        trace = runs.trace(choice, clock=True)
        place.html(glance_html(trace))
    proof_section(choice)
    compare_section(choice)
    export_section(choice, trace)
    code_section(choice)
