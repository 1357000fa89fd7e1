"""A page with one map to zoom into, and what it was told, for the tests of the script."""

from __future__ import annotations

import streamlit as st
import torch

from mha_core.figures.patch_html import PatchHover, patch_html
from mha_core.patch import Span, patch_of, scaled_patch
from pages.shared import look

TIME = 60
LIMIT = 20


def values() -> torch.Tensor:
    """(TIME, TIME) weights, causal, the same in every run."""
    made = torch.rand(TIME, TIME, generator=torch.Generator().manual_seed(0))
    return made.tril() / made.tril().sum(-1, keepdim=True)


def page() -> None:
    look.client()
    state = st.session_state
    told: list[str] = state.setdefault("told", [])
    queries, keys = state.setdefault("window", ((0, TIME), (0, TIME)))

    def box(queries: Span, keys: Span) -> None:
        told.append(f"box {queries} {keys}")
        state["window"] = (queries, keys)

    def reset() -> None:
        told.append("reset")
        state["window"] = ((0, TIME), (0, TIME))

    visible = torch.ones(TIME, TIME, dtype=torch.bool).tril()
    rows, columns = slice(*queries), slice(*keys)
    patch = patch_of(
        values()[rows, columns], visible[rows, columns], queries, keys, LIMIT, time=TIME
    )
    patch, scaled = scaled_patch(patch)
    words = [f"w{place}" for place in range(TIME)]
    shown = patch_html(
        patch, scaled, PatchHover("weight", words), colours=look.colours(), alt="weights"
    )
    look.zoomable(
        look.block(f'{shown}<button data-pick="other">other</button>'),
        key="map",
        patch=patch,
        on_cell=lambda query, key: told.append(f"cell {query} {key}"),
        on_box=box,
        on_reset=reset,
        on_pick=lambda value: told.append(f"pick {value}"),
    )
    st.code("\n".join(["told:", *told]), language=None)


if __name__ == "__main__":
    page()
