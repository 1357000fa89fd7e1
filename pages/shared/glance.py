"""At a glance, and the shape table with the lesson of the chosen step."""

from __future__ import annotations

import html

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_core import Trace
from mha_core.errors import human_bytes
from mha_core.figures.table_html import shape_table, values_table
from mha_core.figures.text import tinted_sizes
from pages.shared import look


def glance(trace: Trace) -> DeltaGenerator:
    """What happens to the shape, in one line, and its cost, in another.

    Returns:
        Its place, where `glance_html` may follow once the forward is timed.
    """
    return st.html(glance_html(trace))


def glance_html(trace: Trace) -> str:
    c = look.colours()
    flat, by_time, by_head = (trace[name] for name in ("project_q", "split_q", "transpose_q"))
    shapes = [tinted_sizes(step.shape, step.spec.output, c) for step in (flat, by_time, by_head)]
    line = (
        f'<span class="shape">{shapes[0]}</span> <span class="verb">view →</span>'
        f'<span class="shape">{shapes[1]}</span> <span class="verb">transpose →</span>'
        f'<span class="shape">{shapes[2]}</span>'
    )
    heads = trace.config.heads
    cells = trace["softmax"].nbytes // trace["softmax"].dtype.itemsize
    took = "…" if trace.milliseconds is None else f"{trace.milliseconds:.2f}"
    facts = [
        (f"{heads}", f"head{'' if heads == 1 else 's'} × d_k {trace.config.d_k}"),
        (f"{trace.parameters:,}", "parameters"),
        (f"{cells:,}", "weights"),
        (human_bytes(trace.peak_bytes or 0), "peak"),
        (f"{took} ms", f"forward on {trace.config.device}"),
    ]
    row = "".join(f"<span><b>{value}</b> {what}</span>" for value, what in facts)
    lines = f'<div class="line">{line}</div><div class="facts">{row}</div>'
    return look.block(f'<div class="glance">{lines}</div>')


def chosen_step(trace: Trace) -> str:
    """The step chosen in the table; the transpose until one is, or where it did not run."""
    step: str = st.session_state.get("step", "transpose_q")
    return step if step in trace else "transpose_q"


def table(trace: Trace) -> None:
    """The shape table; choosing a row shows its lesson, its code and its values."""
    c = look.colours()
    picked = chosen_step(trace)
    with st.container(horizontal=True, key="table_head", vertical_alignment="bottom"):
        look.section("Shapes, step by step")
        detail = st.toggle("every step: strides, bytes, FLOPs, time, operators", key="w_detail")
    content = shape_table(trace.steps, detail=detail, picked=picked, colours=c)
    step = trace[picked]
    lesson = (
        f'<div class="lesson"><div class="say"><p>{html.escape(step.spec.lesson)}</p>'
        f"<code>{html.escape(step.spec.code)}</code></div>{values_table(step, c)}</div>"
    )
    look.clickable(
        look.block(f'<div class="shapes-box">{content}</div>{lesson}'), key="table", on_pick=_choose
    )


def _choose(step: str) -> None:
    st.session_state["step"] = step
