"""The page's look: palette of the theme in use, style sheet, and HTML one can click."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import streamlit as st

from mha_core.errors import ConfigError
from mha_core.figures.patch_html import chosen_cells
from mha_core.figures.text import MONO
from mha_core.palette import Palette, palette
from mha_core.patch import Patch, Span


def asset(name: str) -> str:
    """The text of a style sheet or script beside this file."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def colours() -> Palette:
    """The palette of the theme the page is shown in."""
    return palette(st.context.theme.type)


_pick = st.components.v2.component(
    "shape_of_attention_pick", js=asset("zoom.js") + asset("pick.js"), isolate_styles=False
)


def clickable(html: str, *, key: str, on_pick: Callable[[str], None]) -> None:
    """Shows HTML whose elements with `data-pick` can be clicked, or chosen by keyboard.

    Args:
        html: trusted; what comes from the user must have been escaped.
        key: of the component.
        on_pick: called with the `data-pick` of what was chosen.
    """

    def picked() -> None:
        value = st.session_state[key].get("picked")
        if value is not None:
            on_pick(str(value))

    _pick(key=key, data={"html": html}, on_picked_change=picked)


def zoomable(
    html: str,
    *,
    key: str,
    patch: Patch,
    on_cell: Callable[[Span, Span], None],
    on_box: Callable[[Span, Span], None],
    on_reset: Callable[[], None],
    on_pick: Callable[[str], None] | None = None,
) -> None:
    """As `clickable`, for HTML with maps of `patch_html` on which boxes and cells are chosen.

    Args:
        html, key: as for `clickable`.
        patch: what the maps show: all of them the same window, pooled alike.
        on_cell, on_box: called with the queries and the keys, (start, stop) in positions. A cell
            covers more than one of each where cells are pooled.
        on_reset: called after a double click.
        on_pick: called with the `data-pick` of other elements, where there are any.
    """

    def chosen(value: str) -> None:
        cells = chosen_cells(value)
        if cells is not None:
            try:
                queries, keys = patch.within(*cells)
            except ConfigError:  # sent from the picture before this one
                return
            (on_box if value.startswith("box:") else on_cell)(queries, keys)
        elif value == "reset":
            on_reset()
        elif on_pick is not None:
            on_pick(value)

    clickable(html, key=key, on_pick=chosen)


# In this order: later ones win.
_SHEETS = ("page", "maps", "memory", "mistakes", "masks", "charts", "reshape", "libtorch", "files")
# The style sheet comes with the component: registered once, it is not sent again.
_client = st.components.v2.component(
    "shape_of_attention_client", js=asset("client.js"),
    css="".join(asset(f"style/{name}.css") for name in _SHEETS),
    isolate_styles=False,
)  # fmt: skip


def _variables(c: Palette) -> dict[str, str]:
    """The palette as custom properties of the style sheet."""
    return {
        "text": c.text, "background": c.background, "muted": c.muted, "line": c.line,
        "surface": c.surface, "good": c.good, "bad": c.bad, "copy": c.copy, "hatch": c.hatch,
        "chip": c.line, "mono": MONO, "sans": "'Source Sans', sans-serif",
    }  # fmt: skip


_WIDTH = "page_width"  # in the session: a component's own state ends with its page


def client() -> int:
    """Dresses the page; returns its width in pixels."""

    def reported() -> None:
        # Of a page that was left at the same moment nothing is there any more.
        told = st.session_state.get("client")
        if told and told.get("width"):
            st.session_state[_WIDTH] = int(told["width"])

    known: int | None = st.session_state.get(_WIDTH)
    _client(
        key="client",
        data={"palette": _variables(colours()), "known": known},
        default={"width": None},
        on_width_change=reported,
    )
    return known or 1040


def block(html: str) -> str:
    """HTML in the page's own style."""
    return f'<div class="soa">{html}</div>'


def page_name(name: str) -> None:
    """What the page is called, small, at its top: the list of pages may be closed."""
    st.html(block(f'<h1 class="page-name">{name}</h1>'))


def heading(title: str, note: str = "") -> str:
    """A section's heading, with a quiet note at its right."""
    return f'<div class="section"><h2>{title}</h2><span>{note}</span></div>'


def section(title: str, note: str = "") -> None:
    st.html(block(heading(title, note)))


def safe(text: str) -> str:
    """For where Markdown is read: what others wrote makes no link and loads no picture."""
    return text.replace("](", "]\\(")


def let_paint(seconds: float = 0.1) -> None:
    """Leaves the browser and the processor alone until it has painted what it was sent."""
    time.sleep(seconds)
