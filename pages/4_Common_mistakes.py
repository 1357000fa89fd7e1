"""Common mistakes: each a broken forward that runs beside the right one."""

from __future__ import annotations

import streamlit as st

from pages.shared import look
from pages.shared.choice import Choice
from pages.shared.mistakes_export import export
from pages.shared.mistakes_section import heading, mistake_section, side_by_side, table_section
from pages.shared.page import open_run
from pages.shared.sidebar import sidebar


@st.fragment
def mistakes(choice: Choice, width: int) -> None:
    """All of them, and the open one, which is painted first: choosing another runs this alone."""
    counted = heading(choice)
    of_all, of_one = side_by_side(width)
    with of_one:
        found, seen = mistake_section(choice)
    with of_all:
        findings = table_section(choice, counted)
    export(choice, findings, found, seen)


choice, error, width = open_run("Common mistakes")
mistakes(choice, width)
# What has changed is sent: the browser paints it before the rest comes.
look.let_paint()
sidebar(choice, error)
