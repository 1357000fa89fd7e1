"""The maps page: all heads, one in focus that refines as it is zoomed into, one position alone."""

from __future__ import annotations

import numpy as np
import streamlit as st

from mha_core.blockwise import Overview
from mha_core.errors import ConfigError
from mha_core.figures.patch_html import PatchHover, patch_html
from mha_core.figures.raster import tiles
from mha_core.figures.text import number
from mha_core.figures.tiles_html import Tile, tiles_html
from mha_core.head_stats import keys_text
from mha_core.maps import SCALES, Scaled, on_scale
from mha_core.patch import Patch, Span, scaled_patch, whole_patch
from mha_core.steps import map_name
from pages.shared import jobs, look, maps_view, runs
from pages.shared.atlas import Asked, Atlas
from pages.shared.jobs import Job
from pages.shared.maps_view import COMPARE, ORDERS, View
from pages.shared.store import store

_PATIENCE = 1.0  # seconds within which a computation shows no progress
_LOOK = 0.4  # seconds between two looks at its progress


def computed(atlas: Atlas, asked: Asked) -> Overview | Job:
    """The overview, or the job that is still at it."""
    key = (atlas.key, asked)
    kept = store("overviews")
    if kept.has(key) or not atlas.slow:
        found: Overview = kept.get(key, lambda: atlas.overview(asked), lambda made: made.nbytes)
        return found
    job = jobs.wanted(key, lambda progress: atlas.overview(asked, progress))
    if not job.cancelled and job.wait(max(0.0, _PATIENCE - job.age)):
        if job.failure is not None:
            jobs.forget()
            raise job.failure
        if job.error is not None:
            raise job.error
        made: Overview | None = job.result
        if made is not None:
            kept.put(key, made, lambda one: one.nbytes)
            return made
    return job


def cancelled() -> None:
    """In place of maps that were given up."""
    st.info("Cancelled: the maps shown are the last that were computed.")
    st.button("Compute", key="w_compute", on_click=jobs.forget, type="primary")


def watch(job: Job) -> None:
    """Tells how far a computation is, at the foot of the window; draws the page when it ends.

    Not to be called in a fragment, for the reason `long_status` gives.
    """
    with st.container(key="maps_progress"):
        _progress(job)


@st.fragment(run_every=_LOOK)
def _progress(job: Job) -> None:
    if not job.running or job.cancelled:
        st.rerun()
    left = job.left()
    said = f"computing the maps block by block: {100 * job.share:.0f} %"
    if left is not None:
        said += f", about {max(1, round(left))} s left"
    with st.container(horizontal=True, vertical_alignment="center", key="maps_bar"):
        st.progress(min(1.0, job.share), said)
        if st.button("Cancel", key="w_cancel"):
            job.cancel()
            st.rerun()


def controls(atlas: Atlas, shown: View) -> None:
    """What is shown of all heads."""
    with st.container(horizontal=True, key="heads_controls", vertical_alignment="bottom"):
        st.segmented_control(
            "step", list(atlas.steps), key="w_map_step", default=maps_view.STEP, required=True
        )
        st.number_input("batch item", 0, atlas.batch - 1, step=1, key="w_item", width=130)
        st.selectbox("scale", SCALES, key="w_colour_scale", disabled=not shown.weights, width=150)
        if atlas.size(shown.asked) > atlas.limit:
            st.selectbox("pooling", ("max", "mean"), key="w_pooling", width=110)
        st.selectbox("order of the heads", list(ORDERS), key="w_order", width=170)
        if shown.order != "head":
            st.toggle("largest first", True, key="w_descending")
        if atlas.has_words:
            st.toggle(
                "hide special tokens", key="w_plain",
                help="[CLS] and [SEP] soak up attention. Without them every row of weights is "
                "renormalised over the words.",
            )  # fmt: skip


def all_heads(atlas: Atlas, shown: View, found: Overview) -> Scaled:
    """Tiles of all heads on one scale; the scale is that of the focus, too."""
    c = look.colours()
    scaled = _scaled(found, shown)
    order = maps_view.order_of(found.stats, shown, atlas.heads)
    pictures = tiles(scaled, c)
    masked = bool(np.isnan(scaled.values).any())
    sizes = ((4, 200), (9, 150), (16, 112))
    side = next((size for most, size in sizes if atlas.heads <= most), 72)
    body = tiles_html(
        [Tile(n, pictures[n], maps_view.caption(found.stats, shown, n)) for n in order],
        chosen=shown.head, masked=masked, side=side, colours=c, row=False,
    )  # fmt: skip
    note = "keys: the mean over the queries of exp(entropy)"
    if shown.order != "head":
        note = f"{'largest' if shown.descending else 'smallest'} {shown.order} first"
    if found.pooled.factor > 1:
        factor = found.pooled.factor
        note += f" · {found.pooled.how} of {factor:,} × {factor:,} cells a pixel"
    look.clickable(
        look.block(
            f'<div class="heads solo">{body}<div class="key">{note}</div></div>'
        ),
        key="heads", on_pick=_pick_head,
    )  # fmt: skip
    return scaled


def _scaled(found: Overview, shown: View) -> Scaled:
    if not shown.weights:
        return on_scale(found.pooled.values, None)
    relative = shown.scale == "× uniform" and found.relative is not None
    pooled = found.relative if relative and found.relative is not None else found.pooled
    return on_scale(pooled.values, shown.scale)


