"""Files of the mistakes: their table, and the open one as a figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from mha_core.export.metadata import file_name
from mha_core.export.mistake import figure
from mha_core.mistakes import Finding
from mha_core.mistakes.measures import MapsSeen
from mha_core.mistakes.summary import frame
from mha_core.tables import render
from pages.shared import look
from pages.shared.choice import Choice
from pages.shared.mistakes_runs import laid_out
from pages.shared.mistakes_section import labels


def export(
    choice: Choice, findings: Sequence[Finding], found: Finding, seen: MapsSeen | None
) -> None:
    """The panel, closed until opened; a file is made when it is asked for."""
    panel = st.expander(
        "Export", key="w_mistakes_export", on_change="rerun", icon=":material/download:"
    )
    if not panel.open:
        return
    # Files are made outside of the run: what belongs to the session is read here.
    draw = partial(
        figure, found, seen, colours=look.colours(), tokens=labels(choice, seen, laid_out(choice))
    )
    table = partial(render, frame(findings))
    one = f"mistake-{found.mistake.id}"
    files: list[tuple[str, str, str, str, Callable[[], str | bytes]]] = [
        ("All, CSV", "mistakes", "csv", "text/csv", partial(table, "csv")),
        ("All, Markdown", "mistakes", "md", "text/markdown", partial(table, "markdown")),
        ("This one, PNG", one, "png", "image/png", partial(draw, form="png")),
        ("This one, SVG", one, "svg", "image/svg+xml", partial(draw, form="svg")),
    ]
    with panel:
        st.caption("The table of all mistakes as they ran here, and the figure of the open one.")
        with st.container(horizontal=True, key="mistakes_files"):
            for what, stem, suffix, mime, make in files:
                st.download_button(
                    what, make, mime=mime, on_click="ignore", key=f"mistakes_{suffix}",
                    file_name=file_name(choice.config, stem, suffix, tokens=choice.tokens),
                    icon=":material/download:",
                )  # fmt: skip
