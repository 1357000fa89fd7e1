"""What the server does besides serving: begins by opening the page, ends without waiting."""

from __future__ import annotations

import signal
import threading
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import streamlit as st

_LAST_SECONDS = 3  # for what is being sent when the server is told to end


@asynccontextmanager
async def lifespan(_: Any) -> AsyncIterator[None]:
    """Opens the page where a person sits at the machine, unless told not to (server.headless):
    `streamlit run` does so for a plain script, and not for an `st.App`.
    """
    if not st.get_option("server.headless"):
        threading.Thread(target=webbrowser.open, args=(address(),), daemon=True).start()
    _end_in_time()
    yield


def address() -> str:
    """Where the page is, as a browser on this machine reaches it."""
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    host = st.get_option("browser.serverAddress") or "localhost"
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"{scheme}://{host}:{st.get_option('server.port')}/{base}"


def _end_in_time() -> None:
    """Told to end, uvicorn waits for what is being sent: minutes, for a large file, and for ever
    where a client takes nothing. Its limit on that is no option of Streamlit's, so it is set where
    the server is to be found: it handles the signals.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    config = getattr(server, "config", None)
    if config is not None and getattr(config, "timeout_graceful_shutdown", 0) is None:
        config.timeout_graceful_shutdown = _LAST_SECONDS
