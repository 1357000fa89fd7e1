"""Under the focus: one query or key alone, and the focus held against something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from mha_core.blockwise import Overview
from mha_core.errors import ConfigError
from mha_core.figures.compare_html import Side, compare_html
from mha_core.figures.query_html import query_html
from mha_core.patch import Patch
from mha_core.steps import map_name
from pages.shared import look, maps_view, runs
from pages.shared.atlas import Asked, Atlas
from pages.shared.maps_view import View


def line(atlas: Atlas, shown: View, found: Overview) -> None:
    """One query's weights over the keys, or one key's over the queries."""
    time = atlas.size(shown.asked)
    look.section(
        "One position", "click a cell of the focus, or type a position; bars are exact weights"
    )
    if shown.line is not None:
        st.session_state["w_position"] = shown.line[1]
    else:
        st.session_state.setdefault("w_position", None)

    def typed() -> None:
        at = st.session_state["w_position"]
        st.session_state["line"] = None if at is None else (st.session_state["w_line"], at)

    st.number_input(
        "position", 0, time - 1, step=1, key="w_position", on_change=typed, width=150,
        value=None, placeholder="none",
    )  # fmt: skip
    if shown.line is None:
        return
    direction, index = shown.line
    weights, visible = atlas.line(shown.asked, shown.head, index, direction, found)
    body = query_html(
        weights, visible, index=index, colours=look.colours(),
        direction="key" if direction == "key" else "query",
        tokens=atlas.names(shown.asked), head=shown.head,
    )  # fmt: skip
    look.clickable(look.block(body), key="line", on_pick=lambda _: None)


def compare(atlas: Atlas, shown: View, found: Overview) -> None:
    """The head in focus, A, against B, over the same window."""
    if shown.compare == "nothing":
        return
    look.section("Compare", "the window in focus; A on the left")
    try:
        with st.spinner("computing the other map", show_time=True):
            sides = _sides(atlas, shown, found)
    except ConfigError as error:
        st.error(look.safe(str(error)), icon=":material/error:")
        return
    a, b = sides
    time = atlas.size(shown.asked)
    look.zoomable(
        look.block(compare_html(a, b, colours=look.colours())),
        key="compare", patch=a.patch,
        on_cell=lambda queries, keys: None,  # noqa: ARG005
        on_box=lambda queries, keys: maps_view.zoom(queries, keys, time),
        on_reset=maps_view.reset,
    )  # fmt: skip


def _sides(atlas: Atlas, shown: View, found: Overview) -> tuple[Side, Side]:
    asked, head = shown.asked, shown.head
    tokens = atlas.names(asked)
    name = map_name(asked.step)

    def side(of: Asked, of_head: int, title: str, known: Overview | None) -> Side:
        return _side(_window(atlas, shown, of, of_head, known), of, title, tokens)

    match shown.compare:
        case "another head":
            return (
                side(asked, head, f"A: head {head}, {name}", found),
                side(asked, shown.other, f"B: head {shown.other}, {name}", found),
            )
        case "before the mask":
            masked, before = (replace(asked, step=step) for step in ("mask", "scale"))
            return (
                side(before, head, f"A: head {head}, scaled scores", None),
                side(masked, head, f"B: head {head}, masked", None),
            )
        case "scores":
            known = found if asked.step == "softmax" else None
            return (
                side(replace(asked, step="scale"), head, f"A: head {head}, scaled scores", None),
                side(replace(asked, step="softmax"), head, f"B: head {head}, weights", known),
            )
    weights = replace(asked, step="softmax")
    known = found if asked.step == "softmax" else None
    turned = _derived(
        atlas, shown, "turned", weights, head,
        lambda: atlas.other_causal(weights, head, shown.queries, shown.keys),
    )  # fmt: skip
    if turned is None:
        raise ConfigError("compare", shown.compare, "needs the layer's q and k")
    causal = atlas.is_causal(asked.item)
    titles = ("causal", "full") if causal else ("full", "causal")
    return (
        side(weights, head, f"A: head {head}, {titles[0]} (as it ran)", known),
        _side(turned, weights, f"B: head {head}, {titles[1]}", tokens),
    )


def _side(patch: Patch, asked: Asked, title: str, tokens: Sequence[str] | None) -> Side:
    weights = asked.step in ("softmax", "dropout")
    return Side(patch, title, "weight" if weights else "score", weights, tokens)


def _window(atlas: Atlas, shown: View, asked: Asked, head: int, known: Overview | None) -> Patch:
    found: Patch = _derived(
        atlas, shown, "window", asked, head,
        lambda: atlas.patch(asked, head, shown.queries, shown.keys, known),
    )  # fmt: skip
    return found


def _derived(
    atlas: Atlas, shown: View, what: str, asked: Asked, head: int, make: Callable[[], Any]
) -> Any:
    key = (what, asked, head, shown.queries, shown.keys, False)
    return runs.derived(atlas.key, key, make)
