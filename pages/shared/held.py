"""The one file a session prepares for download: written beside the page, in a thread of its own.

It gives way to the next, to a cancel, and to a session that has gone; whichever way it ends, its
space on the disk is freed.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from typing import IO

import streamlit as st

from mha_core.errors import ConfigError
from mha_core.export import disk
from mha_core.export.selection import Progress
from pages.shared import downloads
from pages.shared.downloads import Offer, State, shelf

Write = Callable[[IO[bytes], Progress], None]

_KEY = "held"
_AWHILE = 2.0  # seconds


class _Ended(Exception):
    """Nobody wants the file any more."""


class Preparing:
    """A file that is being written, and then offered.

    Attributes:
        name: of the file, for the browser.
        size: in bytes, when it is whole.
        share: done, 0 to 1.
        what: is being written, in words.
        offer: once it is written.
        error: why it could not be; failure: a fault of ours.
        cancelled: whether it was given up.
    """

    def __init__(self, name: str, mime: str, size: int, write: Write) -> None:
        """Begins to write.

        Raises:
            DiskError: there is no room.
        """
        self.name, self.size, self._mime, self._write = name, size, mime, write
        self.share, self.what = 0.0, ""
        self.offer: Offer | None = None
        self.error: ConfigError | None = None
        self.failure: Exception | None = None
        self.cancelled = False
        where = disk.folder()
        disk.check(size, where)
        self._file = tempfile.TemporaryFile(dir=where)  # noqa: SIM115 (open until it is fetched)
        self._began = time.monotonic()
        self._left: float | None = None  # since when the session has been gone
        self._lock = threading.Lock()
        self._done = threading.Event()
        threading.Thread(target=self._run, name="export", daemon=True).start()

    @property
    def running(self) -> bool:
        return not self._done.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended, at the latest after so long."""
        return self._done.wait(seconds)

    def seconds_left(self) -> float | None:
        """At the pace so far; None before there is one."""
        spent = time.monotonic() - self._began
        return spent * (1 - self.share) / self.share if self.share > 0.01 else None

    @property
    def room(self) -> int:
        """Bytes on the disk that giving it up would free."""
        if self.running:
            return int(self.share * self.size)
        waits = self.offer is not None and self.offer.state is State.READY
        return self.size if waits else 0

    def give_up(self) -> None:
        """Ends the writing at its next report, or takes the file back."""
        with self._lock:
            self.cancelled = True
        if self.offer is not None:
            shelf.take_back(self.offer)

    def leave(self) -> None:
        """The session has gone, perhaps to come back."""
        with self._lock:
            self._left = time.monotonic()
        if self.offer is not None:
            shelf.leave(self.offer)

    def stay(self) -> None:
        """The session is there."""
        with self._lock:
            self._left = None
        if self.offer is not None:
            shelf.stay(self.offer)

    def _run(self) -> None:
        try:
            self._write(self._file, self._report)
            self._file.flush()
            self._put()
        except _Ended:
            self.cancelled = True
        except ConfigError as error:
            self.error = error
        except Exception as failure:  # told by the page, which has a place for it
            self.failure = failure
        finally:
            if self.offer is None:
                downloads.close(self._file)
            self._done.set()

    def _put(self) -> None:
        """Offers the file, unless it was given up at the last moment."""
        with self._lock:
            self._look()
            self.offer = shelf.put(self._file, self.name, self._mime)
            if self._left is not None:
                shelf.leave(self.offer)

    def _report(self, share: float, what: str) -> None:
        self.share, self.what = share, what
        self._look()

    def _look(self) -> None:
        gone = self._left is not None and time.monotonic() - self._left > shelf.grace
        if self.cancelled or gone:
            raise _Ended


class _Presence:
    """Stands for a session that is there; Streamlit releases it when the browser has gone."""

    def __init__(self) -> None:
        self.file: Preparing | None = None

    def release(self) -> None:
        if self.file is not None:
            self.file.leave()


@st.cache_resource(scope="session", on_release=_Presence.release, show_spinner=False)
def _presence() -> _Presence:
    return _Presence()


def held() -> Preparing | None:
    """The session's file, whatever has become of it."""
    file: Preparing | None = st.session_state.get(_KEY)
    if file is not None:
        _presence().file = file
        file.stay()
    return file


def drop() -> None:
    """Gives the session's file up; one that is being sent just now is finished first."""
    file: Preparing | None = st.session_state.pop(_KEY, None)
    if file is not None:
        file.give_up()
        file.wait(_AWHILE)  # what is being computed for it is finished first


def prepare(name: str, mime: str, size: int, write: Write) -> Preparing:
    """Begins to write a file without a name on the disk, in place of the one before.

    Args:
        name, mime: for the browser.
        size: bytes of the file.
        write: writes it, in another thread: it may not use Streamlit. What its progress raises
            ends it.

    Raises:
        DiskError: there is no room for it.
    """
    drop()
    file = st.session_state[_KEY] = Preparing(name, mime, size, write)
    _presence().file = file
    return file
