"""Tq other than Tk: upper-left against lower-right, and decoding with a cache, call by call."""

from __future__ import annotations

import streamlit as st

from mha_core.figures.mask_cache import aligned_html, cache_html, cache_svg
from mha_core.figures.text import number
from mha_core.mask_lab import align
from mha_core.mask_lab.lab import Lab
from pages.shared import look, runs
from pages.shared.choice import Choice
from pages.shared.masks_export import align_export
from pages.shared.masks_state import kept, note, widget

MOST = 12  # queries or keys of the two grids


def align_section(choice: Choice, lab: Lab) -> None:
    """The two alignments at any Tq and Tk, then the run's own input through a cache."""
    look.section("Causal where Tq ≠ Tk", "the same words, two masks: say which is meant")
    with st.container(horizontal=True, key="mk_align"):
        for name, title in (("time_q", "queries, Tq"), ("time_k", "keys, Tk")):
            key, changed = widget(name)
            st.number_input(title, 1, MOST, key=key, on_change=changed, width=140)
    both = align.aligned(kept()["time_q"], kept()["time_k"])
    st.html(look.block(aligned_html(both)))
    look.section("Decoding with a key/value cache", _note(lab))
    prompt, chunk = _pieces(lab)
    steps: list[align.CacheStep] = runs.derived(
        choice, ("mask cache", prompt, chunk), lambda: align.decode(lab, prompt, chunk)
    )
    worst = max(step.difference for step in steps)
    same = "bit for bit" if worst == 0 else f"but for {number(worst, 2)} at most"
    said = (
        "Each call projects only its new positions and reads earlier keys and values from the "
        f"cache. Its outputs equal those of one full causal forward, {same}. With is_causal=True "
        "in a later call the mask is upper-left: its first query sees key 0 alone."
    )
    picture = cache_svg(steps, look.colours())
    # Not st.html, which takes figures out.
    look.clickable(
        look.block(
            f'<div class="mk-decode"><figure>{picture}<figcaption class="key">scores computed, a '
            "colour a call; pale = keys from the cache</figcaption></figure>"
            f'<p class="mk-said">{said}</p></div>{cache_html(steps)}'
        ),
        key="mk_cache",
        on_pick=lambda _: None,
    )
    align_export(choice, steps)


def _note(lab: Lab) -> str:
    own = "this run's input and weights, causal"
    return f"{own} · {note(lab)}" if note(lab) else own


def _pieces(lab: Lab) -> tuple[int, int]:
    fields = kept()
    with st.container(horizontal=True, key="mk_pieces"):
        found = []
        for name, title in (
            ("prompt", "prompt, positions at once"),
            ("chunk", "then positions a call"),
        ):
            key, changed = widget(name, min(fields[name], lab.time))
            st.number_input(title, 1, lab.time, key=key, on_change=changed, width=190)
            found.append(int(st.session_state[key]))
    return found[0], found[1]
