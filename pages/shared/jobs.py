"""One long computation a session, beside the page: it goes on while the page is used, tells how
far it is, and gives way at once to the next, to a cancel, and to a closed browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

import streamlit as st

from mha_core.errors import ConfigError

# Told the share done, 0 to 1.
Progress = Callable[[float], None]

_KEY = "job"
# Seconds nobody has looked: the browser was closed. One in the background looks once a minute.
_GONE = 150.0


class _Ended(Exception):
    """Nobody wants the result any more."""


class Job:
    """A computation in a thread of its own.

    Attributes:
        key: what it computes.
        share: done, 0 to 1.
        result: once it is done.
        error: why there is none; failure: a fault of ours.
        cancelled: whether it was given up.
    """

    def __init__(self, key: Hashable, work: Callable[[Progress], Any]) -> None:
        self.key = key
        self.share = 0.0
        self.result: Any = None
        self.error: ConfigError | None = None
        self.failure: Exception | None = None
        self.cancelled = False
        self._work = work
        self._began = self._seen = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maps", daemon=True)
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether there is still something to wait for. Whoever asks keeps it alive."""
        self._seen = time.monotonic()
        return not self._ended.is_set()

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, at the latest after so long."""
        self._seen = time.monotonic()
        return self._ended.wait(seconds)

    def cancel(self) -> None:
        """Ends it at its next block; its result is not kept."""
        self.cancelled = True

    def left(self) -> float | None:
        """Seconds left at the pace so far; None before there is one."""
        return self.age * (1 - self.share) / self.share if self.share > 0.01 else None

    def _run(self) -> None:
        try:
            self.result = self._work(self._report)
        except _Ended:
            self.cancelled = True
        except ConfigError as error:
            self.error = error
        except Exception as failure:  # told by the page, which has a place for it
            self.failure = failure
        finally:
            self._ended.set()

    def _report(self, share: float) -> None:
        self.share = share
        if self.cancelled or time.monotonic() - self._seen > _GONE:
            raise _Ended


def wanted(key: Hashable, work: Callable[[Progress], Any]) -> Job:
    """The session's job for this key: the one that runs, or a new one in place of another."""
    job: Job | None = st.session_state.get(_KEY)
    if job is not None and job.key == key:
        return job
    if job is not None:
        job.cancel()
    job = Job(key, work)
    st.session_state[_KEY] = job
    return job


def forget() -> None:
    """Ends the session's job, whatever it is; the next time it is wanted it begins anew."""
    job: Job | None = st.session_state.pop(_KEY, None)
    if job is not None:
        job.cancel()
