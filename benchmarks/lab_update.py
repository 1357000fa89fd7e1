"""An update of every page of the laboratory, against a bare Streamlit page with one figure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.page_update import BARE, BARE_SLIDER, ROOT, Meter, open_page, serve, update
from tests.browser.chromium import chromium_arguments, chromium_path

LIMIT = 2.0
PORTS = (8617, 8618)


@dataclass(frozen=True)
class Lab:
    """One page: the slider that moves by one stop, and what of it must be drawn anew by then.

    Each part is JavaScript; all of them have to differ from what they were.
    """

    name: str
    slider: str
    parts: tuple[str, ...]
    start: str = ""

    @property
    def probe(self) -> str:
        return f"[{', '.join(self.parts)}]"


def _text(selector: str) -> str:
    return f"document.querySelector({selector!r})?.textContent"


def _all(selector: str, of: str) -> str:
    return f"[...document.querySelectorAll({selector!r})].map(e => {of}).join()"


_D_MODEL, _TIME = ".st-key-w_d_model input", ".st-key-w_time input"
LABS = (
    Lab("Memory", _D_MODEL, (_text("table.mem"), _text(".mem-svg"))),
    Lab(
        "Flat_projection", _D_MODEL,
        (_text(".fp-facts"), _all(".fp-strips .strip", "e.getAttribute('aria-label')"),
         _text(".fp-lesson")),
    ),
    Lab(
        "Common_mistakes", _D_MODEL,
        (_text("table.mis-list"), _text("table.mis-numbers"),
         _all(".mis-maps .pic img", "e.complete && e.src")),
    ),
    Lab("Masks", _TIME, (_all(".mk-root [data-cell]", "e.dataset.cell"), _text(".mk-three")),
        # A grid of at most 20 x 20 can be drawn in.
        "&time=3"),
    Lab(
        "Scaling", _D_MODEL,
        (_all(".st-key-sc_costs .js-line", "e.getAttribute('d')"),
         "document.querySelector('.st-key-sc_costs .plot-root')?.ariaLabel",
         _all(".st-key-sc_spread .point", "e.getAttribute('transform')")),
    ),
    Lab(
        "Reshape_playground", ".st-key-rp_shape input",
        (_text("table.shapes.rp"), _all(".flow-root .textpoint text", "e.textContent")),
    ),
)  # fmt: skip


class _Side:
    """A page in its own session, and how it is updated."""

    def __init__(self, browser: Browser, url: str, lab: Lab | None) -> None:
        self.slider, self.probe = (lab.slider, lab.probe) if lab else (BARE_SLIDER, BARE)
        ready = self.slider if lab else ".js-plotly-plot"
        self.page: Page
        self.meter: Meter
        self.page, self.meter = open_page(browser, url, ready)
        self.typed = 0

    def update(self) -> tuple[float, int]:
        self.page.bring_to_front()
        if "rp_shape" not in self.slider:
            return update(self.page, self.meter, self.slider, self.probe, "ArrowRight")
        # A field has no stops: another batch is typed, and Enter is the key that counts.
        self.typed += 1
        self.page.locator(self.slider).fill(f"{2 + self.typed % 2}, 6, 32")
        return update(self.page, self.meter, self.slider, self.probe, "Enter")


def measure(rounds: int = 2, steps: int = 4) -> dict[str, Any]:
    """Medians of interleaved updates: every page beside the bare one, in turn."""
    figures: dict[str, Any] = {}
    bare_port, our_port = PORTS
    with (
        serve(ROOT / "benchmarks" / "bare_page.py", bare_port) as bare_url,
        serve(ROOT / "app.py", our_port) as our_url,
        sync_playwright() as play,
    ):
        browser = play.chromium.launch(executable_path=chromium_path(), args=chromium_arguments())
        for lab in LABS:
            seen: dict[str, list[tuple[float, int]]] = {"bare": [], "ours": []}
            for seed in range(rounds):
                # A seed of its own a round: nothing is in a cache.
                address = f"{our_url}/{lab.name}"
                if "rp_" not in lab.slider:
                    address += f"?seed={100 + seed}{lab.start}"
                sides = {
                    "bare": _Side(browser, bare_url, None),
                    "ours": _Side(browser, address, lab),
                }
                for step in range(steps + 1):
                    for label, side in sides.items():
                        one = side.update()
                        if step:  # the first warms it up
                            seen[label].append(one)
                for side in sides.values():
                    side.page.close()
            bare, ours = (statistics.median(ms for ms, _ in seen[side]) for side in seen)
            figures[lab.name.replace("_", " ")] = {
                "bare ms": round(bare, 1),
                "ours ms": round(ours, 1),
                "ratio": round(ours / bare, 2),
                "limit": LIMIT,
                "all bare ms": [round(ms) for ms, _ in seen["bare"]],
                "all ours ms": [round(ms) for ms, _ in seen["ours"]],
                "bytes": int(statistics.median(size for _, size in seen["ours"])),
            }
        browser.close()
    return figures


if __name__ == "__main__":
    for name, found in measure().items():
        print(name, found)
