"""A mask's shape against (batch, h, Tq, Tk): axis by axis, and who refuses it in which words."""

from __future__ import annotations

import streamlit as st

from mha_core.errors import ConfigError
from mha_core.figures.mask_axes import attempts_html, axes_html, result_html
from mha_core.mask_lab import broadcast
from mha_core.mask_lab.lab import Lab
from pages.shared import look, runs
from pages.shared.choice import Choice
from pages.shared.masks_export import broadcast_export
from pages.shared.masks_state import kept, note, widget

SHAPES = (
    "Tq, Tk", "batch, 1, 1, Tk", "batch, 1, Tq, Tk", "batch, h, Tq, Tk", "h, 1, 1", "batch, Tk",
    "batch, Tq, Tk", "batch*h, Tq, Tk",
)  # fmt: skip


def broadcast_section(choice: Choice, lab: Lab) -> None:
    """A shape typed or chosen, read axis by axis, and handed to torch."""
    target = lab.shape
    sizes = dict(zip(broadcast.NAMES, target, strict=True))
    look.section("Shape of a mask against (batch, h, Tq, Tk)", note(lab))
    _controls()
    try:
        shape = broadcast.parse_shape(kept()["shape"], sizes)
        kept()["good_shape"] = shape
    except ConfigError as error:
        st.error(look.safe(str(error)), icon=":material/error:")
        shape = kept().get("good_shape", target[-2:])
    axes = broadcast.axes(shape, target)
    view = broadcast.expanded(shape, target)
    strides = None if view is None else view.stride()
    traps = broadcast.traps(shape, target) if strides else []
    c = look.colours()
    st.html(look.block(axes_html(axes, c) + result_html(shape, target, strides, traps)))
    look.section("Handed over, just now", "a mask of this shape in which every key is visible")
    tried: list[broadcast.Attempt] = runs.derived(
        choice, ("mask shape", shape), lambda: broadcast.attempts(shape, lab)
    )
    refused = broadcast.ours(shape, target)
    st.html(look.block(attempts_html(refused, tried)))
    broadcast_export(choice, axes, refused, tried)


def _controls() -> None:
    key, changed = widget("shape")
    st.text_input(
        "shape of the mask", key=key, on_change=changed, width=320,
        help="Sizes or names: batch, h, Tq, Tk, with commas between; batch*h is a product.",
    )  # fmt: skip
    st.session_state["w_mk_shapes"] = kept()["shape"] if kept()["shape"] in SHAPES else None

    def picked() -> None:
        if st.session_state["w_mk_shapes"]:
            kept()["shape"] = st.session_state["w_mk_shapes"]

    st.pills("usual shapes", SHAPES, key="w_mk_shapes", on_change=picked,
             label_visibility="collapsed")  # fmt: skip
