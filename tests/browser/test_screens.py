"""Phone, tablet and projector; light and dark."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opened
from tests.browser.driver import App, picture

pytestmark = pytest.mark.browser


def luminance(rgb: np.ndarray) -> np.ndarray:
    """0 to 255, as the eye weighs the three."""
    return rgb[..., :3].astype(float) @ np.array([0.2126, 0.7152, 0.0722])


def background(app: App) -> float:
    """Luminance of the page's ground."""
    colour: list[int] = app.page.get_by_test_id("stApp").evaluate(
        "part => getComputedStyle(part).backgroundColor.match(/\\d+/g).map(Number)"
    )
    return float(luminance(np.array(colour)))


@pytest.mark.parametrize(
    "size", [(390, 844), (1024, 768), (1920, 1080)], ids=["phone", "tablet", "projector"]
)
def test_nothing_hangs_over_the_side(opened: Opened, size: tuple[int, int]) -> None:
    app = opened(
        viewport={"width": size[0], "height": size[1]},
        query={"time": 12, "d_model": 96, "heads": 12, "causal": 1},
    )
    expect(app.glance).to_contain_text("(2, 12, 12, 8)")
    for part in ("table.shapes", ".lesson", ".st-key-flow_chart", ".tiles", ".heads .map .pic"):
        expect(app.page.locator(part)).to_be_visible()
    expect(app.page.locator(".proofs .proof")).to_have_count(4)
    assert app.overflow() == [0, 0]
    for part in (".glance", ".lesson", ".heads .map", ".proofs"):
        box = app.page.locator(part).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_maps_are_seen_on_either_ground(opened: Opened, scheme: str) -> None:
    app = opened(color_scheme=scheme)
    ground = background(app)
    assert ground < 40 if scheme == "dark" else ground > 230
    for address in app.pictures():
        pixels = np.asarray(picture(address))
        away = np.abs(luminance(pixels[pixels[..., 3] > 0]) - ground)
        assert away.max() > 100  # the largest weight stands out,
        assert (away > 25).mean() > 0.3  # and it is not alone
