"""The proof strip: what was checked on the run in view, with its figures."""

from __future__ import annotations

import streamlit as st

from mha_core.proofs import Proof
from pages.shared import look, runs
from pages.shared.choice import Choice

PAINT = 0.35  # seconds the browser takes to paint the rest
WAITS = 10  # looks, meanwhile, whether another run is wanted


def proof_cards(proofs: list[Proof]) -> str:
    """One card a proof: green or red with its figure, never a bare tick."""
    marks = {True: ("holds", "✓"), False: ("fails", "✗"), None: ("", "–")}
    cards = ""
    for proof in proofs:
        kind, mark = marks[proof.holds]
        cards += (
            f'<div class="proof"><span class="mark {kind}">{mark}</span><b>{proof.name}</b>'
            f'<div class="fig {kind}">{proof.figure}</div>'
            f'<div class="why">{proof.detail}</div></div>'
        )
    return f'<div class="proofs">{cards}</div>'


def proof_section(choice: Choice) -> None:
    """The strip under the heads.

    Proving takes several forwards more. It waits until the page is painted, and is given up at
    once when the next run is asked for.
    """
    if not runs.proved(choice):
        for _ in range(WAITS):
            look.let_paint(PAINT / WAITS)
            st.session_state["proving"] = choice  # where a rerun asked for meanwhile takes over
    title = look.heading("Proofs", "computed on this run")
    st.html(look.block(f"{title}{proof_cards(runs.proofs(choice))}"))
