"""Files too large for memory on their way to the browser: by a route of the server, once each.

A file has no name on the disk (`tempfile.TemporaryFile`), so that whatever happens, the end of the
process included, nothing is left behind. Its space is freed when it has been sent, when the client
goes away while it is sent, when it is taken back, some time after its session has gone, and when
nobody fetches it within the idle limit.

The server imports this before the first page is asked for: nothing here may load torch.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import AsyncIterator
from enum import StrEnum
from functools import partial
from typing import IO
from urllib.parse import quote

import anyio
import streamlit as st
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

CHUNK = 2**20  # bytes read and sent at a time
IDLE = 600.0  # seconds until what nobody fetches, or a client that takes nothing more, is given up
GRACE = 120.0  # seconds a session may be gone: Streamlit itself forgets it then
_PATH = "/downloads"

_HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_OVER = (
    "There is no file here any more: a file can be downloaded once, soon after it was prepared. "
    "Prepare it again on the page.\n"
)


class State(StrEnum):
    READY = "ready"
    SENDING = "sending"
    SENT = "sent"
    BROKEN = "broken off"
    EXPIRED = "expired"
    TAKEN_BACK = "taken back"


class Offer:
    """One file that can be downloaded once.

    Attributes:
        token: names it in an address; cannot be guessed.
        name, mime: of the file, for the browser.
        size: in bytes.
        sent: bytes handed to the client so far.
        state: what has become of it; from `READY` and `SENDING` on, the file is closed.
    """

    def __init__(self, file: IO[bytes], name: str, mime: str) -> None:
        self.token = secrets.token_urlsafe(32)
        self.name, self.mime = name, mime
        self.size = file.seek(0, 2)
        file.seek(0)
        self.file = file
        self.sent = 0
        self.state = State.READY


class Shelf:
    """The files that wait to be fetched. Thread-safe.

    Args:
        idle: seconds until what nobody fetches is given up.
        grace: seconds a session may be gone before its file is.
    """

    def __init__(self, idle: float = IDLE, grace: float = GRACE) -> None:
        self.idle, self.grace = idle, grace
        self._changed = threading.Condition()
        self._waiting: dict[str, Offer] = {}
        self._until: dict[str, float] = {}  # when each is given up
        self._left: dict[str, float] = {}  # when each whose session has gone is
        self._keeper: threading.Thread | None = None

    def put(self, file: IO[bytes], name: str, mime: str) -> Offer:
        """Offers a written file, which is the shelf's to close from now on."""
        offer = Offer(file, name, mime)
        with self._changed:
            self._waiting[offer.token] = offer
            self._until[offer.token] = time.monotonic() + self.idle
            self._wake()
        return offer

    def find(self, token: str) -> Offer | None:
        """The file, if it can still be fetched."""
        with self._changed:
            return self._waiting.get(token)

    def take(self, token: str) -> Offer | None:
        """The file, for the first who asks; who takes it calls `end`."""
        with self._changed:
            offer = self._remove(token)
            if offer is not None:
                offer.state = State.SENDING
            return offer

    def take_back(self, offer: Offer) -> None:
        """Gives up a file that waits. One that is being sent goes on, and ends by itself."""
        with self._changed:
            waiting = self._remove(offer.token) is not None
        if waiting:
            end(offer, State.TAKEN_BACK)

    def leave(self, offer: Offer) -> None:
        """Its session has gone, perhaps to come back."""
        with self._changed:
            if offer.token in self._waiting:
                self._left[offer.token] = time.monotonic() + self.grace
                self._wake()

    def stay(self, offer: Offer) -> None:
        """Its session is there."""
        with self._changed:
            self._left.pop(offer.token, None)

    def __len__(self) -> int:
        with self._changed:
            return len(self._waiting)

    def _remove(self, token: str) -> Offer | None:
        self._until.pop(token, None)
        self._left.pop(token, None)
        return self._waiting.pop(token, None)

    def _wake(self) -> None:
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, name="downloads", daemon=True)
            self._keeper.start()
        self._changed.notify()

    def _keep(self) -> None:
        """Gives up what is due; runs only while there is something to wait for."""
        while True:
            with self._changed:
                now = time.monotonic()
                times = [*self._until.items(), *self._left.items()]
                due = {token for token, at in times if at <= now}
                given_up = [offer for token in due if (offer := self._remove(token)) is not None]
                if not given_up:
                    if not times:
                        self._keeper = None
                        return
                    self._changed.wait(min(at for _, at in times) - now)
            for offer in given_up:  # closing frees the disk, which may take a while
                end(offer, State.EXPIRED)


def end(offer: Offer, state: State) -> None:
    """Closes the file, which frees its space."""
    offer.state = state
    close(offer.file)


def close(file: IO[bytes]) -> None:
    """Closes a temporary file, full disk or not."""
    try:
        file.close()
    except OSError:  # what was still to be written does not fit: it is not wanted either
        file.close()


# One for all sessions: the route has no other way to find what a page has prepared.
shelf = Shelf()


class _Sending(StreamingResponse):
    """The file, a chunk at a time; closed at the end, whichever it is."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        super().__init__(self._chunks(), headers=_headers(offer), media_type=offer.mime)

    async def _chunks(self) -> AsyncIterator[bytes]:
        read = partial(self._offer.file.read, CHUNK)
        while chunk := await anyio.to_thread.run_sync(read):
            yield chunk
            self._offer.sent += len(chunk)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, group.cancel_scope)
                await super().__call__(scope, receive, send)
                group.cancel_scope.cancel()
        finally:
            whole = self._offer.sent == self._offer.size
            state = State.SENT if whole else State.BROKEN
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(end, self._offer, state)

    async def _watch(self, scope: anyio.CancelScope) -> None:
        """Gives up a client that takes nothing more."""
        sent, since = -1, time.monotonic()
        while time.monotonic() - since < shelf.idle:
            if self._offer.sent != sent:
                sent, since = self._offer.sent, time.monotonic()
            await anyio.sleep(min(5.0, shelf.idle / 4))
        scope.cancel()


def _headers(offer: Offer) -> dict[str, str]:
    return _HEADERS | {
        "Content-Length": str(offer.size),
        "Content-Disposition": disposition(offer.name),
        "Accept-Ranges": "none",
        # Named, so that nothing on the way compresses it: the length would be lost.
        "Content-Encoding": "identity",
    }


def disposition(name: str) -> str:
    """The header that names a file: plain for old readers, exact for the others (RFC 6266)."""
    safe = name.replace("/", "_").replace("\\", "_").encode("utf-8", "replace").decode()
    plain = "".join(c if c.isascii() and c.isprintable() and c not in '"%;' else "_" for c in safe)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(safe, safe='')}"


async def _download(request: Request) -> Response:
    token = request.path_params["token"]
    if request.method == "HEAD":  # looks, takes nothing
        found = shelf.find(token)
        if found is not None:
            return Response(headers=_headers(found), media_type=found.mime)
    elif (taken := shelf.take(token)) is not None:
        return _Sending(taken)
    return PlainTextResponse(_OVER, status_code=404, headers=_HEADERS)


def routes() -> list[Route]:
    """What `st.App` is to serve besides the pages."""
    return [Route(f"{_base()}{_PATH}/{{token}}", _download, methods=["GET"])]


def link(offer: Offer) -> str:
    """Where a browser fetches the file."""
    return f"{_base()}{_PATH}/{offer.token}"


def _base() -> str:
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""
