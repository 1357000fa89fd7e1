"""The app in a browser, in the words of a person: drag, type, choose, hover, read."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout

TIMEOUT = 60_000  # milliseconds; the machine may be busy
_QUIET = 300  # without a run of the script

_SETTLED = """
(quiet) => {
  const state = document.querySelector('[data-testid="stApp"]')?.dataset.testScriptState;
  if (state !== "notRunning" || window.__quietSince === undefined) {
    window.__quietSince = performance.now();
  }
  return performance.now() - window.__quietSince > quiet;
}
"""

_OVERFLOW = """
() => [document.scrollingElement, document.querySelector('[data-testid="stMain"]')]
  .map((part) => part.scrollWidth - part.clientWidth)
"""

expect.set_options(timeout=TIMEOUT)


class App:
    """One open page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    # --- opening and waiting ---------------------------------------------------------------

    def open(self, url: str, query: dict[str, Any], *, ready: bool = True) -> None:
        """Goes there and waits: for a view, or where none is due for the end of the run."""
        self.page.goto(f"{url}/?{urlencode(query)}" if query else url, timeout=TIMEOUT)
        expect(self.page.get_by_test_id("stSidebar")).to_be_attached()
        if ready:
            end = self.page.locator(".st-key-w_code, [data-testid=stException]").first
            expect(end).to_be_attached()
            assert self.page.get_by_test_id("stException").count() == 0
            expect(self.page.locator(".st-key-flow_chart .main-svg").first).to_be_attached()
        self.settle()

    def go(self, name: str) -> None:
        """Another page, by its name in the sidebar, which is opened first where it is closed."""
        self.settle()
        link = self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=name)
        there = re.compile(rf"/{name.replace(' ', '_')}(\?|$)")
        for _ in range(3):
            opener = self.page.get_by_test_id("stExpandSidebarButton")
            if opener.is_visible():
                opener.click()
            link.click()
            try:
                # A click that comes while the page is being drawn can be lost: as a person would,
                # it is made once more.
                expect(self.page).to_have_url(there, timeout=20_000)
            except AssertionError:
                continue
            return
        raise AssertionError(f"the page {name} does not open")

    def settle(self) -> None:
        """Until no run of the script has been going on for a moment."""
        self.page.evaluate("() => { window.__quietSince = undefined; }")
        self.page.wait_for_function(_SETTLED, arg=_QUIET, timeout=TIMEOUT)

    # --- controls --------------------------------------------------------------------------

    def widget(self, key: str) -> Locator:
        return self.page.locator(f".st-key-{key}")

    def exact(self, name: str) -> Locator:
        """The number field beside a slider."""
        return self.widget(f"w_{name}-exact").locator("input")

    def enter(self, name: str, value: int) -> None:
        """Types a size, as a person does: over what is there, then Enter."""
        self.fill(self.exact(name), str(value))

    def fill(self, field: Locator, text: str) -> None:
        field.click()
        field.press("ControlOrMeta+a")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def thumb(self, name: str) -> Locator:
        """The native range input of a slider."""
        return self.widget(f"w_{name}").locator("input[type=range]")

    def drag(self, name: str, stops: int) -> None:
        """Drags a slider's thumb by a number of stops, with the mouse."""
        thumb = self.thumb(name)
        count = int(thumb.get_attribute("max") or "1")
        track = thumb.locator("xpath=../../..").bounding_box()
        grip = thumb.locator("xpath=../..").bounding_box()
        assert track is not None
        assert grip is not None
        x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
        aim = track["x"] + track["width"] * (int(thumb.input_value()) + stops) / count
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move((x + aim) / 2, y, steps=3)
        mouse.move(aim, y, steps=3)
        mouse.up()

    def toggle(self, key: str) -> None:
        self.widget(key).locator("label").first.click()

    def segment(self, key: str, option: str) -> None:
        """One of the buttons of a segmented control, or of pills."""
        self.widget(key).get_by_role("radio", name=option, exact=True).click()

    def select(self, key: str, option: str) -> None:
        """One of the options of a select box."""
        box = self.widget(key).locator("input")
        choice = self.page.get_by_role("option", name=option, exact=True)
        # An open list closes when the page scrolls or is drawn anew: bring it to rest first, and
        # as a person would, open it once more where it closed all the same.
        box.scroll_into_view_if_needed()
        self.settle()
        for _ in range(5):
            box.click()
            try:
                choice.click(timeout=4000)
            except PlaywrightTimeout:
                self.page.keyboard.press("Escape")
                continue
            return
        raise AssertionError(f"the list of {key} does not stay open")

    def give(self, kind: str, path: Path) -> None:
        """A file for a control, through the browser's own dialogue."""
        control = self.page.locator(f"[class*=st-key-w_file_{kind}]")
        control.locator("input[type=file]").set_input_files(path)

    def take_back(self, kind: str) -> None:
        """The button beside a file that is in use."""
        self.widget(f"w_back_{kind}").get_by_role("button").click()

    def expand(self, key: str) -> Locator:
        """Opens an expander."""
        self.widget(key).locator("summary").click()
        return self.widget(key)

    def chosen(self, key: str) -> Locator:
        """The button of a segmented control that is on."""
        return self.widget(key).locator("[role=radio][aria-checked=true]")

    # --- what is shown ---------------------------------------------------------------------

    @property
    def glance(self) -> Locator:
        """The line of shapes at the top."""
        return self.page.locator(".glance .line").first  # while it runs, the old may be below

    @property
    def lesson(self) -> Locator:
        return self.page.locator(".lesson").first

    @property
    def errors(self) -> Locator:
        """Error boxes, wherever they are."""
        return self.page.get_by_test_id("stAlert").filter(
            has=self.page.get_by_test_id("stAlertContentError")
        )

    def row(self, step: str) -> Locator:
        """One row of the shape table."""
        return self.page.locator(f'table.shapes tr[data-pick="{step}"]')

    def shape(self, step: str) -> Locator:
        """The concrete output shape of a step, in the table."""
        return self.row(step).locator(".out .now")

    def table(self) -> list[str]:
        """Every row of the shape table as text."""
        return self.page.locator("table.shapes tbody tr").all_inner_texts()

    def values(self) -> list[str]:
        """The numbers of the lesson."""
        return self.page.locator("table.values td").all_inner_texts()

    def section(self, title: str) -> Locator:
        """The quiet note beside a section's heading."""
        heading = self.page.get_by_role("heading", name=title, exact=True)
        return self.page.locator(".section").filter(has=heading).locator("span")

    # --- heads -----------------------------------------------------------------------------

    def tile(self, head: int) -> Locator:
        return self.page.locator(f'.tile[data-pick="{head}"]')

    def pictures(self) -> list[str]:
        """The addresses of all tiles' pictures."""
        found: list[str] = self.page.locator(".tile img").evaluate_all("all => all.map(i => i.src)")
        return found

    @property
    def focus(self) -> Locator:
        """The head in focus: name and map."""
        return self.page.locator(".heads").locator(".focus-head, .map .pic")

    @property
    def focus_name(self) -> Locator:
        return self.page.locator(".heads .focus-head b")

    @property
    def map(self) -> Locator:
        return self.page.locator(".heads .map .pic")

    def labels(self, side: str) -> list[str]:
        """The labels of the map in focus: side "x" or "y"."""
        return self.page.locator(f".heads .map .{side}lab span").all_text_contents()

    def overflow(self) -> list[int]:
        """Pixels by which the page and its column hang over the side."""
        found: list[int] = self.page.evaluate(_OVERFLOW)
        return found

    def hover(self, query: int, key: int, *, time: int) -> str:
        """What the map in focus tells of a cell."""
        return tip_at(self.map, (key + 0.5) / time, (query + 0.5) / time)


def tip_at(part: Locator, across: float, down: float) -> str:
    """What is told where the mouse rests on a part of the page, in shares of it.

    A part that is drawn anew under the mouse tells nothing until it is moved again.
    """
    page = part.page
    tip = page.locator(".soa-tip:visible")
    for _ in range(5):
        part.scroll_into_view_if_needed()
        box = part.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] * across, box["y"] + box["height"] * down
        page.mouse.move(x + 1, y + 1)
        page.mouse.move(x, y)
        try:
            expect(tip).to_be_visible(timeout=3000)
            told = tip.inner_text(timeout=1000)
        except (AssertionError, PlaywrightTimeout):
            continue
        if part.bounding_box() == box:
            return told
    raise AssertionError("nothing is told there")


def picture(address: str) -> Image.Image:
    """A picture from its data address, RGBA."""
    kind, data = address.split(",", 1)
    assert kind == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGBA")


def number_after(word: str, text: str) -> float:
    """The number that follows a word in a hover, with its typographic minus."""
    found = re.search(rf"{re.escape(word)} (−?[\d.]+(?:e[+-−]?\d+)?)", text)
    assert found is not None, text
    return float(found[1].replace("−", "-"))
