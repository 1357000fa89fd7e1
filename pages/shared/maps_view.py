"""What of the maps is looked at on the maps page: step, item, order, head, window, one position."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import streamlit as st

from mha_core.errors import ConfigError
from mha_core.head_stats import HeadStats, keys_text
from mha_core.maps import SCALES
from mha_core.patch import Span
from mha_core.ranges import read_range, write_range
from pages.shared.atlas import Asked, Atlas

# Order of the heads -> the statistic it goes by.
ORDERS = {
    "head": None,
    "entropy": "entropy",
    "effective keys": "effective_keys",
    "distance": "distance",
    "share on first": "first",
    "share on self": "self",
    "share on previous": "previous",
}
STEP = "weights"  # shown first
COMPARE = ("nothing", "another head", "causal against full", "before the mask", "scores")


@dataclass(frozen=True)
class View:
    """What the controls say.

    Attributes:
        asked: which maps.
        scale: of the colours.
        order: a key of ORDERS; descending: the largest first.
        head, other: in focus, and the one it is compared with.
        compare: one of COMPARE.
        queries, keys: the window in focus.
        line: ("query" or "key", position) looked at alone.
    """

    asked: Asked
    scale: str
    order: str
    descending: bool
    head: int
    other: int
    compare: str
    queries: Span
    keys: Span
    line: tuple[str, int] | None

    @property
    def weights(self) -> bool:
        return self.asked.step in ("softmax", "dropout")

    def whole(self, time: int) -> bool:
        return self.queries == self.keys == (0, time)


def fit(steps: Container[str], batch: int) -> None:
    """Takes a step and a batch item back that the maps no longer have.

    What a control shows first is its own default, never set here: the browser may have seen nothing
    of a run that gave way to the next, and a value set at every run would undo a newer choice.
    """
    kept = st.session_state
    if "w_map_step" in kept and kept["w_map_step"] not in steps:
        del kept["w_map_step"]
    if kept.get("w_item", 0) >= batch:
        kept["w_item"] = batch - 1


def view(atlas: Atlas) -> View:
    """The controls' values; what the maps do not have becomes the nearest they have."""
    kept = st.session_state
    fit(atlas.steps, atlas.batch)
    if kept.get("w_other", 0) >= atlas.heads:
        kept["w_other"] = atlas.heads - 1
    asked = Asked(
        step=atlas.steps[kept.get("w_map_step", STEP)],
        item=kept.get("w_item", 0),
        how="mean" if kept.get("w_pooling") == "mean" else "max",
        plain=atlas.has_words and bool(kept.get("w_plain", False)),
    )
    time = atlas.size(asked)
    windows = _windows(atlas, asked, time)
    queries, keys = windows[-1] if windows else ((0, time), (0, time))
    line = kept.get("line")
    return View(
        asked=asked,
        scale=kept.get("w_colour_scale", SCALES[0]),
        order=kept.get("w_order", "head"),
        descending=kept.get("w_descending", True),
        head=min(kept.get("head", 0), atlas.heads - 1),
        other=kept.get("w_other", 0),
        compare=kept.get("w_compare", COMPARE[0]),
        queries=queries,
        keys=keys,
        line=line if line is not None and line[1] < time else None,
    )


def _windows(atlas: Atlas, asked: Asked, time: int) -> list[tuple[Span, Span]]:
    """The windows zoomed into, the present one last; none of other maps."""
    kept = st.session_state
    of = (atlas.time, time, asked.item, asked.plain)
    if kept.get("windows_of") != of:
        kept["windows_of"], kept["windows"], kept["range_error"] = of, [], None
        kept["line"] = None
    found: list[tuple[Span, Span]] = kept["windows"]
    return found


def zoom(queries: Span, keys: Span, time: int) -> None:
    """Another window, from which one can go back."""
    kept = st.session_state
    kept["range_error"] = None
    if (queries, keys) == ((0, time), (0, time)):
        kept["windows"] = []
    elif not kept["windows"] or kept["windows"][-1] != (queries, keys):
        kept["windows"] = [*kept["windows"], (queries, keys)]


def back() -> None:
    st.session_state["windows"] = st.session_state["windows"][:-1]
    st.session_state["range_error"] = None


def reset() -> None:
    st.session_state["windows"] = []
    st.session_state["range_error"] = None


def typed(time: int) -> None:
    """The ranges as they were typed; a bad one is told, and the window stays."""
    kept = st.session_state
    try:
        queries = read_range(kept["w_queries"], time, "queries")
        keys = read_range(kept["w_keys"], time, "keys")
    except ConfigError as error:
        kept["range_error"] = error
        return
    zoom(queries, keys, time)


def show_ranges(shown: View, time: int) -> None:
    """Puts the window into the fields, unless what was typed was refused: that stays to be seen."""
    kept = st.session_state
    if kept.get("range_error") is None:
        kept["w_queries"] = write_range(shown.queries, time)
        kept["w_keys"] = write_range(shown.keys, time)


def order_of(stats: HeadStats | None, shown: View, heads: int) -> list[int]:
    """The heads in the order asked for; equal ones by number."""
    name = ORDERS[shown.order]
    if name is None or stats is None:
        return list(range(heads))
    values = np.nan_to_num(np.array(getattr(stats, name), dtype=np.float64))
    return [int(n) for n in np.argsort(-values if shown.descending else values, kind="stable")]


def caption(stats: HeadStats | None, shown: View, head: int) -> str:
    """What a tile says beside the head's name: the statistic it is sorted by."""
    if stats is None:
        return ""
    name = ORDERS[shown.order] or "effective_keys"
    value: float = getattr(stats, name)[head]
    if name in ("first", "self", "previous"):
        return f"{100 * value:.1f} %"
    if name == "effective_keys":
        return keys_text(value)
    unit: dict[str, Any] = {"entropy": "nats", "distance": "apart"}
    return f"{value:,.0f} {unit[name]}" if value >= 100 else f"{value:.3g} {unit[name]}"
