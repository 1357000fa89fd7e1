"""Weights larger than a page should hold: prepared, downloaded, given up; no file is left open."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, expect
from safetensors.torch import load_file

from tests.browser.conftest import ROOT, Opened, Server, _free_port, _wait_for
from tests.browser.driver import App

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs Linux's /proc"),
]

TIME, HEADS, D_K = 1000, 3, 8
SIZE = "22.9 MiB"
BASE = "/lab/heads"

# The panel alone, over weights computed 500 queries at a time; each takes a while, as real ones do.
PAGE = f"""
if __name__ == "__main__":
    import time
    import streamlit as st
    from pages.shared import look
    import torch
    from mha_core import MHAConfig
    from mha_core.export.stream import map_stream
    from pages.shared.long_export import long_export, long_status

    st.set_page_config(layout="wide")
    look.client()
    st.sidebar.write("the panel alone")
    config = MHAConfig(batch=2, time={TIME}, d_model={HEADS * D_K}, heads={HEADS})
    q, k = (torch.randn(2, {HEADS}, {TIME}, {D_K}, generator=torch.Generator().manual_seed(i))
            for i in (1, 2))

    def rows(item, head):
        for start in range(0, {TIME}, 500):
            time.sleep(0.3)
            yield (q[item, head, start : start + 500] @ k[item, head].T).softmax(-1)

    def streams(names, heads, items):
        return [map_stream(name, rows, items=items, heads=heads, time={TIME}, dtype=torch.float32)
                for name in names]

    # In a fragment, as on the page of the maps: its widgets rerun it alone.
    st.fragment(long_export)(config, ("weights",), streams)
    long_status()
else:
    import streamlit as st
    from pages.shared import downloads, serving

    downloads.shelf.grace = 0.5
    app = st.App(__file__, routes=downloads.routes(), lifespan=serving.lifespan)
