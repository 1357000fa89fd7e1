"""Common mistakes: all of them as a table, and the one that is open."""

from __future__ import annotations

import html

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_core.figures.mistakes_detail import detail_html
from mha_core.figures.mistakes_list import list_html
from mha_core.mistakes import GROUPS, MISTAKES, Bench, Finding
from mha_core.mistakes.measures import MapsSeen, maps_seen
from mha_core.mistakes.summary import in_words
from pages.shared import look
from pages.shared.choice import Choice
from pages.shared.mistakes_runs import finding, laid_out
from pages.shared.step_link import step_link

FIRST = "heads_from_time"
WIDE = 960  # pixels of the page from which table and mistake stand side by side


def open_one() -> str:
    """Id of the open mistake."""
    picked: str = st.session_state.get("mistake_open", FIRST)
    return picked if picked in MISTAKES else FIRST


def heading(choice: Choice) -> DeltaGenerator:
    """What runs, and where; returns the place of the sentence that counts."""
    bench = laid_out(choice)
    place = st.empty()
    st.html(look.block(f'<div class="key mis-ran">{_ran_at(bench)}</div>'))
    return place


def _ran_at(bench: Bench) -> str:
    tints = look.colours().tints
    sizes = " · ".join(
        f'<span style="color:{tints[name]}">{name} {size}</span>'
        for name, size in bench.sizes.items()
    )
    less = (
        f"; clamped to what can be read at once: {', '.join(bench.clamped)}"
        if bench.clamped
        else ""
    )
    return (
        f'Each runs broken beside its repair, at <span class="mono">{sizes}</span>'
        f"{html.escape(less)}. On the CPU, in evaluation, "
        "masked only where the mistake is about a mask."
    )


def side_by_side(width: int) -> tuple[DeltaGenerator, DeltaGenerator]:
    """Places of the table and of the open mistake: beside each other where there is room."""
    if width >= WIDE:
        both = st.container(horizontal=True, key="mistakes_wide", gap="large")
    else:
        both = st.container(key="mistakes_narrow")
    return both.container(key="mistakes_list"), both.container(key="mistakes_open")


def mistake_section(choice: Choice) -> tuple[Finding, MapsSeen | None]:
    """The open one: code, what it did, how to notice, the fix."""
    found = finding(choice, open_one())
    seen = maps_seen(found, st.session_state.get("head", 0))
    bench = laid_out(choice)
    content = detail_html(
        found, seen, heads=bench.module.heads, colours=look.colours(),
        tokens=labels(choice, seen, bench),
    )  # fmt: skip
    shown = look.block(f'<div class="mis">{content}</div>')
    look.clickable(shown, key="mistake_detail", on_pick=_pick)
    ran = {"mask": choice.config.causal, "dropout": choice.config.dropout > 0}
    step_link(found.mistake.step, ran=ran.get(found.mistake.step, True))
    return found, seen


def table_section(choice: Choice, counted: DeltaGenerator) -> list[Finding]:
    """All of them; choosing a row opens it."""
    groups = {
        name: [finding(choice, mistake.id) for mistake in group] for name, group in GROUPS.items()
    }
    findings = [found for group in groups.values() for found in group]
    look.clickable(
        look.block(f'<div class="mis-box">{list_html(groups, open_one())}</div>'),
        key="mistake_table", on_pick=_pick,
    )  # fmt: skip
    counted.html(look.block(f'<div class="mis-count">{in_words(findings)}</div>'))
    return findings


def labels(choice: Choice, seen: MapsSeen | None, bench: Bench) -> tuple[str, ...] | None:
    """The words of the positions that ran, of the batch item shown."""
    words = None if seen is None else choice.labels(seen.item)
    return None if words is None else tuple(words)[: bench.x.shape[1]]


def _pick(value: str) -> None:
    if value.startswith("head:"):
        st.session_state["head"] = int(value.removeprefix("head:"))
    else:
        st.session_state["mistake_open"] = value
