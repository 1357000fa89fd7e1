"""Attention heads: maps of any length, all heads and one in focus, exact down to single weights."""

from __future__ import annotations

from collections.abc import Iterator

import streamlit as st

from mha_core.blockwise import Overview
from mha_core.errors import ConfigError
from pages.shared import jobs, long_runs, look, maps_detail, maps_export, maps_section, maps_view
from pages.shared.atlas import Atlas
from pages.shared.atlases import atlas_of
from pages.shared.choice import Choice, Given
from pages.shared.jobs import Job
from pages.shared.long_export import long_status
from pages.shared.maps_view import View
from pages.shared.page import open_page
from pages.shared.sidebar import sidebar


@st.fragment
def heads(choice: Choice | Given, atlas: Atlas, whole: Iterator[bool]) -> Job | None:
    """All that follows the controls of the page: using one runs this alone, but while maps are
    computed.

    Args:
        choice, atlas: what the page is of.
        whole: gives True once, in the run of the whole page that called this.

    Returns:
        What is still being computed.
    """
    on_page = next(whole, False)
    shown = maps_view.view(atlas)
    kept = st.session_state
    maps_section.controls(atlas, shown)
    place = st.container(key="maps_place")
    try:
        found = maps_section.computed(atlas, shown.asked)
    except ConfigError as error:
        st.error(look.safe(str(error)), icon=":material/error:")
        return None
    running: Job | None = None
    if isinstance(found, Job):
        if found.cancelled:
            with place:
                maps_section.cancelled()
        elif on_page:
            running = found
        else:
            st.rerun()  # the page has the place where its progress is told
        if "maps_last" not in kept:
            return running
        drawn: tuple[Atlas, View, Overview] = kept["maps_last"]
    else:
        jobs.forget()  # of other maps, which these replace
        drawn = kept["maps_last"] = (atlas, shown, found)
    left, right = st.columns(2, gap="medium")
    with left:
        scaled = maps_section.all_heads(*drawn)
    with right:
        maps_section.focus(*drawn, scaled=scaled)
        maps_section.focus_controls(atlas, shown)
    if not isinstance(found, Job):
        maps_detail.compare(*drawn)
        maps_detail.line(*drawn)
        maps_export.panel(choice, *drawn)
    return running


page = open_page("Attention heads", check=long_runs.check, long=True)
atlas = atlas_of(page.choice)
maps_export.glance(page.choice, atlas)
running = heads(page.choice, atlas, iter([True]))
long_status()
if running is not None:
    maps_section.watch(running)
sidebar(page.choice, page.error, long=True)
