"""The animated flow, with one element followed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import plotly
import streamlit as st

from mha_core import Trace, flow
from mha_core.figures.flow import flow_spec
from mha_core.figures.flow_controls import SHORT
from mha_core.figures.typed import dumps
from mha_core.window import Element, window
from pages.shared import look
from pages.shared.followed import follow, followed

# Step of the table -> scene of the flow, where the scene is another's.
_SCENES = {"scale": "scores", "dropout": "softmax"}

MARKS = {"wide": 500, "narrow": 120}  # elements drawn, by the width of the page

# Plotly's own script, served from the installed package. Streamlit's chart element draws every
# new figure twice and from nothing; here Plotly redraws only what changed.
_plotly = st.components.v1.declare_component(
    "plotly_script", path=str(Path(plotly.__file__).parent / "package_data")
)
_player = st.components.v2.component(
    "shape_of_attention_flow", js=look.asset("flow.js"), isolate_styles=False
)


@st.fragment
def flow_section(trace: Trace, step: str, width: int) -> None:
    """The flow, from the scene of the chosen step."""
    config = trace.config
    element = followed(config)
    win = window(config, element, marks=MARKS["wide" if width >= 560 else "narrow"])
    scenes = flow.scenes(trace, element, win)
    start = _scene(step)
    spec = flow_spec(
        scenes, element, win,
        config=config, colours=look.colours(), start=start, width=width, controls=False,
    )  # fmt: skip
    text = dumps(spec)
    _player(
        key="flow_chart",
        data={
            "spec": text,
            "scenes": [{"id": s.step.id, "label": SHORT[s.step.id]} for s in scenes],
            "start": start,
            "rev": hashlib.sha256(text.encode()).hexdigest()[:16],
            "alt": "Animation of the elements of q through view, transpose, attention, "
            "transpose back and merge, coloured by head.",
            "element": {"b": element.b, "t": element.t, "c": element.c},
            "sizes": {"b": config.batch, "t": config.time, "c": config.d_model},
            "plotly": f"component/{_plotly.name}/plotly.min.js",
        },
        on_followed_change=_follow,
    )


def _scene(step: str) -> str:
    name = _SCENES.get(step, step)
    return f"{name[:-2]}_q" if name[-2:] in ("_k", "_v") else name


def _follow() -> None:
    """Follows the element that was clicked or typed: b, t and c come as one text."""
    value: Any = st.session_state["flow_chart"].get("followed")
    if value is not None:
        b, t, c = (int(part) for part in str(value).split(","))
        follow(Element(b, t, c))
