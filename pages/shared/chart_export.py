"""Charts and their numbers as files, made when asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from mha_core.charts import Chart
from mha_core.export.metadata import file_name
from pages.shared import look
from pages.shared.choice import Choice

# As in mha_core.export.chart, which takes a second to load: matplotlib.
_FORMS = {
    "png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf", "html": "text/html",
    "csv": "text/csv",
}  # fmt: skip


def chart_export(
    choice: Choice,
    stem: str,
    *,
    title: str,
    charts: Callable[[], Sequence[Chart]],
    table: Callable[[], pd.DataFrame],
    label: str = "Export",
) -> None:
    """The panel, closed until opened.

    Args:
        choice: names the files.
        stem: what is in them, in their names and in the keys of the buttons.
        title: what was run, written above the figure.
        charts, table: the figure's panels, and every number of them.
        label: of the panel.
    """
    panel = st.expander(
        label, key=f"w_{stem}_export", on_change="rerun", icon=":material/download:"
    )
    if not panel.open:
        return
    mode = look.colours().mode
    with panel:
        st.caption("The figure as PNG, SVG, PDF or HTML that opens offline; the numbers as CSV.")
        with st.container(horizontal=True, key=f"{stem}_files"):
            for form, mime in _FORMS.items():
                name = file_name(choice.config, stem, form, tokens=choice.tokens)
                make = partial(_made, form, charts, table, title, mode)
                st.download_button(
                    f"{'Numbers' if form == 'csv' else 'Figure'}, {form.upper()}", make,
                    file_name=name, mime=mime, key=f"{stem}_{form}", on_click="ignore",
                    icon=":material/download:",
                )  # fmt: skip


def _made(
    form: str,
    charts: Callable[[], Sequence[Chart]],
    table: Callable[[], pd.DataFrame],
    title: str,
    mode: str,
) -> bytes:
    from mha_core.export.chart import build

    return build(form, charts(), table(), title=title, mode="dark" if mode == "dark" else "light")
