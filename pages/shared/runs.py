"""Runs, shared by all sessions: traces and what follows from them, bounded in bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import streamlit as st

from mha_core import MHAConfig, Trace, budget, trace_forward
from mha_core.errors import ConfigError
from mha_core.inputs import text_input
from mha_core.proofs import Proof, prove
from mha_core.trace import timed
from pages.shared import own_weights, retraced, state
from pages.shared.choice import Choice, Origin, Picture
from pages.shared.store import store


@st.cache_resource(show_spinner=False)
def _warm_up() -> None:
    """One small run: what torch loads when first used is not to be timed as a forward."""
    trace_forward(MHAConfig())


def check(choice: Choice) -> None:
    """Refuses a run that does not fit the page or the memory, before anything is allocated."""
    time = choice.config.time
    if time > state.WHOLE:
        raise ConfigError(
            "time", time, f"must be at most {state.WHOLE} where every step is kept",
            works=f"Nearest that works: {state.WHOLE}; longer maps open under Attention heads",
            repairs=[{"time": state.WHOLE}],
        )  # fmt: skip
    budget.check(choice.config)


def trace(choice: Choice, *, clock: bool = False) -> Trace:
    """The trace of a choice, every tensor kept; its times where asked for or at hand."""

    _warm_up()

    def run() -> Trace:
        if isinstance(choice.origin, Origin | Picture):
            return retraced.retraced(choice.origin).trace
        module = None if choice.origin is None else own_weights.made(choice.origin)
        x = None if choice.tokens is None else text_input(choice.config, choice.tokens)
        return trace_forward(choice.config, module, x=x, clock=False)

    traces = store("traces")
    found: Trace = traces.get(choice, run, retraced.trace_bytes)
    if clock and found.milliseconds is None:
        found = timed(found)
        traces.put(choice, found, retraced.trace_bytes)
    return found


def proofs(choice: Choice) -> list[Proof]:
    """The proofs of a choice's trace."""

    def run() -> list[Proof]:
        made = prove(trace(choice))
        if isinstance(choice.origin, Origin | Picture):
            return [retraced.same(choice.origin), *made]
        return made

    found: list[Proof] = store("proofs").get(choice, run, lambda _: 4096)
    return found


def proved(choice: Choice) -> bool:
    """Whether the proofs of a choice are at hand."""
    return store("proofs").has(choice)


def derived(of: Hashable, what: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Something small computed from a run or from maps, e.g. the statistics of heads."""
    return store("derived").get((of, what), make, lambda _: 16384)
