"""How the server begins and ends: what `streamlit run app.py` finds before any page."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from streamlit.web.server.app_discovery import discover_asgi_app

from pages.shared import serving

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "server.headless": False,
    "server.port": 8601,
    "server.baseUrlPath": "lab",
    "browser.serverAddress": "localhost",
}


def run_lifespan() -> None:
    async def whole() -> None:
        async with serving.lifespan(None):
            pass

    asyncio.run(whole())


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    chosen: dict[str, Any] = dict(OPTIONS)
    monkeypatch.setattr("streamlit.get_option", chosen.get)
    return chosen


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[str]:
    """Addresses that a browser was sent to."""
    found: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("webbrowser.open", found.put)
    return found


def test_the_app_is_found_and_needs_no_torch() -> None:
    """Loading torch takes seconds, in which the server would not answer."""
    found = discover_asgi_app(ROOT / "app.py")
    assert found.is_asgi_app
    assert found.import_string == "app:app"
    code = """
        import sys
        import app
        assert "torch" not in sys.modules
        assert [route.path for route in app.app._user_routes] == ["/downloads/{token}"]
        assert str(app.app.script_path).endswith("app.py")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, check=True, timeout=120)


def test_a_person_at_the_machine_sees_the_page(
    options: dict[str, Any], opened: queue.Queue[str]
) -> None:
    run_lifespan()
    assert opened.get(timeout=60) == "http://localhost:8601/lab"
    options |= {"server.sslCertFile": "a.pem", "server.baseUrlPath": "", "server.port": 443}
    run_lifespan()
    assert opened.get(timeout=60) == "https://localhost:443/"


def test_no_browser_opens_where_nobody_sits(
    options: dict[str, Any], opened: queue.Queue[str]
) -> None:
    options["server.headless"] = True
    before = threading.active_count()
    run_lifespan()
    assert threading.active_count() <= before
    assert opened.empty()


def test_uvicorn_is_told_when_to_stop_waiting(options: dict[str, Any]) -> None:
    options["server.headless"] = True
    server, other = (uvicorn.Server(uvicorn.Config("a:b")) for _ in range(2))
    with server.capture_signals():
        run_lifespan()
    assert server.config.timeout_graceful_shutdown == 3
    other.config.timeout_graceful_shutdown = 60  # one's own choice stays
    with other.capture_signals():
        run_lifespan()
    assert other.config.timeout_graceful_shutdown == 60
    run_lifespan()  # under a server of another kind nothing happens


def test_a_client_that_takes_nothing_does_not_hold_the_end_up() -> None:
    code = """
        import tempfile
        import socket
        import uvicorn
        from starlette.applications import Starlette
        from pages.shared import downloads, serving

        file = tempfile.TemporaryFile()
        file.write(bytes(64 * 2**20))
        offer = downloads.shelf.put(file, "a.npz", "x/y")

        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], downloads.link(offer), flush=True)
        app = Starlette(routes=downloads.routes(), lifespan=serving.lifespan)
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listening])
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"STREAMLIT_SERVER_HEADLESS": "true"},
    )  # fmt: skip
    assert process.stdout is not None
    port, link = process.stdout.readline().split()
    with socket.create_connection(("127.0.0.1", int(port))) as stalled:
        stalled.sendall(f"GET {link} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert stalled.recv(100).startswith(b"HTTP/1.1 200")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM
