"""The page's look: palette of the theme in use, style sheet, charts, and HTML one can click."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from mha_core.figures.text import MONO
from mha_core.palette import Palette, palette


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def colours() -> Palette:
    """The palette of the theme the page is shown in."""
    return palette(st.context.theme.type)


class Prepared(go.Figure):  # type: ignore[misc]
    """A figure whose specification is ready: Streamlit's validation would cost ten times it.

    The same specifications are validated by Plotly in the tests.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__()
        # Not an attribute of a figure, which Plotly would refuse.
        object.__setattr__(self, "_prepared", spec)

    def to_dict(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.__dict__["_prepared"]
        return spec


def chart(spec: dict[str, Any], *, key: str, alt: str, width: Any = "stretch") -> None:
    """Shows a figure's specification as it is, with alternative text."""
    st.plotly_chart(
        Prepared(spec),
        key=key,
        alt=alt,
        theme=None,
        width=width,
        config={"displayModeBar": False, "displaylogo": False},
    )


_pick = st.components.v2.component(
    "shape_of_attention_pick", js=_asset("pick.js"), isolate_styles=False
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


_client = st.components.v2.component("shape_of_attention_client", js=_asset("client.js"))


def viewport() -> tuple[int, bool]:
    """Width of the page's column in pixels, and whether the user asks for less motion."""
    result = _client(key="client", default={"seen": None}, on_seen_change=lambda: None)
    seen = result.get("seen") or {"width": 1040, "still": False}
    return int(seen["width"]), bool(seen["still"])


_CSS = _asset("style.css")


def style() -> None:
    """The style sheet, with the palette as custom properties."""
    c = colours()
    chip = "#e7e9ee" if c.mode == "light" else "#2a2d36"
    variables = {
        "text": c.text, "background": c.background, "muted": c.muted, "line": c.line,
        "surface": c.surface, "good": c.good,
        "bad": c.bad, "copy": c.copy, "hatch": c.hatch, "chip": chip, "mono": MONO,
        "sans": "'Source Sans', sans-serif",
    }  # fmt: skip
    properties = "".join(f"--{name}:{value};" for name, value in variables.items())
    st.html(f"<style>:root{{{properties}}}\n{_CSS}</style>")


def block(html: str) -> str:
    """HTML in the page's own style."""
    return f'<div class="soa">{html}</div>'


def section(title: str, note: str = "") -> None:
    """A section's heading, with a quiet note at its right."""
    st.html(block(f'<div class="section"><h2>{title}</h2><span>{note}</span></div>'))
