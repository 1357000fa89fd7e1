"""The memory page in a browser: its table, its figure, its walk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from playwright.sync_api import Locator, expect

from tests.browser.conftest import Opened
from tests.browser.driver import TIMEOUT, App

Point = tuple[float, float]

# Where the frames of the walk are, and how many elements the trail has passed.
_WALK = """
() => {
  const layer = document.querySelector(".mem-svg .walk");
  if (!layer.classList.contains("shown")) return null;
  const [trail, ...frames] = layer.children;
  return {
    frames: frames.map((frame) => frame.style.transform.match(/-?[\\d.]+/g).map(Number)),
    passed: (trail.getAttribute("d").match(/M/g) ?? []).length,
  };
}
"""


# Whether the figure is drawn for the width of the page, not squeezed into it.
_FITS = """
() => {
  const main = document.querySelector('[data-testid="stMainBlockContainer"]');
  const width = main.clientWidth - 2 * parseFloat(getComputedStyle(main).paddingLeft);
  const drawn = document.querySelector(".mem-svg")?.viewBox.baseVal.width;
  return width - 40 < drawn && drawn <= width + 1;
}
"""


class Memory:
    """The page, reached as a person reaches it: by its name in the sidebar."""

    def __init__(self, opened: Opened, *, size: tuple[int, int] = (1440, 900), **how: Any) -> None:
        self.app: App = opened(ready=False, viewport={"width": 1440, "height": 900}, **how)
        self.page = self.app.page
        self.app.go("Memory")
        expect(self.svg).to_be_visible()
        if size != (1440, 900):
            self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.wait_for_function(_FITS, timeout=TIMEOUT)
        self.app.settle()

    @property
    def svg(self) -> Locator:
        return self.page.locator(".mem-svg")

    @property
    def title(self) -> Locator:
        return self.page.locator(".mem-root h2")

    @property
    def say(self) -> Locator:
        """The line below the figure."""
        return self.page.locator(".mem-say")

    def row(self, step: str) -> Locator:
        return self.page.locator(f'table.mem tr[data-pick="{step}"]')

    def choose(self, step: str) -> None:
        self.row(step).locator(".op").click(position={"x": 8, "y": 8})

    def element(self, axis: str) -> Locator:
        """The field for b, t, c or the key."""
        return self.page.locator(f'.mem-root input[name="{axis}"]')

    def button(self, label: str) -> Locator:
        return self.page.locator(".mem-root").get_by_role("button", name=label, exact=True)

    def chosen(self) -> list[Point]:
        """Centres of the chosen element, by index and in storage, in the figure's pixels."""
        found = self.page.locator(".mem-svg .chosen").evaluate_all(
            "all => all.map(r => ['x', 'y', 'width', 'height'].map(a => +r.getAttribute(a)))"
        )
        return [(x + w / 2, y + h / 2) for x, y, w, h in found]

    def point(self, place: Point) -> Point:
        """A place of the figure, in pixels of the screen."""
        self.svg.scroll_into_view_if_needed()
        box = self.svg.bounding_box()
        assert box is not None
        wide = float(str(self.svg.get_attribute("viewBox")).split()[2])
        return box["x"] + place[0] * box["width"] / wide, box["y"] + place[1] * box["width"] / wide

    def walk(self) -> tuple[list[Point], int] | None:
        """Where the frames of the walk are, and what it has passed on both sides."""
        found = self.page.evaluate(_WALK)
        return None if found is None else ([tuple(one) for one in found["frames"]], found["passed"])

    def walked(self, count: int) -> None:
        """Waits until a walk has come to an element or beyond it."""
        self.page.wait_for_function(
            "count => parseInt(document.querySelector('.mem-say').textContent) >= count",
            arg=count, timeout=TIMEOUT,
        )  # fmt: skip

    def said_place(self) -> tuple[Sequence[int], int]:
        """Index and offset in the line below the figure."""
        found = re.search(r"\[([\d, ]+)\] lies at offset ([\d,]+)", self.say.inner_text())
        assert found is not None, self.say.inner_text()
        return [int(n) for n in found[1].split(",")], int(found[2].replace(",", ""))
