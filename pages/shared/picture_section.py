"""What the vision model looks at: a head's weights over the picture."""

from __future__ import annotations

import numpy as np
import streamlit as st

from mha_core import Trace
from mha_core.figures.overlay_html import CLS, overlay_html, overlay_tiles, patch_pick
from pages.shared import look, own_picture
from pages.shared.choice import Picture


@st.fragment
def picture_section(origin: Picture, trace: Trace) -> None:
    """All heads over the picture, and one with patches to choose as the query."""
    if st.session_state.pop("head_picked", False):
        st.rerun()  # the sections below show the same head
    c = look.colours()
    patch: int | None = st.session_state.get("patch")
    head = min(st.session_state.get("head", 0), trace.config.heads - 1)
    name = "[CLS]" if patch is None else f"patch {divmod(patch, 16)[0]},{divmod(patch, 16)[1]}"
    look.section("On the picture", f"weights of {name} as the query; choose a patch")
    image = own_picture.image(origin)
    rows = trace.weights[0, :, 0 if patch is None else patch + 1].float().numpy()
    alt = "the drawn scene" if origin.digest == own_picture.SAMPLE else "your picture"
    tiles = overlay_tiles(image, rows, colours=c, chosen=head, patch=patch)
    focus = overlay_html(image, np.asarray(rows[head]), colours=c, head=head, alt=alt, patch=patch)
    look.clickable(
        look.block(f'<div class="heads"><div>{tiles}</div><div>{focus}</div></div>'),
        key="picture",
        on_pick=_picked,
    )


def _picked(value: str) -> None:
    kind, _, digits = value.partition(":")
    if kind == "head" and digits.isdigit():
        st.session_state["head"] = int(digits)
        st.session_state["head_picked"] = True
    elif value == CLS:
        st.session_state["patch"] = None
    elif (patch := patch_pick(value)) is not None:
        st.session_state["patch"] = patch
