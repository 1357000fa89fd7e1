"""Measurements a person asks for: a button, progress, a way out, and results kept meanwhile.

They are kept for the session and its present choice, and go when that changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_core.errors import ConfigError
from mha_core.measure import Report
from pages.shared import look
from pages.shared.choice import Choice

__all__ = ["Kept", "Panel", "Report", "Results", "kept", "panel", "run"]

Results = Iterator[Any]  # of a measurement, as they come


@dataclass
class Kept:
    """What was measured.

    Attributes:
        results: in the order they came.
        done: all were measured that could be; False where it was broken off.
    """

    results: list[Any] = field(default_factory=list)
    done: bool = False


@dataclass(frozen=True)
class Panel:
    """The button's place on the page, and whether it was pressed in this run."""

    place: DeltaGenerator
    name: str
    wanted: bool


def kept(choice: Choice, name: str) -> Kept | None:
    """What the session has measured under this name for its present choice."""
    held: tuple[Choice, dict[str, Kept]] = st.session_state.get("measured", (choice, {}))
    if held[0] != choice:
        held = (choice, {})
    st.session_state["measured"] = held
    return held[1].get(name)


def panel(choice: Choice, name: str, label: str, *, icon: str = "timer") -> Panel:
    """The button; `run` does what it says, once the rest of the page is drawn."""
    place = st.container(
        horizontal=True, vertical_alignment="center", key=f"measure_{name}", gap="small"
    )
    before = kept(choice, name)
    wanted = place.button(
        f"{label} again" if before is not None else label,
        key=f"w_measure_{name}", icon=f":material/{icon}:",
    )  # fmt: skip
    return Panel(place, name, wanted)


def run(panel: Panel, choice: Choice, start: Callable[[Report], Results]) -> None:
    """Measures, if asked to: results come one by one, and the page is drawn anew at the end.

    Pressing Cancel, or changing anything, runs the script anew: what is at hand by then is kept.

    Args:
        panel: of the button.
        choice: what is measured.
        start: yields results; calls what it is given often, between measurements.
    """
    if not panel.wanted:
        return
    before = kept(choice, panel.name)
    now = Kept()
    running = panel.place.empty()
    with running.container(horizontal=True, vertical_alignment="center"):
        bar = st.progress(0.0, "starting")
        st.button("Cancel", key=f"w_cancel_{panel.name}", icon=":material/close:")

    def report(done: float, what: str) -> None:
        bar.progress(min(1.0, done), what)

    try:
        for result in start(report):
            now.results.append(result)
            st.session_state["measured"][1][panel.name] = now
        now.done = True
    except ConfigError as error:
        if before is not None:
            st.session_state["measured"][1][panel.name] = before
        running.empty()
        panel.place.error(look.safe(str(error)), icon=":material/error:")
        return
    st.rerun()
