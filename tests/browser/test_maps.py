"""The maps page as a person uses it: boxes, clicks, ranges, comparing, waiting, taking home."""

from __future__ import annotations

import base64
import html
import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from playwright.sync_api import Locator, expect
from pypdf import PdfReader

from mha_core import MHAConfig, trace_forward
from tests.browser.conftest import Opened
from tests.browser.driver import App

pytestmark = pytest.mark.browser

SIZES: dict[str, Any] = {"batch": 1, "time": 200, "d_model": 32, "heads": 4}


class Maps:
    """The page, reached by its name in the sidebar."""

    def __init__(
        self,
        opened: Opened,
        query: dict[str, Any],
        *,
        size: tuple[int, int] = (1440, 900),
        **how: Any,
    ) -> None:
        self.app: App = opened(query=SIZES | query, **how)
        self.page = self.app.page
        self.app.go("Attention heads")
        expect(self.pic).to_be_visible()
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.app.settle()

    @property
    def pic(self) -> Locator:
        return self.page.locator(".st-key-focus .pic")

    def shape(self, rows: int, columns: int) -> None:
        """Waits until the focus shows so many cells."""
        expect(self.pic).to_have_attribute(
            "data-z", re.compile(rf"^[\w+/=]{{{-(-rows * columns * 4 // 3) * 4}}}$")
        )

    def values(self) -> NDArray[np.float32]:
        about = json.loads(html.unescape(self.pic.get_attribute("data-hover") or ""))
        data = base64.b64decode(self.pic.get_attribute("data-z") or "")
        shape = (len(about["rows"]), len(about["columns"]))
        return np.frombuffer(data, dtype="<f4").reshape(shape)

    def ranges(self) -> tuple[str, str]:
        fields = (self.app.widget(f"w_{axis}").locator("input") for axis in ("queries", "keys"))
        queries, keys = (field.input_value() for field in fields)
        return queries, keys

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A box on the focus, in shares of its width and height."""
        self.pic.scroll_into_view_if_needed()
        box = self.pic.bounding_box()
        assert box is not None
        points = [
            (box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in (start, end)
        ]
        self.page.mouse.move(*points[0])
        self.page.mouse.down()
        self.page.mouse.move(*points[1], steps=6)
        before = self.ranges()[0]
        self.page.mouse.up()
        expect(self.app.widget("w_queries").locator("input")).not_to_have_value(before)
        self.app.settle()


def weights(**changes: Any) -> torch.Tensor:
    return trace_forward(MHAConfig(**(SIZES | changes))).weights[0]


def test_a_box_is_drawn_until_single_weights_are_seen(opened: Opened) -> None:
    maps = Maps(opened, {})
    maps.shape(67, 67)
    expect(maps.page.locator(".st-key-focus")).to_contain_text("max of 3 × 3 weights")
    maps.drag((0.5, 0.25), (0.9, 0.6))
    queries, keys = maps.ranges()
    a, b = (int(n) for n in queries.split("–"))
    c, d = (int(n) for n in keys.split("–"))
    # Whole cells of 3, where the pointer was.
    assert a % 3 == c % 3 == 0
    assert abs(a - 0.25 * 200) <= 4
    assert abs(d - 0.9 * 200) <= 4
    assert np.array_equal(maps.values(), weights()[0, a : b + 1, c : d + 1].numpy())
    maps.app.widget("w_zoom_back").get_by_role("button").click()
    maps.shape(67, 67)
    for axis in ("queries", "keys"):
        expect(maps.app.widget(f"w_{axis}").locator("input")).to_have_value("")


def test_ranges_are_typed_and_a_bad_one_is_told(opened: Opened) -> None:
    maps = Maps(opened, {"causal": 1})
    maps.app.fill(maps.app.widget("w_queries").locator("input"), "100–149")
    maps.app.settle()
    maps.app.fill(maps.app.widget("w_keys").locator("input"), "0-40")
    maps.shape(50, 41)
    expected = weights(causal=True)[0, 100:150, :41].numpy()
    assert np.array_equal(maps.values(), expected)
    maps.app.fill(maps.app.widget("w_queries").locator("input"), "150–100")
    alert = maps.page.get_by_role("alert").filter(has_text="reversed")
    expect(alert).to_contain_text("Nearest that works: 100–150")
    assert np.array_equal(maps.values(), expected)
    maps.pic.dblclick()
    maps.shape(67, 67)


def test_a_click_shows_one_query_and_one_key(opened: Opened) -> None:
    maps = Maps(opened, {"input": "text", "text": "to be or not to be"})
    maps.shape(6, 6)
    box = maps.pic.bounding_box()
    assert box is not None
    maps.pic.click(position={"x": box["width"] * 0.75, "y": box["height"] * 0.25})
    line = maps.page.locator(".line-view")
    expect(line).to_contain_text("query 1 “be”")
    expect(line).to_contain_text("running sum")
    maps.app.segment("w_line", "key")
    maps.app.settle()
    maps.pic.click(position={"x": box["width"] * 0.75, "y": box["height"] * 0.25})
    expect(line).to_contain_text("key 4 “to”")
    expect(line).to_contain_text("sum over the queries")


def test_heads_are_sorted_picked_and_compared(opened: Opened) -> None:
    maps = Maps(opened, {"time": 20})
    maps.app.select("w_order", "entropy")
    maps.app.settle()
    tiles = maps.page.locator(".tile")
    order = [int(tiles.nth(n).get_attribute("data-pick") or -1) for n in range(4)]
    assert sorted(order) == [0, 1, 2, 3]
    tiles.nth(3).click()
    expect(maps.page.locator(".st-key-focus")).to_contain_text(f"head {order[3]}, weights")
    maps.app.select("w_compare", "causal against full")
    trio = maps.page.locator(".patch-trio")
    expect(trio.locator(".pic")).to_have_count(3)
    expect(trio).to_contain_text("B − A, largest")
    maps.app.toggle("w_causal")
    maps.app.settle()
    expect(trio).to_contain_text("causal (as it ran)")


def test_long_maps_are_computed_with_progress_and_can_be_cancelled(
    opened: Opened,
) -> None:
    maps = Maps(opened, {"time": 30})
    maps.shape(30, 30)
    maps.app.enter("time", 32_768)
    bar = maps.page.locator(".st-key-maps_progress")
    expect(bar).to_contain_text("computing the maps block by block")
    expect(bar).to_contain_text("s left")
    assert maps.values().shape == (30, 30), "the last maps stay"
    maps.app.widget("w_cancel").get_by_role("button").click()
    expect(maps.page.get_by_text("Cancelled: the maps shown are the last")).to_be_visible()
    assert maps.values().shape == (30, 30)
    maps.app.enter("time", 3000)
    maps.shape(94, 94)
    maps.app.settle()
    maps.drag((0.0, 0.9), (0.1, 0.97))
    queries, keys = ([int(n) for n in span.split("–")] for span in maps.ranges())
    config = MHAConfig(**(SIZES | {"time": 3000, "heads": 4}))
    expected = trace_forward(config, keep=("softmax",), profile=False).weights[0, 0]
    part = expected[queries[0] : queries[1] + 1, keys[0] : keys[1] + 1]
    shown = maps.values()
    if shown.shape == tuple(part.shape):
        assert np.abs(shown - part.numpy()).max() < 1e-6
    else:
        assert abs(float(shown.max()) - float(part.max())) < 1e-6


def test_exact_weights_and_a_sheet_are_taken_home(opened: Opened) -> None:
    maps = Maps(opened, {"causal": 1})
    panel = maps.app.expand("w_maps_export")
    maps.app.widget("w_sheet_make").get_by_role("button").click()
    with maps.page.expect_download() as sheet:
        maps.app.widget("w_sheet_file").get_by_role("button").click()
    words = PdfReader(sheet.value.path()).pages[0].extract_text()
    assert "head 3" in words
    assert "time 200" in words
    expect(panel).to_contain_text("exact values, none pooled")
    maps.app.widget("w_long_prepare").get_by_role("button").click()
    with maps.page.expect_download() as file:
        maps.page.locator("a.long-link").click()
    with np.load(file.value.path(), allow_pickle=False) as read:
        assert np.array_equal(read["weights"][0], weights(causal=True).numpy())


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768), (390, 844)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows(opened: Opened, size: tuple[int, int], scheme: str) -> None:
    maps = Maps(opened, {}, size=size, color_scheme=scheme)
    maps.shape(67, 67)
    assert maps.app.overflow() == [0, 0]
