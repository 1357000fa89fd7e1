"""The home page: the real forward of multi-head attention, its shapes, its flow, its heads."""

from __future__ import annotations

import streamlit as st

from pages.shared import look, runs
from pages.shared.code_section import code_section
from pages.shared.compare_section import compare_section
from pages.shared.export_section import export_section
from pages.shared.flow_section import flow_section
from pages.shared.glance import chosen_step, glance, glance_html, table
from pages.shared.heads_section import heads_section
from pages.shared.proof_section import proof_section
from pages.shared.sidebar import resolve, sidebar

st.set_page_config(page_title="The Shape of Attention", page_icon="◩", layout="wide")
width = look.client()
choice, error = resolve()
if choice is None:
    st.error(str(error), icon=":material/error:")
    sidebar(None, error)
    st.stop()
if error is not None:
    st.info("The last view that ran is shown; see the error in the sidebar.")

trace = runs.trace(choice, clock=st.session_state.get("w_detail", False))
place = glance(trace)
table(trace)
flow_section(trace, chosen_step(trace), width)
heads_section(choice, trace)
sidebar(choice, error)
if trace.milliseconds is None:
    trace = runs.trace(choice, clock=True)
    place.html(glance_html(trace))
proof_section(choice)
compare_section(choice)
export_section(choice, trace)
code_section(choice)
