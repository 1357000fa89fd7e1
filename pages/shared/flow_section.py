"""The animated flow, with one element followed."""

from __future__ import annotations

import streamlit as st

from mha_core import Trace, flow
from mha_core.figures.flow import flow_spec
from mha_core.window import Element, window
from pages.shared import look

# Step of the table -> scene of the flow, where the scene is another's.
_SCENES = {"scale": "scores", "dropout": "softmax"}

SPEEDS = {"½×": 1800, "1×": 900, "2×": 450}
WIDE = (2, 6, 8, 8)
NARROW = (1, 4, 4, 4)


@st.fragment
def flow_section(trace: Trace, step: str, width: int, still: bool) -> None:
    """The flow from the scene of the chosen step."""
    look.section("Flow", "one element outlined, followed to where it lies in memory")
    element, speed = _controls(trace)
    win = window(trace.config, element, WIDE if width >= 560 else NARROW)
    spec = flow_spec(
        flow.scenes(trace, element, win),
        element,
        win,
        config=trace.config,
        colours=look.colours(),
        start=_scene(step),
        width=width,
        duration=0 if still else SPEEDS[speed],
    )
    look.chart(
        spec,
        key="flow_chart",
        width=width,
        alt="Animation of the elements of q through view, transpose, attention, transpose back "
        "and merge, coloured by head.",
    )


def _scene(step: str) -> str:
    name = _SCENES.get(step, step)
    return f"{name[:-2]}_q" if name[-2:] in ("_k", "_v") else name


def _controls(trace: Trace) -> tuple[Element, str]:
    config = trace.config
    limits = {"b": config.batch, "t": config.time, "c": config.d_model}
    start = {"b": 0, "t": 3, "c": 21}
    columns = st.columns([1, 1, 1, 1.6], vertical_alignment="bottom")
    place = {}
    for column, (name, size) in zip(columns, limits.items(), strict=False):
        key = f"w_follow_{name}"
        st.session_state[key] = min(st.session_state.get(key, start[name]), size - 1)
        label = {"b": "follow b", "t": "t", "c": "c"}[name]
        place[name] = int(column.number_input(label, 0, size - 1, step=1, key=key))
    st.session_state.setdefault("w_speed", "1×")
    speed = columns[3].segmented_control("speed", list(SPEEDS), key="w_speed", required=True)
    return Element(place["b"], place["t"], place["c"]), speed or "1×"
