"""The factor on the scores: spread, entropy, saturation and gradient over d_k, sampled now."""

from __future__ import annotations

import streamlit as st

from mha_core.figures.mask_scale import charts_html, scale_table
from mha_core.mask_lab.lab import Lab
from mha_core.mask_lab.saturation import SCALES, Saturation, measured, sampled
from pages.shared import look, runs
from pages.shared.choice import Choice
from pages.shared.masks_export import scale_export
from pages.shared.masks_state import kept, note, widget

KEYS = (8, 16, 32, 64, 128, 256)


def scale_section(choice: Choice, lab: Lab) -> None:
    """Charts over d_k, the run's own scores under the three factors, and every number."""
    look.section(
        "1/√d_k, none, 1/√d_model",
        f"q and k drawn standard normal, seed {choice.config.seed}, d_model = {lab.heads} · d_k",
    )
    key, changed = widget("keys")
    st.select_slider("keys in a row", KEYS, key=key, on_change=changed, width=320)
    keys, seed, heads = kept()["keys"], choice.config.seed, lab.heads
    found: list[Saturation] = runs.derived(
        ("mask scale", heads, keys, seed), (), lambda: sampled(heads, keys=keys, seed=seed)
    )
    c = look.colours()
    d_k = lab.module.d_k
    # Not st.html, which takes figures out.
    charts = look.block(charts_html(found, c, at=d_k))
    look.clickable(charts, key="mk_charts", on_pick=lambda _: None)
    st.html(
        look.block(
            '<div class="key">A score is a sum of d_k products, so its standard deviation grows '
            "as √d_k. Unscaled, one key soon takes the whole row, and softmax passes no gradient; "
            "divided by √d_model the rows stay near even. Dashed: the d_k of this page.</div>"
        )
    )
    look.section("This run's own scores", _note(lab))
    own: list[Saturation] = runs.derived(choice, ("mask own scale",), lambda: _own(lab))
    st.html(look.block(scale_table(own, c)))
    more = st.expander("Every number sampled", key="w_mk_numbers", on_change="rerun")
    if more.open:
        more.html(look.block(scale_table(found, c)))
    scale_export(choice, found, own, d_k)


def _note(lab: Lab) -> str:
    own = "its q and k, no mask: projections set their spread"
    return f"{own} · {note(lab)}" if note(lab) else own


def _own(lab: Lab) -> list[Saturation]:
    q, k, _ = lab.qkv
    scores = q.float() @ k.float().transpose(-2, -1)
    return [measured(scores, scale, lab.module.d_k, lab.heads) for scale in SCALES]
