"""How every page begins: what is to be shown, or why nothing can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from mha_core.errors import ConfigError
from pages.shared import look, runs
from pages.shared.choice import Choice, Given
from pages.shared.sidebar import resolve, sidebar
from pages.shared.uploads import Waiting

NAME = "The Shape of Attention"
# A picture: for a sign that is no emoji the browser would fetch the whole page at every run.
ICON = Path(__file__).parent / "icon.png"


@dataclass(frozen=True)
class Opened:
    """What a page shows.

    Attributes:
        choice: the present choice or, where that cannot run, the last that could.
        error: why the present one cannot.
        width: of the page, in pixels.
    """

    choice: Choice | Given
    error: ConfigError | None
    width: int


def open_page(
    title: str = "", *, check: Callable[[Choice], None] = runs.check, long: bool = False
) -> Opened:
    """Begins a page; ends the run where there is nothing to show yet.

    Args:
        title: of the page; the home page has none.
        check: raises a ConfigError for a choice that does not fit the page.
        long: the page shows maps of any time.
    """
    name = f"{title} · {NAME}" if title else NAME
    st.set_page_config(page_title=name, page_icon=ICON, layout="wide")
    width = look.client()
    look.page_name(title or "Shape pipeline")
    choice, error = resolve(check, long=long)
    if choice is None:
        sidebar(None, error, long=long)
        if isinstance(error, Waiting):
            st.info(f"{error.field} {error.rule}", icon=":material/upload_file:")
        else:
            st.error(look.safe(str(error)), icon=":material/error:")
        st.stop()
    if error is not None:
        told = "sidebar" if isinstance(error, Waiting) else "error in the sidebar"
        st.info(f"The last view that ran is shown; see the {told}.")
    return Opened(choice, error, width)


def open_run(title: str) -> tuple[Choice, ConfigError | None, int]:
    """Begins a page that needs a run: where there are maps alone it says so, and ends."""
    page = open_page(title)
    if isinstance(page.choice, Given):
        sidebar(page.choice, page.error)
        st.info(
            "This page needs a layer's input and weights; the source in view has maps alone. "
            "Choose another source in the sidebar.",
            icon=":material/info:",
        )
        st.stop()
    return page.choice, page.error, page.width
