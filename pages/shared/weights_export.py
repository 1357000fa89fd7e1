"""W_q, W_k, W_v and W_o as a file, under the names that other code reads."""

from __future__ import annotations

import streamlit as st

from mha_core import Trace
from mha_core.errors import ConfigError
from mha_core.layouts import FORMS, LAYOUTS, to_bytes, write
from pages.shared import look


@st.fragment
def weights_panel(trace: Trace) -> None:
    """Layout, prefix and kind of file, and the download."""
    st.caption("The layer's weights, bit for bit, as a state dict that loads elsewhere.")
    one, two, three = st.columns([2.4, 1.6, 1.2])
    name = one.selectbox(
        "W_q, W_k, W_v, W_o as", list(LAYOUTS), key="w_layout",
        format_func=lambda key: f"{LAYOUTS[key].label}: {', '.join(LAYOUTS[key].weights)}",
    )  # fmt: skip
    prefix = two.text_input("prefix", key="w_layout_prefix", placeholder="e.g. h.0.attn.")
    form = three.segmented_control(
        "file", FORMS, key="w_layout_form", default=FORMS[0], required=True
    )
    layout = LAYOUTS[name]
    choices = {}
    for field, options in (("order", layout.orders), ("orientation", layout.orientations)):
        if len(options) > 1:
            choices[field] = st.segmented_control(
                f"{field} of the rows" if field == "order" else field, options,
                key=f"w_layout_{field}", default=options[0], required=True,
            )  # fmt: skip
    try:
        state = write(trace.module, name, prefix=prefix, **choices)
        data = to_bytes(state, form or FORMS[0])
    except ConfigError as error:
        st.error(look.safe(str(error)), icon=":material/error:")
        return
    file = f"attention_d{trace.config.d_model}_h{trace.config.heads}_{name}.{form}"
    st.download_button(
        f"Download {file}", data, file_name=file, mime="application/octet-stream",
        key="download_weights", on_click="ignore", icon=":material/download:",
    )  # fmt: skip
