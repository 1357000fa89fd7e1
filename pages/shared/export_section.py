"""The export panel: what, in which format; built when asked for, with progress."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from mha_core import Trace
from mha_core.errors import ConfigError, human_bytes
from mha_core.export import FORMATS, MAPS, Selection
from pages.shared import look
from pages.shared.choice import Choice
from pages.shared.weights_export import weights_panel


@dataclass(frozen=True)
class _Order:
    """What was asked for; a file is offered only for the order it was built from."""

    choice: Choice
    form: str
    selection: Selection
    mode: str
    scale: str


def export_section(choice: Choice, trace: Trace) -> None:
    """The panel, closed until opened."""
    panel = st.expander("Export", key="w_export", on_change="rerun", icon=":material/download:")
    if panel.open:
        with panel:
            _panel(choice, trace)
            st.divider()
            weights_panel(trace)


@st.fragment
def _panel(choice: Choice, trace: Trace) -> None:
    order = _order(choice, trace)
    form = FORMATS[order.form]
    st.caption(f"{form.description}. Tensors are exact, never pooled; figures say when they are.")
    wanted = st.button("Prepare the file", key="prepare", type="primary")
    if wanted:
        _build(order, trace)
    built = st.session_state.get("built")
    if built is not None and built[0] == order:
        _, name, data = built
        st.download_button(
            f"Download {name} ({human_bytes(len(data))})", data, file_name=name, mime=form.mime,
            key="download", on_click="ignore", icon=":material/download:",
        )  # fmt: skip


def _order(choice: Choice, trace: Trace) -> _Order:
    config = trace.config
    one, two = st.columns(2)
    offered = [name for name, step in MAPS.items() if step in trace]
    st.session_state["w_tensors"] = [
        name for name in st.session_state.get("w_tensors", ["weights"]) if name in offered
    ] or ["weights"]
    form = one.selectbox(
        "format", list(FORMATS), key="w_format",
        format_func=lambda name: f"{name}: {FORMATS[name].description}",
    )  # fmt: skip
    tensors = two.multiselect("tensors", offered, key="w_tensors")
    three, four, five = st.columns([2, 2, 1.4])
    heads = _indices(three, "heads", config.heads)
    items = _indices(four, "batch items", config.batch)
    mode = five.segmented_control(
        "figures on", ["light", "dark"], key="w_mode", default=look.colours().mode, required=True
    )
    scale = st.session_state.get("w_colour_scale", "weight")
    return _Order(choice, form, Selection(tuple(tensors), heads, items), mode or "light", scale)


def _indices(
    column: st.delta_generator.DeltaGenerator, what: str, count: int
) -> tuple[int, ...] | None:
    key = f"w_export_{what}"
    kept = [index for index in st.session_state.get(key, []) if index < count]
    st.session_state[key] = kept
    chosen = column.multiselect(what, range(count), key=key, placeholder="all")
    return tuple(sorted(chosen)) or None


def _tokens(order: _Order) -> tuple[str, ...] | None:
    """As the tokenizer writes them. Items of a batch with words of their own go by positions."""
    words = order.choice.words
    if words is None:
        return order.choice.tokens
    items = order.selection.items or tuple(range(order.choice.config.batch))
    return words.tokens[items[0]] if len(items) == 1 else None


def _build(order: _Order, trace: Trace) -> None:
    bar = st.progress(0.0, "starting")
    form = FORMATS[order.form]

    def report(done: float, what: str) -> None:
        bar.progress(min(1.0, done), what)

    tokens = _tokens(order)
    try:
        data = form.build(
            trace, order.selection, tokens=tokens, mode=order.mode, scale=order.scale,
            progress=report,
        )  # fmt: skip
    except ConfigError as error:
        st.error(look.safe(str(error)), icon=":material/error:")
        st.session_state["built"] = None
        return
    finally:
        bar.empty()
    name = form.file_name(trace.config, order.selection, tokens)
    st.session_state["built"] = (order, name, data)
