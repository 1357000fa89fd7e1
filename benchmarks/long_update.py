"""An update of the maps page after a control changed: time 4,096 against 512.

What is chosen anew here needs no new maps: they are computed when the page is opened.
"""

from __future__ import annotations

import statistics
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.page_update import ROOT, Meter, open_page, serve, update
from benchmarks.peers import HEADS, PAGE, PICTURES
from tests.browser.chromium import chromium_arguments, chromium_path

TIMES = (512, 4096)
SLOWER, BYTES = 1.5, 0.2  # the longer against the shorter: seconds at most, bytes within
PORT = 8616

_FOCUS = "[[...document.querySelectorAll('.heads .map img')].map(i => i.complete && i.src).join()]"
_ALL = f"""[[...document.querySelectorAll("{PICTURES}")].map(i => i.complete && i.src).join()]"""
_SCALE = ".st-key-w_colour_scale input"


class Maps:
    """The maps page at one time, its maps computed."""

    def __init__(self, browser: Browser, url: str, time: int) -> None:
        address = f"{url}{PAGE}?batch=1&time={time}&d_model={64 * HEADS}&heads={HEADS}"
        self._page: Page
        self._meter: Meter
        self._page, self._meter = open_page(browser, address, PICTURES, limit=600)
        self._head = 0
        self._down = True

    def head(self) -> tuple[float, int]:
        """Another head in focus."""
        self._page.bring_to_front()
        self._head = (self._head + 1) % HEADS
        tile = f'.heads [data-pick="{self._head}"]'
        return update(self._page, self._meter, tile, _FOCUS, "Enter")

    def scale(self) -> tuple[float, int]:
        """All heads on another colour scale: weight, and each on its own, in turn."""
        self._page.bring_to_front()
        self._page.locator(_SCALE).click()
        self._page.wait_for_selector('[role="option"]')
        # "weight" is the first of four, "per head" the last.
        for _ in range(3):
            self._page.keyboard.press("ArrowDown" if self._down else "ArrowUp")
        self._down = not self._down
        return update(self._page, self._meter, _SCALE, _ALL, "Enter")

    def close(self) -> None:
        self._page.context.close()


def measure(rounds: int = 8) -> dict[str, Any]:
    """Medians of updates in turn: another head in focus, and another colour scale."""
    seen: dict[str, dict[int, list[tuple[float, int]]]] = {
        control: {time: [] for time in TIMES}
        for control in ("another head in focus", "another colour scale")
    }
    with serve(ROOT / "app.py", PORT) as url, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium_path(), args=chromium_arguments())
        pages = {time: Maps(browser, url, time) for time in TIMES}
        for turn in range(rounds + 1):
            for control, found in seen.items():
                for time, page in pages.items():
                    one = page.head() if control == "another head in focus" else page.scale()
                    if turn:  # the first warms both up
                        found[time].append(one)
        for page in pages.values():
            page.close()
        browser.close()
    return {control: _against(found) for control, found in seen.items()}


def _against(found: dict[int, list[tuple[float, int]]]) -> dict[str, Any]:
    ms, sizes = (
        {time: statistics.median(one[part] for one in pairs) for time, pairs in found.items()}
        for part in (0, 1)
    )
    short, long = TIMES
    return {
        "ms": {f"time {time:,}": round(each, 1) for time, each in ms.items()},
        "all ms": {
            f"time {time:,}": [round(one[0]) for one in pairs] for time, pairs in found.items()
        },
        "bytes": {f"time {time:,}": int(each) for time, each in sizes.items()},
        "slower": round(ms[long] / ms[short], 2),
        "slower, at most": SLOWER,
        "bytes ratio": round(sizes[long] / sizes[short], 3),
        "bytes, within": BYTES,
    }
