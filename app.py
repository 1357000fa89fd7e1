"""The home page: the real forward of multi-head attention, its shapes, its flow, its heads.

Streamlit runs this file as a script for every session; the server imports it once, for its routes.
"""

from __future__ import annotations

import streamlit as st

if __name__ == "__main__":
    from pages.shared.choice import Given
    from pages.shared.given_section import given_section
    from pages.shared.page import open_page
    from pages.shared.pipeline import pipeline

    page = open_page()
    if isinstance(page.choice, Given):
        given_section(page.choice, page.error)
    else:
        pipeline(page.choice, page.error, page.width)
else:
    from pages.shared import downloads, serving

    app = st.App(__file__, routes=downloads.routes(), lifespan=serving.lifespan)
