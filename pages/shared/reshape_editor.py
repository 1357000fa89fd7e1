"""What is typed on the reshape playground, the mistake in it, and the small sidebar."""

from __future__ import annotations

import streamlit as st

from mha_core.errors import ConfigError
from mha_core.figures.reshape_html import error_html
from mha_core.reshape import ReshapeError, Run
from mha_core.reshape.flow import colour_axes, colour_axis
from mha_core.reshape.presets import PRESETS
from pages.shared import look, reshape_state
from pages.shared.sidebar import BRAND

_HELP = {
    "pattern": "One name for each axis; brackets split or merge. A new name on the right repeats.",
    "chain": "view, reshape, transpose, permute, flatten, unflatten, contiguous, unsqueeze, "
    "squeeze, expand, repeat, repeat_interleave. Names stand for their sizes.",
    "shape": "As in 2, 6, 32. Names with sizes can stand in it: b, t, h*d.",
    "axes": "As in h=4 d=8.",
}


def editor(error: ConfigError | None) -> None:
    """The fields, and below them the error in what was typed."""
    stored = reshape_state.values()
    st.html(look.block('<div class="key">Any reshape of up to 6 axes, run by torch.</div>'))
    with st.container(key="rp_editor"):
        _mode()
        if stored["mode"] == "einops":
            one, two, three = st.columns([3, 1.1, 1.1])
            key, changed = reshape_state.widget("pattern")
            one.text_input("einops pattern", key=key, on_change=changed, help=_HELP["pattern"])
        else:
            key, changed = reshape_state.widget("chain")
            st.text_area(
                "torch steps on x", key=key, on_change=changed, height=76, help=_HELP["chain"]
            )
            two, three = st.columns(2)
        for column, name, label in ((two, "shape", "shape of x"), (three, "axes", "sizes")):
            key, changed = reshape_state.widget(name)
            column.text_input(label, key=key, on_change=changed, help=_HELP[name])
    if error is not None:
        _refused(error)


def _mode() -> None:
    key = "rp_mode"
    st.session_state[key] = reshape_state.values()["mode"]
    st.segmented_control(
        "written in", reshape_state.MODES, key=key, required=True, label_visibility="collapsed",
        format_func=lambda mode: {"einops": "einops pattern", "torch": "torch steps"}[mode],
        on_change=lambda: reshape_state.switch(st.session_state[key]),
    )  # fmt: skip


def _refused(error: ConfigError) -> None:
    """The mistake, where it was typed, with one-click repairs."""
    if not isinstance(error, ReshapeError):
        st.error(look.safe(str(error)), icon=":material/error:")
        return
    st.html(look.block(error_html(error)))
    with st.container(horizontal=True, key="rp_repairs", gap="small"):
        for n, repair in enumerate(error.repairs[:3]):
            ((name, text),) = repair.items()
            shown = text if len(text) <= 60 else f"{text[:28]} … {text[-28:]}"
            st.button(
                f"Use `{shown.replace('`', '')}`", key=f"rp_repair_{n}",
                on_click=reshape_state.put, kwargs={name: text},
            )  # fmt: skip


def sidebar(run: Run | None) -> None:
    """Presets, and the axis that gives the colours."""
    with st.sidebar:
        st.html(BRAND)
        key = "rp_preset"
        now = reshape_state.preset()
        st.session_state[key] = now

        def apply() -> None:
            chosen = st.session_state[key]
            if chosen:
                reshape_state.choose(chosen)

        st.pills("presets", list(PRESETS), key=key, on_change=apply)
        if now is not None:
            st.caption(PRESETS[now].about)
        if run is not None:
            _colour(run)
        for notice in st.session_state.get("reshape_notices", []):
            st.warning(notice, icon=":material/link_off:")


def _colour(run: Run) -> None:
    offered = colour_axes(run)
    if not offered:
        return
    key = "rp_colour"
    st.session_state[key] = colour_axis(run, reshape_state.values()["colour"])
    st.selectbox(
        "colour by", list(offered), key=key, format_func=lambda axis: offered[axis],
        on_change=lambda: reshape_state.put(colour=st.session_state[key]),
        help="Elements with the same index on this axis have the same colour, at every step. "
        "They grow darker in the order in which they lie in memory.",
    )  # fmt: skip
