"""The heads: overview of all, focus on one, statistics of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_core import maps
from mha_core.figures.focus import cell_labels
from mha_core.figures.focus_html import Hover, map_html
from mha_core.figures.raster import tiles
from mha_core.figures.text import number
from mha_core.figures.tiles_html import Tile, tiles_html
from mha_core.head_stats import HeadStats, head_stats, keys_text
from mha_core.maps import SCALES, HeadMaps, Pooled, Pooling, Scaled
from mha_core.palette import Palette
from mha_core.steps import map_name
from pages.shared import look, maps_view, runs
from pages.shared.choice import Picture
from pages.shared.heads import Heads

FOCUS = 96  # cells a side sent for the focus map
EXACT_BESIDE = 64  # cells a side up to which the hover carries a second value


@dataclass(frozen=True)
class View:
    """What of the maps is looked at."""

    step: str
    item: int
    scale: str
    how: Pooling
    head: int
    plain: bool  # special tokens hidden


def tile_limit(heads: int) -> int:
    """Pixels a side of a tile: what is sent stays the same, whatever the number of heads."""
    return FOCUS if heads <= 16 else FOCUS // 2


@st.fragment
def heads_section(heads: Heads) -> None:
    """Overview of all heads, and one in focus."""
    if st.session_state.pop("head_picked", False):
        st.rerun()  # other sections show the same head
    c = look.colours()
    look.section("Heads", "query from the top, key from the left · hatched = masked, not zero")
    view = _view(heads)
    controls = st.container(horizontal=True, key="heads_controls", vertical_alignment="bottom")
    found = heads.shown(view.step, view.item, plain=view.plain)
    stats = _stats(heads, view)
    labels = heads.names(view.item, plain=view.plain)
    large = maps.scaled(found, FOCUS, view.how, view.scale)
    limit = tile_limit(heads.heads)
    small = large if limit == FOCUS else maps.scaled(found, limit, view.how, view.scale)
    overview = _overview(small, stats, view, c)
    focus = _focus(labels, found, large, stats, view, c)
    look.clickable(
        look.block(f'<div class="heads"><div>{overview}</div><div>{focus}</div></div>'),
        key="heads",
        on_pick=_focus_on,
    )
    # The controls, here and in the sidebar, show what was chosen already: what has changed is
    # painted before them.
    look.let_paint()
    with controls:
        _controls(heads, view)
    more = st.expander("Statistics of each head", key="w_stats", on_change="rerun")
    if more.open:
        more.html(_statistics(stats, c))


def _view(heads: Heads) -> View:
    """What the controls say; where the run has no such step, item or head, the nearest."""
    kept = st.session_state
    maps_view.fit(heads.steps, heads.batch)
    return View(
        step=heads.steps[kept.get("w_map_step", maps_view.STEP)],
        item=kept.get("w_item", 0),
        scale=kept.get("w_colour_scale", SCALES[0]),
        how="mean" if kept.get("w_pooling") == "mean" else "max",
        head=min(kept.get("head", 0), heads.heads - 1),
        plain=heads.words is not None and bool(kept.get("w_plain", False)),
    )


def _controls(heads: Heads, view: View) -> None:
    st.segmented_control(
        "step", list(heads.steps), key="w_map_step", default=maps_view.STEP, required=True
    )
    st.number_input("batch item", 0, heads.batch - 1, step=1, key="w_item", width=130)
    weights = view.step in ("softmax", "dropout")
    st.selectbox("scale", SCALES, key="w_colour_scale", disabled=not weights, width=190)
    if heads.time > FOCUS:
        st.selectbox("pooling", ("max", "mean"), key="w_pooling", width=130)
    if heads.words is not None:
        st.toggle(
            "hide special tokens", key="w_plain",
            help="[CLS] and [SEP] soak up attention. Without them every row of weights is "
            "renormalised over the words.",
        )  # fmt: skip


def _stats(heads: Heads, view: View) -> HeadStats:
    def run() -> HeadStats:
        return head_stats(heads.shown("softmax", view.item, plain=view.plain))

    found: HeadStats = runs.derived(heads.key, ("stats", view.item, view.plain), run)
    return found


def _overview(drawn: tuple[Pooled, Scaled], stats: HeadStats, view: View, c: Palette) -> str:
    """All heads as tiles on one scale."""
    pooled, scaled = drawn
    heads = len(scaled.values)
    masked = bool(np.isnan(scaled.values).any())
    body = tiles_html(
        [Tile(n, picture, keys_text(stats.effective_keys[n]))
         for n, picture in enumerate(tiles(scaled, c))],
        chosen=view.head, masked=masked, side=180 if heads <= 4 else 112 if heads <= 16 else 76,
        colours=c, row=heads <= 4,
    )  # fmt: skip
    note = "keys: the mean over the queries of exp(entropy)"
    if pooled.factor > 1:
        note += f" · {_pooling(pooled)} a pixel"
    return f'{body}<div class="key">{note}</div>'


def _pooling(pooled: Pooled) -> str:
    return f"{pooled.how} of {pooled.factor} × {pooled.factor} cells"


def _focus_on(head: str) -> None:
    kept = st.session_state
    kept["head"] = int(head)
    on_picture = isinstance(getattr(kept.get("good"), "origin", None), Picture)
    kept["head_picked"] = on_picture or kept.get("pinned") is not None


def _focus(
    tokens: Sequence[str] | None,
    found: HeadMaps,
    drawn: tuple[Pooled, Scaled],
    stats: HeadStats,
    view: View,
    c: Palette,
) -> str:
    """One head, large, with its values under the pointer."""
    pooled, scaled = drawn
    name = map_name(view.step)
    keys, entropy = stats.effective_keys[view.head], number(stats.entropy[view.head], 3)
    labels = cell_labels(pooled, tokens)
    hover = Hover(labels, *_told(found, pooled, view), ranges=pooled.factor > 1)
    alt = f"{name} of head {view.head}: query from the top, key from the left"
    note = f'<div class="key">{_pooling(pooled)} a cell</div>' if pooled.factor > 1 else ""
    return (
        f'<div class="focus-head" style="--head:{c.head(view.head)}">'
        f"<b>head {view.head}, {name}</b>"
        f"<span>entropy {entropy} nats, {keys_text(keys)}</span></div>"
        f"{map_html(scaled, view.head, hover, colours=c, alt=alt)}{note}"
    )


def _told(
    found: HeadMaps, pooled: Pooled, view: View
) -> tuple[str, tuple[str, NDArray[np.float32]] | None]:
    """What the hover calls the value shown, and a second value where the map is small."""
    pre = "" if pooled.factor == 1 else f"{pooled.how} "
    if not found.is_weights:
        return pre + map_name(view.step), None
    shown = {"log": "log₁₀ weight", "× uniform": "× uniform"}.get(view.scale, "weight")
    if pooled.values.shape[-1] > EXACT_BESIDE:
        return pre + shown, None
    one = found.head(view.head)
    if shown == "weight":
        ratio = maps.pool(maps.relative_to_uniform(one), FOCUS, view.how).values[0]
        return pre + shown, ("× uniform", ratio)
    return pre + shown, ("weight", maps.pool(one, FOCUS, view.how).values[0])


def _statistics(stats: HeadStats, c: Palette) -> str:
    titles = ("entropy, nats", "effective keys", "distance", "on first", "on self", "on previous")
    columns = (stats.entropy, stats.effective_keys, stats.distance)
    shares = (stats.first, stats.self, stats.previous)
    head = "".join(f"<th>{title}</th>" for title in titles)
    rows = "".join(
        f'<tr><td><b style="color:{c.head(n)}">■</b> head {n}</td>'
        + "".join(f"<td>{column[n]:.2f}</td>" for column in columns)
        + "".join(f"<td>{100 * share[n]:.1f} %</td>" for share in shares)
        + "</tr>"
        for n in range(len(stats.entropy))
    )
    note = (
        "means over the queries: distance is |query − key| in positions, weighted; shares of the "
        "weight on key 0, on the query itself, on the one before"
    )
    return look.block(
        f'<div class="stats"><table><tr><th>head</th>{head}</tr>{rows}</table>'
        f'<div class="key">{note}</div></div>'
    )
