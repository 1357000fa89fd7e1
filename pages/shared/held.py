"""The one file a session holds for download: it goes when the next comes, and with the session."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import IO

import streamlit as st

from mha_core.export import disk
from pages.shared import downloads
from pages.shared.downloads import Offer, shelf

_KEY = "held"


class _Presence:
    """Stands for a session that is there; Streamlit releases it when the browser has gone."""

    def __init__(self) -> None:
        self.offer: Offer | None = None

    def release(self) -> None:
        if self.offer is not None:
            shelf.leave(self.offer)


@st.cache_resource(scope="session", on_release=_Presence.release, show_spinner=False)
def _presence() -> _Presence:
    return _Presence()


def held() -> Offer | None:
    """The session's file, whatever has become of it."""
    offer: Offer | None = st.session_state.get(_KEY)
    if offer is not None:
        _presence().offer = offer
        shelf.stay(offer)
    return offer


def drop() -> None:
    """Frees the file's space, unless it is being sent just now: then that is finished first."""
    offer: Offer | None = st.session_state.pop(_KEY, None)
    if offer is not None:
        shelf.take_back(offer)


def hold(name: str, mime: str, needed: int, write: Callable[[IO[bytes]], None]) -> Offer:
    """Writes a file without a name on the disk, and offers it in place of the one before.

    Args:
        name, mime: for the browser.
        needed: bytes of the file.
        write: writes it; what it raises, a rerun of the script included, leaves nothing behind.

    Raises:
        DiskError: there is no room for it.
    """
    drop()
    where = disk.folder()
    disk.check(needed, where)
    file = tempfile.TemporaryFile(dir=where)  # noqa: SIM115 (open until it is fetched)
    try:
        write(file)
        file.flush()
    except BaseException:
        downloads.close(file)
        raise
    st.session_state[_KEY] = offer = shelf.put(file, name, mime)
    _presence().offer = offer
    return offer
