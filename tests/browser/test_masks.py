"""The masks page: paint cells, convert, read torch's errors, follow NaN, take files home."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from mha_core.mask_lab import build
from mha_core.mask_lab.build import MaskSpec
from mha_core.mask_lab.forms import FORMS
from tests.browser.conftest import Opened
from tests.browser.driver import App

pytestmark = pytest.mark.browser

SECTIONS = ("Build", "Convert", "Broadcast", "Tq ≠ Tk", "Fill and NaN", "Scale")
# What each section draws last.
DRAWN = (".mk-three", ".mk-cards", ".mk-tries", ".mk-decode svg", ".mk-strip", ".mk-charts svg")


class Masks:
    """The page, reached as a person reaches it: by its name in the sidebar."""

    def __init__(self, opened: Opened, *, size: tuple[int, int] = (1440, 900), **how: Any) -> None:
        self.app: App = opened(ready=False, viewport={"width": 1440, "height": 900}, **how)
        self.page = self.app.page
        self.app.go("Masks")
        expect(self.page.locator(".mk-three")).to_be_visible()
        if size != (1440, 900):
            self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.app.settle()

    def section(self, name: str) -> None:
        self.app.segment("w_mk_section", name)
        expect(self.page.locator(DRAWN[SECTIONS.index(name)]).first).to_be_visible()
        self.app.settle()

    def cell(self, query: int, key: int) -> Locator:
        return self.page.locator(f'.mk-root [data-cell="{query},{key}"]')

    def part(self, name: str) -> None:
        """Turns one of the parts on or off."""
        self.app.widget("w_mk_parts").get_by_role("button", name=name, exact=True).click()
        self.app.settle()

    def keep(self) -> list[list[bool]]:
        """The grid, as it is seen."""
        found: list[list[bool]] = self.page.locator(".mk-root .mk-grid").evaluate(
            """(grid) => {
              const n = Number(grid.dataset.columns);
              const on = [...grid.querySelectorAll("i")].map((i) => i.classList.contains("on"));
              return Array.from({ length: on.length / n }, (_, r) => on.slice(r * n, r * n + n));
            }"""
        )
        return found

    def drag(self, start: tuple[int, int], *through: tuple[int, int]) -> None:
        """Presses the mouse on one cell and draws it across others."""
        mouse = self.page.mouse

        def move(cell: tuple[int, int]) -> None:
            box = self.cell(*cell).bounding_box()
            assert box is not None
            mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=4)

        self.cell(*start).scroll_into_view_if_needed()
        move(start)
        mouse.down()
        for cell in through:
            move(cell)
        mouse.up()
        self.app.settle()

    def download(self, label: str, folder: Path) -> Path:
        if not self.page.locator(".st-key-mk_files").is_visible():
            self.app.expand("w_mk_export")
        with self.page.expect_download() as waiting:
            self.page.get_by_role("button", name=label, exact=True).click()
        path = folder / waiting.value.suggested_filename
        waiting.value.save_as(path)
        return path


def test_cells_are_painted_by_click_drag_and_keyboard(opened: Opened, tmp_path: Path) -> None:
    page = Masks(opened)
    expected = np.tril(np.ones((6, 6), dtype=bool))
    assert page.keep() == expected.tolist()

    page.cell(0, 5).click()
    expect(page.cell(0, 5)).to_have_class("on drawn")
    page.drag((1, 4), (1, 5), (2, 5))
    page.cell(5, 0).focus()
    page.page.keyboard.press("Space")  # turns (5, 0) off
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Enter")  # turns (4, 1) off
    page.app.settle()
    expect(page.cell(4, 1)).to_be_focused()
    for query, key in ((0, 5), (1, 4), (1, 5), (2, 5)):
        expected[query, key] = True
    expected[5, 0] = expected[4, 1] = False
    assert page.keep() == expected.tolist()
    expect(page.page.get_by_text("Clear 6 drawn cells")).to_be_visible()

    # What is seen is what the files hold.
    array = np.load(page.download("Mask, NPY", tmp_path), allow_pickle=False)
    assert np.array_equal(array, expected)
    said = json.loads(page.download("Mask, JSON", tmp_path).read_text())
    assert np.array_equal(np.array(said["mask"]), expected.astype(int))
    assert np.array_equal(build.keep(MaskSpec.from_dict(said["parts"])).numpy(), expected)
    with np.load(page.download("Mask, NPZ", tmp_path), allow_pickle=False) as arrays:
        assert set(FORMS) < set(arrays)
        assert np.array_equal(arrays["ignore"], ~expected)
    picture = ET.parse(page.download("Figure, SVG", tmp_path)).getroot()
    assert picture.tag.endswith("svg")

    page.page.get_by_text("Clear 6 drawn cells").click()
    page.app.settle()
    assert page.keep() == np.tril(np.ones((6, 6), dtype=bool)).tolist()


def test_parts_are_put_together_and_the_weights_follow(opened: Opened) -> None:
    page = Masks(opened)
    page.part("sliding window")
    page.part("padding")
    page.app.fill(page.app.widget("w_mk_lengths").locator("input"), "6, 4")
    page.app.settle()
    page.app.fill(page.app.widget("w_mk_item").locator("input"), "1")
    page.app.settle()
    keep = build.keep(MaskSpec(time_q=6, time_k=6, causal=True, window=3, lengths=(6, 4)))
    assert page.keep() == keep[1, 0].tolist()
    expect(page.page.locator(".mk-grid i.pad").first).to_be_visible()
    page.app.fill(page.app.widget("w_mk_lengths").locator("input"), "6, 9")
    expect(page.app.errors).to_contain_text("must be an integer from 0 to 6")
    assert page.keep() == keep[1, 0].tolist()


def test_every_library_is_asked_and_agrees(opened: Opened) -> None:
    page = Masks(opened)
    page.section("Convert")
    cards = page.page.locator(".mk-card")
    expect(cards).to_have_count(10)
    expect(page.page.locator(".mk-card .fig", has_text="running")).to_have_count(0)
    expect(page.page.locator(".mk-card .fig.holds")).to_have_count(9)
    expect(page.page.locator(".mk-card .fig.fails")).to_have_count(0)
    page.app.select("w_mk_need", "boolean ignore: True = hidden")
    expect(page.page.locator(".mk-arrow pre")).to_have_text("ignore = ~keep")


def test_a_shape_that_does_not_fit_is_refused_in_torchs_words(opened: Opened) -> None:
    page = Masks(opened)
    page.section("Broadcast")
    page.app.segment("w_mk_shapes", "batch, Tk")
    expect(page.page.locator(".mk-axis.wrong")).to_contain_text("2 is neither 1 nor 6")
    expect(page.page.locator(".mk-tries")).to_contain_text("must match the size of tensor b")
    page.app.fill(page.app.widget("w_mk_shape").locator("input"), "4, 1, 6")
    expect(page.page.locator(".mk-verdict")).to_contain_text("(4, 1, 6) broadcasts to (2, 4, 6, 6)")


def test_nan_is_followed_from_the_fill_that_bears_it(opened: Opened, tmp_path: Path) -> None:
    page = Masks(opened)
    page.section("Fill and NaN")
    page.page.locator('.mk-case[data-pick="-inf|bfloat16"]').click()
    expect(page.page.locator(".mk-detail > b")).to_have_text("−∞ in bfloat16")
    expect(page.page.locator(".mk-step.bad").first).to_contain_text("softmax")
    expect(page.page.locator(".mk-detail")).to_contain_text("at [0, 0, 0, 0]")
    page.page.locator('.mk-case[data-pick="ours|bfloat16"]').click()
    expect(page.page.locator(".mk-step.bad")).to_have_count(0)
    rows = list(csv.DictReader(io.StringIO(page.download("Table, CSV", tmp_path).read_text())))
    assert len(rows) == 21
    assert {row["NaN born"] for row in rows if row["fill"] == "-inf"} == {"softmax"}


@pytest.mark.parametrize(
    ("size", "scheme"),
    [((390, 844), "light"), ((1024, 768), "dark"), ((1920, 1080), "dark")],
    ids=["phone", "tablet", "projector"],
)
def test_nothing_hangs_over_the_side(opened: Opened, size: tuple[int, int], scheme: str) -> None:
    page = Masks(opened, size=size, color_scheme=scheme)
    for name in SECTIONS:
        page.section(name)
        assert page.app.overflow() == [0, 0], name
