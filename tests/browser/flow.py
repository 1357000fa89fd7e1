"""The animated flow in a browser: its buttons, its rail, its words, and where its elements are."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Locator, Page

from tests.browser.driver import TIMEOUT

Place = tuple[float, float]

_PLACES = """
() => [...document.querySelector(".st-key-flow_chart .scatterlayer .trace")
  .querySelectorAll(".point")].map((point) => {
    const move = point.getAttribute("transform").match(/-?\\d[-\\d.e]*/g);
    return move.slice(0, 2).map(Number);
  })
"""

# Until the elements have stood still for a moment.
_RESTED = (
    """
() => {
  const places = """
    + _PLACES
    + """;
  const now = JSON.stringify(places());
  if (window.__resting?.at !== now) window.__resting = { at: now, since: performance.now() };
  return performance.now() - window.__resting.since > 300;
}
"""
)

# Every frame from now until the elements have moved and then rested.
_SAMPLE = (
    """
() => {
  const places = """
    + _PLACES
    + """;
  const seen = [places()];
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  window.__samples = new Promise((resolve) => {
    const began = performance.now();
    let changed = began;
    const look = () => {
      const now = places();
      if (!same(now, seen.at(-1))) {
        seen.push(now);
        changed = performance.now();
      }
      const rested = seen.length > 1 && performance.now() - changed > 600;
      if (rested || performance.now() - began > 30000) resolve(seen);
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}
"""
)


@dataclass(frozen=True)
class Motion:
    """Where the elements were in every frame in which one of them had moved."""

    frames: list[list[Place]]

    def moved(self) -> list[int]:
        """The elements that ended elsewhere."""
        start, end = self.frames[0], self.frames[-1]
        return [n for n in range(len(start)) if _apart(start[n], end[n])]

    def glided(self) -> list[int]:
        """Those of them seen on the way, at neither end."""
        return [n for n in self.moved() if any(self._between(n, frame) for frame in self.frames)]

    def _between(self, n: int, frame: list[Place]) -> bool:
        """Strictly, in x or in y."""
        pairs = zip(self.frames[0][n], frame[n], self.frames[-1][n], strict=True)
        return any(min(a, b) + 1 < now < max(a, b) - 1 for a, now, b in pairs)


def _apart(a: Place, b: Place) -> bool:
    return abs(a[0] - b[0]) > 2 or abs(a[1] - b[1]) > 2


class Flow:
    """The flow of an open page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.chart = page.locator(".st-key-flow_chart")

    @property
    def words(self) -> Locator:
        return self.chart.locator(".textpoint text")

    @property
    def title(self) -> Locator:
        """Number and operation of the scene."""
        return self.words.first

    def button(self, label: str) -> Locator:
        """Play, pause, a step or a speed."""
        return self.chart.get_by_role("button", name=label, exact=True)

    def stop(self, scene: str) -> Locator:
        """The stop of a scene on the rail."""
        return self.chart.locator(f'.rail [data-scene="{scene}"]')

    @property
    def at(self) -> Locator:
        """The stop of the scene in view."""
        return self.chart.locator(".rail [aria-current=step]")

    def element(self, axis: str) -> Locator:
        """The field for b, t or c of the element followed."""
        return self.chart.locator(f'input[name="{axis}"]')

    def points(self) -> Locator:
        """The elements."""
        return self.chart.locator(".scatterlayer .trace").first.locator(".point")

    def places(self) -> list[Place]:
        """Where the elements are now, in pixels of the figure."""
        found: list[Place] = self._page.evaluate(_PLACES)
        return found

    def rest(self) -> None:
        """Until nothing moves."""
        self._page.evaluate("() => { window.__resting = undefined; }")
        self._page.wait_for_function(_RESTED, timeout=TIMEOUT)

    def watch(self) -> None:
        """Begins to look, every frame, once nothing moves."""
        self.rest()
        self._page.evaluate(_SAMPLE)

    def motion(self) -> Motion:
        """What was seen from `watch` until the elements rested."""
        return Motion(self._page.evaluate("window.__samples"))
