"""Runs, shared by all sessions: traces and what follows from them, bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from mha_core import MHAConfig, Trace, budget, trace_forward
from mha_core.inputs import text_input
from mha_core.proofs import Proof, prove
from mha_core.trace import timed
from pages.shared import layers
from pages.shared.choice import Choice
from pages.shared.store import store


@st.cache_resource(show_spinner=False)
def _warm_up() -> None:
    """One small run: what torch loads when first used is not to be timed as a forward."""
    trace_forward(MHAConfig())


def check(choice: Choice) -> None:
    """Refuses a run that does not fit the memory, before anything is allocated."""
    budget.check(choice.config)


def trace(choice: Choice, *, clock: bool = False) -> Trace:
    """The trace of a choice, every tensor kept; its times where asked for or at hand."""

    _warm_up()

    def run() -> Trace:
        if choice.origin is not None:
            return layers.retraced(choice.origin).trace
        x = None if choice.tokens is None else text_input(choice.config, choice.tokens)
        return trace_forward(choice.config, x=x, clock=False)

    traces = store("traces")
    found: Trace = traces.get(choice, run, layers.trace_bytes)
    if clock and found.milliseconds is None:
        found = timed(found)
        traces.put(choice, found, layers.trace_bytes)
    return found


def proofs(choice: Choice) -> list[Proof]:
    """The proofs of a choice's trace."""

    def run() -> list[Proof]:
        made = prove(trace(choice))
        return made if choice.origin is None else [layers.same(choice.origin), *made]

    found: list[Proof] = store("proofs").get(choice, run, lambda _: 4096)
    return found


def proved(choice: Choice) -> bool:
    """Whether the proofs of a choice are at hand."""
    return store("proofs").has(choice)


def derived(choice: Choice, what: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Something small computed from a choice's trace, e.g. the statistics of its heads."""
    return store("derived").get((choice, what), make, lambda _: 16384)
