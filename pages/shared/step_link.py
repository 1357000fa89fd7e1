"""From another page to a step of the pipeline, in the same session."""

from __future__ import annotations

import streamlit as st

from mha_core.steps import STEPS
from pages.shared import look


def step_link(step: str, *, ran: bool = True) -> None:
    """A button that opens the home page with the step chosen in the table.

    Args:
        step: id of the step.
        ran: whether the run has it; a mask or dropout that was not asked for has softmax instead.
    """
    spec = STEPS[step if ran else "softmax"]
    label = f"Step {spec.number}, {look.safe(spec.operation)}, in the pipeline"
    if st.button(label, key=f"w_step_{spec.id}", icon=":material/arrow_back:", type="tertiary"):
        st.session_state["step"] = spec.id
        st.switch_page("app.py")
