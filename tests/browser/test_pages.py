"""From page to page by the sidebar: each is drawn for the screen it is on."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opened
from tests.browser.driver import TIMEOUT

pytestmark = pytest.mark.browser

# Figures whose width the server draws them for.
DRAWN = {
    "Memory": ".mem-svg",
    "Flat projection": ".plot-root .main-svg",
    "Scaling": ".plot-root .main-svg",
    "Reshape playground": ".flow-root .main-svg",
}
_FITS = """
(selector) => {
  const main = document.querySelector('[data-testid="stMainBlockContainer"]');
  const room = main.clientWidth - 2 * parseFloat(getComputedStyle(main).paddingLeft);
  const widths = [...document.querySelectorAll(selector)].map(
    (svg) => svg.viewBox.baseVal?.width || svg.width.baseVal.value);
  return widths.length > 0 && widths.every((width) => room - 40 < width && width <= room + 1);
}
"""


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024), (1440, 900)])
def test_a_figure_is_drawn_for_the_page_it_is_on(opened: Opened, width: int, height: int) -> None:
    app = opened(ready=False, viewport={"width": width, "height": height})
    for name, figure in DRAWN.items():
        app.go(name)
        expect(app.page.locator(figure).first).to_be_attached()
        app.page.wait_for_function(_FITS, arg=figure, timeout=TIMEOUT)


def test_a_page_is_left_as_its_width_changes(opened: Opened) -> None:
    """The report of the page that is left arrives with the call for the next one."""
    app = opened(ready=False)
    for turn, name in enumerate([*DRAWN, "Masks", *DRAWN]):
        width = 1100 + 100 * (turn % 3)
        app.page.set_viewport_size({"width": width, "height": 900})
        app.page.wait_for_timeout(60 + 30 * turn)  # it is reported 120 ms after
        app.page.get_by_test_id("stSidebarNav").get_by_role("link", name=name).click()
        expect(app.page).to_have_url(re.compile(name.replace(" ", "_")))
    app.settle()
    app.page.wait_for_function(_FITS, arg=DRAWN[name], timeout=TIMEOUT)
