"""The home page: the real forward of multi-head attention, its shapes, its flow, its heads."""

from __future__ import annotations

import streamlit as st

from pages.shared import look
from pages.shared.choice import Given
from pages.shared.given_section import given_section
from pages.shared.pipeline import pipeline
from pages.shared.sidebar import resolve, sidebar
from pages.shared.uploads import Waiting

st.set_page_config(page_title="The Shape of Attention", page_icon="◩", layout="wide")
width = look.client()
choice, error = resolve()
if choice is None:
    sidebar(None, error)
    if isinstance(error, Waiting):
        st.info(f"{error.field} {error.rule}", icon=":material/upload_file:")
    else:
        st.error(look.safe(str(error)), icon=":material/error:")
    st.stop()
if error is not None:
    told = "sidebar" if isinstance(error, Waiting) else "error in the sidebar"
    st.info(f"The last view that ran is shown; see the {told}.")
if isinstance(choice, Given):
    given_section(choice, error)
else:
    pipeline(choice, error, width)
