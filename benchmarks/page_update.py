"""Time and bytes of one update: a key press on a slider, until all of the page is painted.

The page of the product and a bare Streamlit page are measured in turn, in one Chromium.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from tests.browser.chromium import chromium_arguments, chromium_path

ROOT = Path(__file__).parent.parent

# A mark of what is painted: it changes when the page has drawn new values.
BARE_SLIDER = '[data-testid="stSlider"] input'
BARE = "[...document.querySelectorAll('.heatmaplayer image')].map(i => i.href.baseVal).join()"
_OURS = """[
  document.querySelector('table.shapes')?.textContent,
  [...document.querySelectorAll('.flow-root .textpoint text')].map(t => t.textContent).join(),
  [...document.querySelectorAll('.tile img, .map img')].map(i => i.complete && i.src).join(),
]"""
_WATCH = """
({ probe }) => {
  const read = new Function("return " + probe);
  const norm = (v) => Array.isArray(v) ? v : [v];
  const before = norm(read());
  window.__painted = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("not painted after 30 s")), 30000);
    window.addEventListener("keydown", () => {
      const start = performance.now();
      const look = () => {
        const now = norm(read());
        const changed = now.every((part, i) => part && part !== before[i]);
        // Seen in this frame: painted by the next.
        if (changed) requestAnimationFrame(() => resolve(performance.now() - start));
        else requestAnimationFrame(look);
      };
      requestAnimationFrame(look);
    }, { once: true, capture: true });
  });
}
"""


@contextmanager
def serve(script: Path, port: int) -> Iterator[str]:
    """A Streamlit server for one script, stopped at the end."""
    command = [
        sys.executable, "-m", "streamlit", "run", str(script),
        "--server.port", str(port), "--server.headless", "true",
        "--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none",
    ]  # fmt: skip
    server = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://localhost:{port}/_stcore/health").read()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait()


class Meter:
    """Counts the bytes a page receives; `frames` are those of its websocket alone."""

    def __init__(self, session: CDPSession) -> None:
        self.bytes = self.frames = 0
        session.send("Network.enable")
        session.on("Network.webSocketFrameReceived", self._frame)
        session.on("Network.dataReceived", self._data)

    def _frame(self, event: dict[str, Any]) -> None:
        payload = event["response"]["payloadData"]
        text = event["response"]["opcode"] == 1
        size = len(payload) if text else len(payload) * 3 // 4
        self.bytes += size
        self.frames += size

    def _data(self, event: dict[str, Any]) -> None:
        self.bytes += event["dataLength"]


def idle(page: Page) -> None:
    page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
    page.wait_for_timeout(700)


def update(page: Page, meter: Meter, widget: str, probe: str, key: str) -> tuple[float, int]:
    """Milliseconds and bytes of one update, from a key press on a widget."""
    page.locator(widget).focus()
    page.evaluate(_WATCH, {"probe": probe})
    meter.bytes = 0
    page.keyboard.press(key)
    elapsed = float(page.evaluate("window.__painted"))
    idle(page)
    return elapsed, meter.bytes


def open_page(
    browser: Browser, url: str, ready: str = ".js-plotly-plot", limit: int = 60
) -> tuple[Page, Meter]:
    """A page of its own session, at rest with `ready` in it, and the meter of what it receives.

    `limit` is in seconds.
    """
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    meter = Meter(page.context.new_cdp_session(page))
    page.goto(url)
    page.wait_for_selector(ready, timeout=1000 * limit)
    page.wait_for_timeout(2500)
    idle(page)
    return page, meter


def measure(rounds: int = 2, steps: int = 4) -> dict[str, Any]:
    """Medians of interleaved updates: `rounds` seeds, `steps` slider steps each."""
    # Of our page d_model moves up from the default: no run is cached.
    ours_slider = ".st-key-w_d_model input"
    views = {  # address, and the largest ratio allowed
        "default": ("/?batch=2&time=6&d_model=32&heads=4", 2.0),
        "time 512, 16 heads": ("/?batch=2&time=512&d_model=32&heads=16", 3.0),
    }
    figures: dict[str, Any] = {}
    with (
        serve(ROOT / "benchmarks" / "bare_page.py", 8611) as bare_url,
        serve(ROOT / "app.py", 8612) as our_url,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=chromium_path(), args=chromium_arguments())
        for name, (query, limit) in views.items():
            times: dict[str, list[float]] = {"bare": [], "ours": []}
            sizes: dict[str, list[int]] = {"bare": [], "ours": []}
            for seed in range(rounds):
                address = f"{our_url}{query}&seed={seed}"
                pages = [
                    ("bare", *open_page(browser, bare_url), BARE_SLIDER, BARE),
                    ("ours", *open_page(browser, address), ours_slider, _OURS),
                ]
                for step in range(steps + 1):
                    for label, page, meter, slider, probe in pages:
                        page.bring_to_front()
                        elapsed, size = update(page, meter, slider, probe, "ArrowRight")
                        if step:  # the first update of a page warms it up
                            times[label].append(elapsed)
                            sizes[label].append(size)
                for _, page, *_rest in pages:
                    page.close()
            bare, ours = (statistics.median(times[label]) for label in ("bare", "ours"))
            figures[name] = {
                "bare ms": round(bare, 1),
                "ours ms": round(ours, 1),
                "ratio": round(ours / bare, 2),
                "limit": limit,
                "all bare ms": [round(t) for t in times["bare"]],
                "all ours ms": [round(t) for t in times["ours"]],
                "bytes": int(statistics.median(sizes["ours"])),
            }
        browser.close()
    return figures
