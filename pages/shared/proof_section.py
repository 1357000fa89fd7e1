"""The proof strip: what was checked on the run in view, with its figures."""

from __future__ import annotations

import streamlit as st

from mha_core.proofs import Proof
from pages.shared import look


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
    return look.block(f'<div class="proofs">{cards}</div>')


def proof_section(proofs: list[Proof]) -> None:
    """The strip under the heads."""
    look.section("Proofs", "computed on this run")
    st.html(proof_cards(proofs))
