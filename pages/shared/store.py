"""What all sessions share: made once, kept in stores that are bounded in bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import cachetools
import psutil
import streamlit as st


class Store:
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
def store(kind: str) -> Store:
    """The store of a kind: large for what holds tensors."""
    if kind in ("traces", "captured"):
        return Store(min(2**30, psutil.virtual_memory().total // 8))
    return Store(2**27 if kind == "overviews" else 2**24)
