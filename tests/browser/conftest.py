"""One server and one Chromium for all tests; every page is watched, and any complaint fails."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.chromium import chromium_arguments, chromium_path
from tests.browser.driver import TIMEOUT, App
from tests.browser.watch import Watch

ROOT = Path(__file__).parents[2]

Opener = Callable[..., App]


@dataclass(frozen=True)
class Server:
    """The running app: its address, and the file its log goes to."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Until the server says that it is well."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert server.poll() is None, f"the server ended at once:\n{log.read_text()}"
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"the server did not start:\n{log.read_text()}")


@contextmanager
def serve(script: str, log: Path) -> Iterator[Server]:
    """A page as `streamlit run` serves it, on a free port, with its log in a file."""
    port = _free_port()
    command = [
        sys.executable, "-m", "streamlit", "run", script,
        "--server.port", str(port), "--server.address", "127.0.0.1", "--server.headless", "true",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            _wait_for(process, url, log)
            yield Server(url, log, process)
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app as `streamlit run app.py` serves it."""
    with serve("app.py", tmp_path_factory.mktemp("server") / "log.txt") as started:
        yield started


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        started = play.chromium.launch(
            executable_path=chromium_path(), args=chromium_arguments(), timeout=TIMEOUT
        )
        yield started
        started.close()


class Opened:
    """Opens pages, each in a fresh profile, and closes them with a look at what they said."""

    def __init__(self, browser: Browser, server: Server) -> None:
        assert server.process.poll() is None, f"the server ended:\n{server.log.read_text()}"
        self._browser, self._server = browser, server
        self._watch = Watch(server.log)
        self._contexts: list[BrowserContext] = []

    def __call__(self, address: str | None = None, *, ready: bool = True, **options: Any) -> App:
        """A page of the app.

        Args:
            address: a whole address; or what is asked of the app, as `query` in `options`.
            ready: whether to wait until a view is there.
            options: of the browser context; `query` holds fields of the configuration.
        """
        query = options.pop("query", {})
        context = self._browser.new_context(
            **({"viewport": {"width": 1440, "height": 900}} | options)
        )
        context.set_default_timeout(TIMEOUT)
        self._contexts.append(context)
        page = context.new_page()
        self._watch.page(page)
        app = App(page)
        app.open(address or self._server.url, query, ready=ready)
        return app

    def close(self) -> None:
        complaints = self._watch.complaints()
        for context in self._contexts:
            context.close()
        assert not complaints, "\n".join(complaints)


@pytest.fixture
def opened(browser: Browser, server: Server) -> Iterator[Opened]:
    """Opens pages, for tests that need a query, two profiles or a screen of their own."""
    opening = Opened(browser, server)
    yield opening
    opening.close()


@pytest.fixture
def app(opened: Opened) -> App:
    """The app at its defaults."""
    return opened()
