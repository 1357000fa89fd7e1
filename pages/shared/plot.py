"""Line charts on a page: Plotly redraws only what changed, and the legend is HTML that wraps."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import plotly
import streamlit as st

from mha_core.charts import Chart, alt_text
from mha_core.figures.chart import chart_spec, legend_html
from mha_core.figures.typed import dumps
from pages.shared import look

# Plotly's own script, served from the installed package.
_plotly = st.components.v1.declare_component(
    "plotly_charts", path=str(Path(plotly.__file__).parent / "package_data")
)
_plot = st.components.v2.component(
    "shape_of_attention_plot", js=look.asset("plot.js"), isolate_styles=False
)


def charts(panels: Sequence[Chart], *, key: str, width: int) -> None:
    """The panels under their legend; as many in a row as there is room for.

    Args:
        panels: of one figure.
        key: of the component.
        width: of the page, in pixels.
    """
    colours = look.colours()
    st.html(look.block(legend_html(panels, colours)))
    text = dumps(chart_spec(panels, width=width, colours=colours))
    _plot(
        key=key,
        data={
            "spec": text,
            "rev": hashlib.sha256(text.encode()).hexdigest()[:16],
            "alt": alt_text(panels),
            "plotly": f"component/{_plotly.name}/plotly.min.js",
        },
    )