def _pick_head(head: str) -> None:
    st.session_state["head"] = int(head)


def focus(atlas: Atlas, shown: View, found: Overview, scaled: Scaled) -> None:
    """One head, large: the whole, or exactly a window of it."""
    c = look.colours()
    time = atlas.size(shown.asked)
    patch, coloured = _in_focus(atlas, shown, found, scaled)
    name = map_name(shown.asked.step)
    relative = shown.weights and shown.scale == "× uniform"
    value = "× uniform" if relative else "log₁₀ weight" if shown.scale == "log" else "weight"
    hover = PatchHover(
        value if shown.weights else name, atlas.names(shown.asked),
        many="weights" if shown.weights else "scores",
    )  # fmt: skip
    picture = patch_html(
        patch, coloured, hover, colours=c,
        alt=f"{name} of head {shown.head}: query from the top, key from the left",
    )  # fmt: skip
    told = ""
    if found.stats is not None:
        entropy = number(found.stats.entropy[shown.head], 3)
        keys = found.stats.effective_keys[shown.head]
        told = f"entropy {entropy} nats, {keys_text(keys)}"
    heading = (
        f'<div class="focus-head" style="--head:{c.head(shown.head)}">'
        f"<b>head {shown.head}, {name}</b><span>{told}</span></div>"
    )
    look.zoomable(
        look.block(f'<div class="heads solo"><div>{heading}{picture}</div></div>'),
        key="focus", patch=patch,
        on_cell=lambda queries, keys: _pick_cell(atlas, shown, found, queries, keys),
        on_box=lambda queries, keys: maps_view.zoom(queries, keys, time),
        on_reset=maps_view.reset,
    )  # fmt: skip


def _in_focus(atlas: Atlas, shown: View, found: Overview, scaled: Scaled) -> tuple[Patch, Scaled]:
    """The head's own part of the overview; or a window computed anew, on a scale of its own."""
    time = atlas.size(shown.asked)
    if shown.whole(time):
        one = slice(shown.head, shown.head + 1)
        part = Scaled(
            scaled.values[one], scaled.low[one], scaled.high[one], scaled.title, scaled.clipped,
            scaled.diverging,
        )  # fmt: skip
        return whole_patch(found.pooled, shown.head), part
    relative = shown.weights and shown.scale == "× uniform"
    patch = runs.derived(
        atlas.key, ("window", shown.asked, shown.head, shown.queries, shown.keys, relative),
        lambda: atlas.patch(
            shown.asked, shown.head, shown.queries, shown.keys, found, relative=relative
        ),
    )  # fmt: skip
    return scaled_patch(patch, shown.scale, weights=shown.weights)


def _pick_cell(atlas: Atlas, shown: View, found: Overview, queries: Span, keys: Span) -> None:
    """The query or the key of a cell; of a pooled cell, that of its largest value."""
    query, key = queries[0], keys[0]
    if (queries[1] - queries[0], keys[1] - keys[0]) != (1, 1):
        inside = atlas.patch(shown.asked, shown.head, queries, keys, found)
        values = np.nan_to_num(inside.values, nan=-np.inf)
        row, column = np.unravel_index(int(values.argmax()), values.shape)
        query, key = inside.rows()[row][0], inside.columns()[column][0]
    kind = st.session_state.get("w_line", "query")
    st.session_state["line"] = (kind, query if kind == "query" else key)


def focus_controls(atlas: Atlas, shown: View) -> None:
    """The window as ranges one can type, the way back, and what a click means."""
    time = atlas.size(shown.asked)
    maps_view.show_ranges(shown, time)
    with st.container(horizontal=True, key="focus_controls", vertical_alignment="bottom"):
        for axis in ("queries", "keys"):
            st.text_input(
                axis, key=f"w_{axis}", on_change=maps_view.typed, args=(time,), width=130,
                placeholder=f"0–{time - 1}",
            )  # fmt: skip
        windows = st.session_state["windows"]
        with st.container(horizontal=True, width="content", key="zoom_ways"):
            st.button("Back", key="w_zoom_back", on_click=maps_view.back, disabled=not windows)
            st.button("Reset", key="w_zoom_reset", on_click=maps_view.reset, disabled=not windows)
        st.segmented_control(
            "a click shows", ["query", "key"], key="w_line", default="query", required=True
        )
        st.selectbox("compare with", _comparable(atlas), key="w_compare", width=190)
        if shown.compare == "another head":
            st.number_input("the other head", 0, atlas.heads - 1, step=1, key="w_other", width=130)
    error: ConfigError | None = st.session_state.get("range_error")
    if error is not None:
        st.error(look.safe(str(error)), icon=":material/error:")


def _comparable(atlas: Atlas) -> list[str]:
    """What the head in focus can be held against."""
    offered = list(COMPARE)
    if "masked" not in atlas.steps:
        offered.remove("before the mask")
    if "scaled" not in atlas.steps:
        offered.remove("scores")
    if not atlas.has_q_and_k:
        offered.remove("causal against full")
    if st.session_state.get("w_compare", offered[0]) not in offered:
        st.session_state["w_compare"] = offered[0]
    return offered