"""


def weights(item: int, head: int) -> torch.Tensor:
    """The same, in blocks as there: another cut may differ in the last bit."""
    q, k = (
        torch.randn(2, HEADS, TIME, D_K, generator=torch.Generator().manual_seed(i)) for i in (1, 2)
    )
    parts = [
        (q[item, head, start : start + 500] @ k[item, head].T).softmax(-1)
        for start in range(0, TIME, 500)
    ]
    return torch.cat(parts)


@pytest.fixture(scope="module")
def long_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The panel, served as `streamlit run` does, under a path of its own."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "app.py").write_text(PAGE, encoding="utf-8")
    log, port = folder / "log.txt", _free_port()
    command = [
        sys.executable, "-m", "streamlit", "run", "app.py",
        "--server.port", str(port), "--server.address", "127.0.0.1", "--server.headless", "true",
        "--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none",
        "--server.baseUrlPath", BASE,
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}{BASE}"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdout=out, stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            _wait_for(process, url, log)
            yield Server(url, log, process)
        finally:
            process.terminate()
            process.wait(timeout=60)


@pytest.fixture
def panel(browser: Browser, long_server: Server) -> Iterator[Callable[[], App]]:
    """Opens pages; at the end no file may be open, whatever the test did."""
    opening = Opened(browser, long_server)
    yield lambda: opening(ready=False)
    opening.close()
    until(lambda: unnamed(long_server) == 0)


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def unnamed(server: Server) -> int:
    """Files without a name that the server has open: what takes room on the disk."""
    folder, found = f"/proc/{server.process.pid}/fd", 0
    for name in os.listdir(folder):
        try:
            found += os.readlink(f"{folder}/{name}").endswith("(deleted)")
        except OSError:  # closed meanwhile
            continue
    return found


def link(app: App) -> Locator:
    return app.page.locator("a.long-link")


def prepare(app: App) -> str:
    """Prepares the file; its address."""
    expect(app.page.locator(".long-size")).to_contain_text(SIZE)
    app.widget("w_long_prepare").get_by_role("button").click()
    expect(link(app)).to_contain_text(f"Download {SIZE}")
    address = link(app).get_attribute("href")
    assert address is not None
    assert address.startswith(f"{BASE}/downloads/")
    return address


def test_the_file_is_downloaded_once(
    panel: Callable[[], App], long_server: Server, tmp_path: Path
) -> None:
    app = panel()
    address = prepare(app)
    assert unnamed(long_server) == 1
    stated = app.page.locator(".long-size p span").inner_text()
    with app.page.expect_download() as waiting:
        link(app).click()
    name = waiting.value.suggested_filename
    assert name == f"attention_b2_t{TIME}_d{HEADS * D_K}_h{HEADS}_seed0_weights.npz"
    waiting.value.save_as(tmp_path / name)
    assert stated.startswith(f"{(tmp_path / name).stat().st_size:,} bytes")
    with np.load(tmp_path / name, allow_pickle=False) as file:
        for item in range(2):
            for head in range(HEADS):
                assert np.array_equal(file["weights"][item, head], weights(item, head).numpy())
    expect(app.page.locator(".long-file")).to_contain_text("Downloaded.")
    expect(link(app)).to_have_count(0)
    until(lambda: unnamed(long_server) == 0)
    host = long_server.url.removesuffix(BASE)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(host + address)


def test_safetensors_of_one_head(panel: Callable[[], App], tmp_path: Path) -> None:
    app = panel()
    app.select("w_long_format", "safetensors: Exact tensors in their dtype")
    app.widget("w_long_heads").locator("input").click()
    app.page.get_by_role("option", name="1", exact=True).click()
    app.page.keyboard.press("Escape")
    expect(app.page.locator(".long-size li")).to_contain_text(f"(2, 1, {TIME}, {TIME})")
    app.widget("w_long_prepare").get_by_role("button").click()
    with app.page.expect_download() as waiting:
        link(app).click()
    waiting.value.save_as(tmp_path / "a.safetensors")
    read = load_file(tmp_path / "a.safetensors")["weights"]
    assert torch.equal(read, torch.stack([weights(0, 1), weights(1, 1)])[:, None])


def test_cancel_ends_it(panel: Callable[[], App], long_server: Server) -> None:
    app = panel()
    app.widget("w_long_prepare").get_by_role("button").click()
    bar = app.page.get_by_test_id("stProgress")
    expect(bar).to_contain_text(f"MiB of {SIZE}, about")
    assert unnamed(long_server) == 1
    app.widget("w_long_cancel").get_by_role("button").click()
    expect(app.page.get_by_text("Cancelled: nothing of")).to_be_visible()
    expect(bar).to_have_count(0)
    expect(link(app)).to_have_count(0)
    until(lambda: unnamed(long_server) == 0)
    prepare(app)  # and it can be begun again
    assert unnamed(long_server) == 1


@pytest.fixture
def visitor(browser: Browser, long_server: Server) -> Iterator[App]:
    """A page that nobody listens to: one that is left in the middle of a run is logged."""
    context = browser.new_context()
    app = App(context.new_page())
    app.open(long_server.url, {}, ready=False)
    yield app
    context.close()


def test_a_page_that_is_left_ends_the_writing(visitor: App, long_server: Server) -> None:
    visitor.widget("w_long_prepare").get_by_role("button").click()
    expect(visitor.page.get_by_test_id("stProgress")).to_contain_text(f"MiB of {SIZE}, about")
    visitor.page.goto("about:blank")
    until(lambda: unnamed(long_server) == 0)


def test_a_page_that_is_left_takes_its_file_along(visitor: App, long_server: Server) -> None:
    prepare(visitor)
    assert unnamed(long_server) == 1
    visitor.page.goto("about:blank")
    until(lambda: unnamed(long_server) == 0)


def test_a_client_that_goes_away_ends_the_download(
    panel: Callable[[], App], long_server: Server
) -> None:
    app = panel()
    address = prepare(app)
    port = int(long_server.url.removesuffix(BASE).rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)) as taking:
        taking.sendall(f"GET {address} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert taking.recv(100).startswith(b"HTTP/1.1 200")
        assert unnamed(long_server) == 1
    expect(app.page.locator(".long-file")).to_contain_text("The download was broken off")
    assert unnamed(long_server) == 0
