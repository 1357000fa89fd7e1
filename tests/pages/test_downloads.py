"""The route of large downloads: served once and whole, and the file closed whatever happens."""

from __future__ import annotations

import io
import os
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import IO

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.testclient import TestClient

from pages.shared import downloads
from pages.shared.downloads import Offer, Shelf, State

LARGE = 64 * 2**20  # far beyond what sockets buffer, so that a client can leave it half taken


@pytest.fixture(autouse=True)
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """A shelf of the test's own, where the route finds it."""
    own = Shelf(idle=30.0, grace=30.0)
    monkeypatch.setattr(downloads, "shelf", own)
    return own


def app() -> Starlette:
    """The route behind the middleware that Streamlit serves it behind."""
    return Starlette(routes=downloads.routes(), middleware=[Middleware(GZipMiddleware)])


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(app()) as made:
        yield made


@pytest.fixture
def port() -> Iterator[int]:
    """A real server, for what a client does to a connection."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app(), log_level="critical"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        until(lambda: server.started)
        yield listening.getsockname()[1]
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def temporary(data: bytes) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 (the shelf closes it)
    file.write(data)
    return file


def descriptors() -> int:
    """Open files of this process that have no name any more."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").endswith("(deleted)")
        except OSError:  # the listing's own
            continue
    return found


def ended(offer: Offer, state: State) -> None:
    until(lambda: offer.file.closed)
    assert offer.state is state


# --- the route --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 500, 2**20, 2**20 + 1, 3 * 2**20])
def test_it_is_served_whole_and_once(client: TestClient, shelf: Shelf, size: int) -> None:
    data = os.urandom(size)
    offer = shelf.put(temporary(data), "a.npz", "application/x-npz")
    answer = client.get(downloads.link(offer), headers={"Accept-Encoding": "gzip"})
    assert answer.status_code == 200
    assert answer.content == data
    assert answer.headers["content-length"] == str(size)
    assert answer.headers["content-type"] == "application/x-npz"
    assert answer.headers["cache-control"].startswith("no-store")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert 'attachment; filename="a.npz"' in answer.headers["content-disposition"]
    ended(offer, State.SENT)
    assert offer.sent == size
    again = client.get(downloads.link(offer))
    assert again.status_code == 404
    assert "can be downloaded once" in again.text
    assert again.headers["x-content-type-options"] == "nosniff"
    assert len(shelf) == 0


def test_what_compresses_well_keeps_its_length(client: TestClient, shelf: Shelf) -> None:
    offer = shelf.put(temporary(bytes(10**6)), "a.bin", "application/octet-stream")
    answer = client.get(downloads.link(offer), headers={"Accept-Encoding": "gzip, br"})
    assert answer.headers["content-length"] == "1000000"
    assert answer.content == bytes(10**6)


def test_a_look_takes_nothing(client: TestClient, shelf: Shelf) -> None:
    offer = shelf.put(temporary(b"abc"), "a.npz", "application/x-npz")
    for _ in range(2):
        answer = client.head(downloads.link(offer))
        assert answer.status_code == 200
        assert answer.headers["content-length"] == "3"
    assert client.get(downloads.link(offer)).content == b"abc"
    assert client.head(downloads.link(offer)).status_code == 404


def test_only_the_one_who_was_told_finds_it(client: TestClient, shelf: Shelf) -> None:
    offers = [shelf.put(temporary(b"abc"), "a.npz", "x/y") for _ in range(20)]
    tokens = {offer.token for offer in offers}
    assert len(tokens) == 20
    assert all(len(token) >= 43 for token in tokens)  # 32 bytes
    for token in ("", "a", offers[0].token[:-1], offers[0].token + "a", "../../etc/passwd"):
        assert client.get(f"/downloads/{token}").status_code == 404
    assert client.post(downloads.link(offers[0])).status_code == 405
    assert len(shelf) == 20
    for offer in offers:
        shelf.take_back(offer)


def test_it_stands_under_the_base_path(monkeypatch: pytest.MonkeyPatch, shelf: Shelf) -> None:
    monkeypatch.setattr("streamlit.get_option", {"server.baseUrlPath": "/lab/heads/"}.get)
    offer = shelf.put(temporary(b"abc"), "a.npz", "x/y")
    assert downloads.link(offer) == f"/lab/heads/downloads/{offer.token}"
    with TestClient(app()) as client:
        assert client.get(f"/downloads/{offer.token}").status_code == 404
        assert client.get(downloads.link(offer)).content == b"abc"


@pytest.mark.parametrize(
    ("name", "plain", "exact"),
    [
        ("a_b2.npz", "a_b2.npz", "a_b2.npz"),
        ('a"b;c%.npz', "a_b_c_.npz", "a%22b%3Bc%25.npz"),
        ("tête.npz", "t_te.npz", "t%C3%AAte.npz"),
        ("../../etc/passwd", ".._.._etc_passwd", ".._.._etc_passwd"),
        ("a\r\nSet-Cookie: b", "a__Set-Cookie: b", "a%0D%0ASet-Cookie%3A%20b"),
        ("\ud800", "?", "%3F"),
    ],
)
def test_a_name_is_no_more_than_a_name(name: str, plain: str, exact: str) -> None:
    header = downloads.disposition(name)
    assert header == f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"
    assert header.isascii()
    assert header.isprintable()


# --- the end of a file ------------------------------------------------------------------------


def test_a_client_that_goes_away_ends_it(port: int, shelf: Shelf) -> None:
    offer = shelf.put(temporary(bytes(LARGE)), "a.npz", "x/y")
    with socket.create_connection(("127.0.0.1", port)) as taking:
        taking.sendall(f"GET {downloads.link(offer)} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert taking.recv(100).startswith(b"HTTP/1.1 200")
        until(lambda: offer.sent > 0)
        assert offer.state is State.SENDING
        assert not offer.file.closed
    ended(offer, State.BROKEN)
    assert 0 < offer.sent < LARGE


def test_a_client_that_takes_nothing_more_ends_it(port: int, shelf: Shelf) -> None:
    shelf.idle = 0.2
    offer = shelf.put(temporary(bytes(LARGE)), "a.npz", "x/y")
    with socket.create_connection(("127.0.0.1", port)) as taking:
        taking.sendall(f"GET {downloads.link(offer)} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        ended(offer, State.BROKEN)
        assert 0 < offer.sent < LARGE


def test_a_slow_client_gets_all_of_it(port: int, shelf: Shelf) -> None:
    """Longer than the idle limit, but never idle."""
    shelf.idle = 2.0
    offer = shelf.put(temporary(bytes(LARGE)), "a.npz", "x/y")
    with socket.create_connection(("127.0.0.1", port)) as taking:
        request = f"GET {downloads.link(offer)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        taking.sendall(request.encode())
        began, taken = time.monotonic(), 0
        while data := taking.recv(2**20):
            taken += len(data)
            if taken < LARGE and time.monotonic() - began < 3.0:
                time.sleep(0.05)
    assert taken > LARGE
    ended(offer, State.SENT)


def test_pages_are_served_while_a_client_stalls(port: int, shelf: Shelf) -> None:
    slow = shelf.put(temporary(bytes(LARGE)), "a.npz", "x/y")
    quick = shelf.put(temporary(b"abc"), "b.npz", "x/y")
    with socket.create_connection(("127.0.0.1", port)) as taking:
        taking.sendall(f"GET {downloads.link(slow)} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        until(lambda: slow.sent > 0)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as other:
            request = (
                f"GET {downloads.link(quick)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            )
            other.sendall(request.encode())
            assert b"".join(iter(lambda: other.recv(4096), b"")).endswith(b"\r\n\r\nabc")
    ended(slow, State.BROKEN)


def test_what_nobody_fetches_is_given_up(shelf: Shelf) -> None:
    shelf.idle = 0.05
    offers = [shelf.put(temporary(b"abc"), "a.npz", "x/y") for _ in range(3)]
    for offer in offers:
        ended(offer, State.EXPIRED)
    assert len(shelf) == 0
    later = shelf.put(temporary(b"abc"), "a.npz", "x/y")  # after the keeper has gone
    ended(later, State.EXPIRED)


def test_a_session_that_goes_takes_its_file_along() -> None:
    shelf = Shelf(idle=60.0, grace=0.1)
    kept, left = (shelf.put(temporary(b"abc"), "a.npz", "x/y") for _ in range(2))
    shelf.leave(left)
    ended(left, State.EXPIRED)
    assert not kept.file.closed
    shelf.leave(left)  # once more does nothing
    assert len(shelf) == 1
    shelf.take_back(kept)


def test_a_session_that_comes_back_finds_its_file() -> None:
    shelf = Shelf(idle=60.0, grace=0.2)
    offer = shelf.put(temporary(b"abc"), "a.npz", "x/y")
    shelf.leave(offer)
    shelf.stay(offer)
    time.sleep(0.5)
    assert shelf.find(offer.token) is offer
    shelf.take_back(offer)
    ended(offer, State.TAKEN_BACK)


def test_what_is_being_sent_is_not_taken_back(port: int, shelf: Shelf) -> None:
    offer = shelf.put(temporary(bytes(LARGE)), "a.npz", "x/y")
    with socket.create_connection(("127.0.0.1", port)) as taking:
        request = f"GET {downloads.link(offer)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        taking.sendall(request.encode())
        until(lambda: offer.sent > 0)
        shelf.take_back(offer)
        shelf.leave(offer)
        taken = sum(len(data) for data in iter(lambda: taking.recv(2**20), b""))
    assert taken > LARGE
    ended(offer, State.SENT)


def test_two_who_ask_at_once_do_not_both_get_it(shelf: Shelf) -> None:
    offer = shelf.put(temporary(b"abc"), "a.npz", "x/y")
    got: list[Offer | None] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        got.append(shelf.take(offer.token))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count(offer) == 1
    assert got.count(None) == 7
    downloads.end(offer, State.SENT)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc")
def test_no_file_is_left_open(client: TestClient, shelf: Shelf) -> None:
    before = descriptors()
    offers = [shelf.put(temporary(bytes(10**6)), "a.npz", "x/y") for _ in range(4)]
    assert descriptors() == before + 4
    client.get(downloads.link(offers[0]))
    until(lambda: offers[0].file.closed)
    assert descriptors() == before + 3
    for offer in offers[1:]:
        shelf.take_back(offer)
    assert descriptors() == before


def test_the_shelf_keeps_nothing_of_what_is_over(shelf: Shelf) -> None:
    offer = shelf.put(temporary(b"abc"), "a.npz", "x/y")
    gone = weakref.ref(offer)
    shelf.take_back(offer)
    del offer
    assert gone() is None


def test_closing_on_a_full_disk() -> None:
    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, _: object) -> int:
            raise OSError(28, "No space left on device")

    raw = Full()
    file = io.BufferedWriter(raw)
    file.write(b"abc")
    downloads.close(file)  # type: ignore[arg-type]
    assert raw.closed
