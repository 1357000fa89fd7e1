"""Files of the memory page: the table of every step, and the figure of the chosen one; its code."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from mha_core import memory, tables
from mha_core.export.metadata import file_name
from mha_core.figures.memory_svg import svg
from pages.shared.choice import Choice
from pages.shared.memory_section import View


def export(choice: Choice, shown: View) -> None:
    """The panel, closed until opened; a file is made when it is asked for, outside any run."""
    panel = st.expander(
        "Export", key="w_memory_export", on_change="rerun", icon=":material/download:"
    )
    if not panel.open:
        return
    step = shown.stop.step.id
    files: list[tuple[str, str, str, Callable[[], str | bytes]]] = [
        ("memory", "csv", "text/csv", lambda: _table(shown, "csv")),
        ("memory", "md", "text/markdown", lambda: _table(shown, "markdown")),
        ("memory", "tex", "application/x-tex", lambda: _table(shown, "latex")),
        (f"memory_{step}", "svg", "image/svg+xml", lambda: _svg(shown)),
        (f"memory_{step}", "png", "image/png", lambda: _png(shown)),
    ]
    with panel:
        st.caption("The table of every step, and the figure of the chosen one, as on the page.")
        with st.container(horizontal=True, key="memory_files"):
            for stem, suffix, mime, make in files:
                what = "Table" if stem == "memory" else "Figure"
                st.download_button(
                    f"{what}, {suffix.upper()}", make, mime=mime, on_click="ignore",
                    file_name=file_name(choice.config, stem, suffix, tokens=choice.tokens),
                    key=f"memory_{suffix}", icon=":material/download:",
                )  # fmt: skip


def code(shown: View) -> None:
    """The program that prints what the page shows, closed until opened."""
    panel = st.expander("Code: PyTorch that prints these strides, storages and offsets",
                        key="w_code", on_change="rerun", icon=":material/code:")  # fmt: skip
    if panel.open:
        panel.code(memory.program(shown.trace.config, shown.element, shown.key), language="python")


def _table(shown: View, form: str) -> str:
    return tables.render(memory.frame(shown.stops), form) + "\n"


def _svg(shown: View) -> str:
    return svg(shown.picture, shown.made, alt=shown.alt, colours=shown.colours, file=True)


def _png(shown: View) -> bytes:
    from mha_core.export.memory_png import png  # matplotlib takes a second

    return png(shown.picture, shown.made, alt=shown.alt, colours=shown.colours)
