"""Runs, shared by all sessions: traces and what follows from them, bounded in bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import cachetools
import psutil
import streamlit as st

from mha_core import MHAConfig, Trace, budget, trace_forward
from mha_core.inputs import text_input
from mha_core.proofs import Proof, prove
from mha_core.trace import timed
from pages.shared.state import Choice


class _Store:
    """A cache bounded in bytes. What is larger than all of it is held alone, one at a time."""

    def __init__(self, limit: int) -> None:
        self._lock = threading.Lock()
        self._cache: cachetools.LRUCache[Any, tuple[int, Any]] = cachetools.LRUCache(
            limit, getsizeof=lambda sized: sized[0]
        )
        self._large: tuple[Any, Any] | None = None

    def has(self, key: Any) -> bool:
        with self._lock:
            return key in self._cache

    def get(self, key: Any, make: Callable[[], Any], size: Callable[[Any], int]) -> Any:
        with self._lock:
            if self._large is not None and self._large[0] == key:
                return self._large[1]
            if key in self._cache:
                return self._cache[key][1]
        made = make()  # unlocked: two sessions may compute the same, none waits for another
        self.put(key, made, size)
        return made

    def put(self, key: Any, made: Any, size: Callable[[Any], int]) -> None:
        with self._lock:
            sized = max(1, size(made))
            if sized <= self._cache.maxsize:
                self._cache[key] = (sized, made)
            else:
                self._cache.clear()
                self._large = (key, made)


@st.cache_resource(show_spinner=False)
def _warm_up() -> None:
    """One small run: what torch loads when first used is not to be timed as a forward."""
    trace_forward(MHAConfig())


@st.cache_resource(show_spinner=False)
def _store(kind: str) -> _Store:
    limit = min(2**30, psutil.virtual_memory().total // 8) if kind == "traces" else 2**24
    return _Store(limit)


def check(choice: Choice) -> None:
    """Refuses a run that does not fit the memory, before anything is allocated."""
    budget.check(choice.config)


def trace(choice: Choice, *, clock: bool = False) -> Trace:
    """The trace of a choice, every tensor kept; its times where asked for or at hand."""

    _warm_up()

    def run() -> Trace:
        x = None if choice.tokens is None else text_input(choice.config, choice.tokens)
        return trace_forward(choice.config, x=x, clock=False)

    traces = _store("traces")
    found: Trace = traces.get(choice, run, _size)
    if clock and found.milliseconds is None:
        found = timed(found)
        traces.put(choice, found, _size)
    return found


def _size(trace: Trace) -> int:
    return trace.kept_bytes + _weights(trace)


def _weights(trace: Trace) -> int:
    return sum(parameter.nbytes for parameter in trace.module.parameters())


def proofs(choice: Choice) -> list[Proof]:
    """The proofs of a choice's trace."""
    found: list[Proof] = _store("proofs").get(choice, lambda: prove(trace(choice)), lambda _: 4096)
    return found


def proved(choice: Choice) -> bool:
    """Whether the proofs of a choice are at hand."""
    return _store("proofs").has(choice)


def derived(choice: Choice, what: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """Something small computed from a choice's trace, e.g. the statistics of its heads."""
    return _store("derived").get((choice, what), make, lambda _: 16384)
