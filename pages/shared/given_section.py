"""Maps alone: what they are, and the heads."""

from __future__ import annotations

import html

import streamlit as st

from mha_core.errors import ConfigError
from pages.shared import look
from pages.shared.choice import Given
from pages.shared.heads import of_given
from pages.shared.heads_section import heads_section
from pages.shared.sidebar import sidebar


def given_section(given: Given, error: ConfigError | None) -> None:
    """Title, what there is to know about them, and the heads."""
    facts = [(given.batch, "batch"), (given.heads, "heads"), (given.time, "time")]
    row = "".join(f"<span><b>{value}</b> {name}</span>" for value, name in facts)
    title = f'<div class="line">{html.escape(given.title)}</div>'
    st.html(look.block(f'<div class="glance">{title}<div class="facts">{row}</div></div>'))
    for note in given.notes:
        st.warning(look.safe(note.replace("`", "'")), icon=":material/info:")
    st.caption(
        "These are the weights alone, as they were given. The shape table and the flow need the "
        "layer's input and weights."
    )
    heads_section(of_given(given))
    sidebar(given, error)
