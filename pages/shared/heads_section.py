"""The heads: overview of all, focus on one, statistics of each."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from mha_core import Trace, maps
from mha_core.figures.focus import focus_spec
from mha_core.figures.raster import tiles
from mha_core.figures.text import number
from mha_core.maps import SCALES, HeadMaps, Pooling
from mha_core.palette import Palette
from mha_core.steps import MAP_STEPS, map_name
from pages.shared import look, runs
from pages.shared.state import Choice

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


def tile_limit(heads: int) -> int:
    """Pixels a side of a tile: what is sent stays the same, whatever the number of heads."""
    return 160 if heads <= 4 else 96 if heads <= 16 else 48


@st.fragment
def heads_section(choice: Choice, trace: Trace, width: int) -> None:
    """Overview of all heads, and one in focus."""
    c = look.colours()
    look.section("Heads", "query from the top, key from the left · hatched = masked, not zero")
    view = _controls(trace)
    found = maps.head_maps(trace, view.step, view.item)
    stats = _stats(choice, trace, view.item)
    side_by_side = width >= 820
    overview, focus = st.columns([1, 1], gap="medium") if side_by_side else (
        st.container(), st.container()
    )  # fmt: skip
    with overview:
        _overview(found, stats, view, c)
    with focus:
        focus_width = min(560, int(width * 0.48) if side_by_side else width)
        _focus(choice, found, stats, view, c, focus_width)
    with st.expander("Statistics of each head"):
        _statistics(stats, c)


def _controls(trace: Trace) -> View:
    steps = {map_name(step): step for step in MAP_STEPS if step in trace}
    one, two, three, four = st.columns([2.6, 1.2, 2.2, 1.2], vertical_alignment="bottom")
    if st.session_state.get("w_map_step") not in steps:
        st.session_state["w_map_step"] = "weights"
    name = one.segmented_control("step", list(steps), key="w_map_step", required=True)
    last = trace.config.batch - 1
    st.session_state["w_item"] = min(st.session_state.get("w_item", 0), last)
    item = two.number_input("batch item", 0, last, step=1, key="w_item")
    step = steps[name or "weights"]
    weights = step in ("softmax", "dropout")
    st.session_state.setdefault("w_colour_scale", SCALES[0])
    scale = three.selectbox("scale", SCALES, key="w_colour_scale", disabled=not weights)
    st.session_state.setdefault("w_pooling", "max")
    pooled = trace.config.time > FOCUS
    how = four.selectbox("pooling", ("max", "mean"), key="w_pooling", disabled=not pooled)
    head = min(st.session_state.get("head", 0), trace.config.heads - 1)
    return View(step, int(item), scale, how, head)


def _stats(choice: Choice, trace: Trace, item: int) -> maps.HeadStats:
    found: maps.HeadStats = runs.derived(
        choice, ("stats", item), lambda: maps.head_stats(maps.head_maps(trace, "softmax", item))
    )
    return found


def _overview(found: HeadMaps, stats: maps.HeadStats, view: View, c: Palette) -> None:
    heads = found.values.shape[0]
    pooled, scaled = maps.scaled(found, tile_limit(heads), view.how, view.scale)
    pictures = tiles(scaled, c)
    body = "".join(
        f'<figure class="tile" data-pick="{head}" tabindex="0" role="button" '
        f'aria-selected="{"true" if head == view.head else "false"}" '
        f'aria-label="head {head}, {stats.effective_keys[head]:.1f} effective keys" '
        f'style="--head:{c.head(head)}"><div class="cap"><b>head {head}</b>'
        f'<i>{stats.effective_keys[head]:.1f} keys</i></div><div class="pic">'
        f'<img src="{picture}" alt=""></div></figure>'
        for head, picture in enumerate(pictures)
    )
    tile = 180 if heads <= 4 else 112 if heads <= 16 else 76
    note = "keys: exp(entropy), mean over the queries"
    if pooled.factor > 1:
        note += f" · {view.how} of {pooled.factor} × {pooled.factor} cells a pixel"
    look.clickable(
        look.block(
            f'<div class="tiles" style="--tile:{tile}px">{body}</div><div class="key">{note}</div>'
        ),
        key="tiles",
        on_pick=_focus_on,
    )


def _focus_on(head: str) -> None:
    st.session_state["head"] = int(head)


def _focus(
    choice: Choice, found: HeadMaps, stats: maps.HeadStats, view: View, c: Palette, width: int
) -> None:
    pooled, scaled = maps.scaled(found, FOCUS, view.how, view.scale)
    name = map_name(view.step)
    beside = None
    value = {"log": "log₁₀ weight", "× uniform": "× uniform"}.get(view.scale, "weight")
    if not found.is_weights:
        value = name
    elif pooled.values.shape[-1] <= EXACT_BESIDE:
        one = HeadMaps(found.step, found.values[view.head : view.head + 1],
                       None if found.visible is None else found.visible[view.head : view.head + 1])  # fmt: skip
        if view.scale in ("× uniform", "log"):
            beside = ("weight", maps.pool(one, FOCUS, view.how).values[0])
        else:
            ratio = maps.pool(maps.relative_to_uniform(one), FOCUS, view.how).values[0]
            beside = ("× uniform", ratio)
    st.html(
        look.block(
            f'<div class="tile" style="--head:{c.head(view.head)};cursor:default;padding:0"><div class="cap">'
            f"<b>head {view.head}, {name}</b><i>entropy {number(stats.entropy[view.head], 3)} nats · "
            f"{stats.effective_keys[view.head]:.1f} keys</i></div></div>"
        )
    )
    spec = focus_spec(
        pooled, scaled, view.head,
        colours=c, tokens=choice.tokens, width=width, name=value, beside=beside,
    )  # fmt: skip
    look.chart(
        spec,
        key="focus_chart",
        width=width,
        alt=f"Heatmap of the {name} of head {view.head}: query from the top, key from the left.",
    )
    if pooled.factor > 1:
        st.caption(
            f"{view.how} of {pooled.factor} × {pooled.factor} cells shown as one: "
            f"{pooled.values.shape[-1]} of {pooled.time} rows."
        )


def _statistics(stats: maps.HeadStats, c: Palette) -> None:
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
    st.html(
        look.block(
            f'<div class="stats"><table><tr><th>head</th>{head}</tr>{rows}</table>'
            '<div class="key">means over the queries: distance is |query − key| in positions, '
            "weighted; shares of the weight on key 0, on the query itself, on the one before</div></div>"
        )
    )
