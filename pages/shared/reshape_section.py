"""What a reshape did: shapes in a line, the table of steps, the flow, the code, the files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import plotly
import streamlit as st

from mha_core.figures.reshape_flow import flow_spec, scene_ids, scene_labels
from mha_core.figures.reshape_html import glance_html, lesson_html, steps_table
from mha_core.figures.reshape_page import flow_page
from mha_core.figures.typed import dumps
from mha_core.reshape import Flow, Run, flow, program, table
from mha_core.reshape.flow import colour_axis
from pages.shared import look, reshape_state
from pages.shared.store import store

# Elements drawn, and cells across a scene, by the width of the page.
_ROOM = {"wide": (500, 96), "narrow": (160, 34)}

_plotly = st.components.v1.declare_component(
    "plotly_for_reshape", path=str(Path(plotly.__file__).parent / "package_data")
)
_player = st.components.v2.component(
    "shape_of_attention_reshape_flow", js=look.asset("flow.js"), isolate_styles=False
)


def chosen_step(run: Run) -> int:
    """The step chosen in the table; the last until one is."""
    step: int = reshape_state.values()["step"]
    return step if 0 <= step < len(run.steps) else len(run.steps) - 1


def _flow(run: Run, width: int) -> Flow:
    element = reshape_state.element(run)
    marks, across = _ROOM["wide" if width >= 560 else "narrow"]
    plan = run.plan
    made: Flow = store("reshape").get(
        ("flow", plan.shape, plan.names, plan.ops, element, marks),
        lambda: flow(run, element, marks=marks, across=across),
        lambda found: 64 * len(found.identity) * len(found.scenes),
    )
    return made


def steps_section(run: Run, width: int) -> None:
    """Shapes in a line, and the table of steps with what the chosen one did."""
    c = look.colours()
    st.html(look.block(glance_html(run, c)))
    picked = chosen_step(run)
    look.section("Steps", "choose one: its memory, its values, its scene")
    lesson = lesson_html(run, picked, _flow(run, width), c)
    content = f'<div class="shapes-box">{steps_table(run, picked=picked, colours=c)}</div>{lesson}'
    look.clickable(
        look.block(content), key="rp_steps", on_pick=lambda n: reshape_state.put(step=int(n))
    )


@st.fragment
def flow_section(run: Run, width: int) -> None:
    """The flow, from the scene of the chosen step."""
    found = _flow(run, width)
    start = chosen_step(run)
    spec = flow_spec(
        run, found, colours=look.colours(), start=start, width=width, controls=False,
        colour=colour_axis(run, reshape_state.values()["colour"]),
    )  # fmt: skip
    text = dumps(spec)
    ids, labels = scene_ids(found), scene_labels(found)
    _player(
        key="flow_chart",
        data={
            "spec": text,
            "scenes": [{"id": i, "label": label} for i, label in zip(ids, labels, strict=True)],
            "start": ids[start],
            "rev": hashlib.sha256(text.encode()).hexdigest()[:16],
            "alt": f"Animation of the elements of x, of shape {run.steps[0].shape}, through "
            f"{', '.join(op.code for op in run.plan.ops) or 'no step'}.",
            "element": {"n": found.element},
            "sizes": {"n": run.plan.numel},
            "at": [0],
            "plotly": f"component/{_plotly.name}/plotly.min.js",
        },
        on_followed_change=_follow,
    )
    reshape_state.sync_address()


def _follow() -> None:
    value: Any = st.session_state["flow_chart"].get("followed")
    if value is not None:
        reshape_state.put(element=int(value))


def files(run: Run) -> None:
    """The steps, the flow and the program as files; then the program itself."""
    panel = st.expander("Export", key="rp_export", on_change="rerun", icon=":material/download:")
    if panel.open:
        with panel:
            _downloads(run)
    panel = st.expander("Code: torch and einops", key="w_code", on_change="rerun",
                        icon=":material/code:")  # fmt: skip
    if panel.open:
        panel.code(program(run), language="python")


def _downloads(run: Run) -> None:
    shapes = ["x".join(map(str, step.shape)) for step in (run.steps[0], run.steps[-1])]
    name = f"reshape_{'_to_'.join(shapes)}"
    colours, colour = look.colours(), colour_axis(run, reshape_state.values()["colour"])
    found = _flow(run, 1040)
    with st.container(horizontal=True, key="rp_files"):
        st.download_button(
            "Steps, CSV", lambda: table(run).to_csv(index=False), file_name=f"{name}.csv",
            mime="text/csv", key="rp_csv", on_click="ignore",
        )  # fmt: skip
        st.download_button(
            "Flow, HTML that opens offline",
            lambda: flow_page(run, found, colours=colours, colour=colour),
            file_name=f"{name}.html", mime="text/html", key="rp_html", on_click="ignore",
        )  # fmt: skip
        st.download_button(
            "Code, Python", program(run), file_name=f"{name}.py", mime="text/x-python",
            key="rp_py", on_click="ignore",
        )  # fmt: skip
