"""The page of common mistakes: open one, read what it did, point at its maps, take files home."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from mha_core import MHAConfig
from mha_core.figures.mistakes_list import changed
from mha_core.mistakes import MISTAKES, Finding, bench, examine
from mha_core.mistakes.measures import maps_seen
from tests.browser.conftest import Opened
from tests.browser.driver import App, tip_at

pytestmark = pytest.mark.browser


class Page:
    """The page, reached as a person reaches it: by its name in the sidebar."""

    def __init__(self, opened: Opened, *, size: tuple[int, int] = (1440, 900), **how: Any) -> None:
        self.app: App = opened(ready=False, viewport={"width": 1440, "height": 900}, **how)
        self.page = self.app.page
        self.app.go("Common mistakes")
        expect(self.page.locator("table.mis-list")).to_be_visible()
        if size != (1440, 900):
            self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.app.settle()

    def row(self, name: str) -> Locator:
        return self.page.locator(f'table.mis-list tr[data-pick="{name}"]')

    def choose(self, name: str) -> None:
        self.row(name).click()
        expect(self.title).to_have_text(MISTAKES[name].title)
        self.app.settle()  # what is drawn after the title moves what is pointed at

    @property
    def title(self) -> Locator:
        return self.page.locator(".mis h2")

    @property
    def maps(self) -> Locator:
        return self.page.locator(".mis-maps .pic")

    def tip(self, which: int, query: int, key: int, time: int) -> str:
        """What the first, second or third map tells of a cell."""
        return tip_at(self.maps.nth(which), (key + 0.5) / time, (query + 0.5) / time)


def found(name: str, **fields: Any) -> Finding:
    config = MHAConfig(**fields)
    made = bench.seeded(config)
    return examine(MISTAKES[name], made.module, made.x, seed=config.seed)


def test_a_silent_one_is_opened_and_its_maps_tell_exact_weights(opened: Opened) -> None:
    page = Page(opened)
    expect(page.title).to_have_text(MISTAKES["heads_from_time"].title)
    page.choose("no_scale")
    expect(page.row("no_scale")).to_have_attribute("aria-selected", "true")
    expect(page.row("no_scale").locator("td").nth(1)).to_have_text(changed(found("no_scale")))
    expect(page.maps).to_have_count(3)
    seen = maps_seen(found("no_scale"), 0)
    assert seen is not None
    right, wrong = float(seen.right.values[0, 2, 3]), float(seen.wrong.values[0, 2, 3])
    for which, what, value in (
        (0, "weight", wrong), (1, "weight", right), (2, "difference", wrong - right),
    ):  # fmt: skip
        head, line = page.tip(which, 2, 3, 6).split("\n")
        assert head == "query 2 → key 3"
        shown = line.removeprefix(f"{what} ").replace("−", "-")
        assert float(shown) == pytest.approx(value, rel=1e-3)
    expect(page.page.locator(".mis-verdict.fails")).to_contain_text("on the wrong code")
    expect(page.page.locator(".mis-verdict.holds")).to_contain_text("on the right code")


def test_a_loud_one_has_torchs_own_words(opened: Opened) -> None:
    page = Page(opened)
    page.choose("mask_shape")
    words = "RuntimeError: The size of tensor a (2) must match the size of tensor b (6) at"
    expect(page.page.locator(".mis-error")).to_contain_text(words)
    expect(page.maps).to_have_count(0)
    page.app.enter("batch", 6)  # batch = time
    page.app.settle()
    expect(page.page.locator(".mis-ran")).to_contain_text("batch 4 of 6")
    page.app.enter("time", 4)
    expect(page.row("mask_shape").locator(".mis-tag")).to_have_text("values only")
    expect(page.page.locator(".mis-error")).to_have_count(0)
    expect(page.maps).to_have_count(3)


def test_nan_is_named_and_masked_cells_are_masked(opened: Opened) -> None:
    page = Page(opened)
    page.choose("causal_blind")
    assert page.tip(0, 0, 2, 6) == "query 0 → key 2\nweight NaN"
    assert page.tip(0, 1, 4, 6) == "query 1 → key 4\nmasked"
    assert page.tip(1, 0, 0, 6) == "query 0 → key 0\nweight 1.000"


def test_rows_and_heads_by_keyboard(opened: Opened) -> None:
    page = Page(opened)
    page.row("softmax_axis").focus()
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Enter")
    expect(page.title).to_have_text(MISTAKES["softmax_twice"].title)
    expect(page.page.locator(".mis-heads")).to_contain_text("head 0 of 0–3")
    page.page.get_by_role("button", name="head 3", exact=True).focus()
    page.page.keyboard.press("Enter")
    expect(page.page.locator(".mis-heads")).to_contain_text("head 3 of 0–3")
    seen = maps_seen(found("softmax_twice"), 3)
    assert seen is not None
    told = page.tip(0, 4, 1, 6).split("weight ")[1]
    assert float(told) == pytest.approx(float(seen.wrong.values[0, 4, 1]), rel=1e-3)


def test_the_helpers_open_and_the_step_is_a_click_away(opened: Opened) -> None:
    page = Page(opened)
    page.choose("scale_d_model")
    page.page.locator(".mis summary").click()
    expect(page.page.locator(".mis details pre")).to_contain_text("def project(m:")
    page.app.widget("w_step_scale").get_by_role("button").click()
    expect(page.app.lesson).to_contain_text("spread of √d_k")


def test_files(opened: Opened, tmp_path: Path) -> None:
    page = Page(opened)
    page.choose("polarity")
    page.app.expand("w_mistakes_export")
    files = {}
    for suffix in ("csv", "md", "png", "svg"):
        with page.page.expect_download() as started:
            page.app.widget(f"mistakes_{suffix}").get_by_role("button").click()
        name = started.value.suggested_filename
        stem = "mistakes" if suffix in ("csv", "md") else "mistake-polarity"
        assert name == f"attention_b2_t6_d32_h4_seed0_{stem}.{suffix}"
        files[suffix] = tmp_path / name
        started.value.save_as(files[suffix])
    table = list(csv.DictReader(io.StringIO(files["csv"].read_text())))
    assert [row["mistake"] for row in table] == [m.title for m in MISTAKES.values()]
    polarity = next(row for row in table if row["mistake"] == MISTAKES["polarity"].title)
    change = found("polarity").change
    assert change is not None
    assert float(polarity["largest change of output"]) == pytest.approx(change)
    assert polarity["shapes alone reveal it"] == "no"
    assert files["md"].read_text().count("\n") == len(MISTAKES) + 1
    pixels = np.asarray(Image.open(files["png"]).convert("RGB"))
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50
    assert "mask polarity" in ET.parse(files["svg"]).getroot().attrib["aria-label"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "size", [(390, 844), (1024, 768), (1920, 1080)], ids=["phone", "tablet", "projector"]
)
def test_nothing_hangs_over_the_side(opened: Opened, size: tuple[int, int], scheme: str) -> None:
    page = Page(opened, size=size, color_scheme=scheme, query={"time": 12, "causal": 1})
    page.choose("polarity")
    page.app.settle()
    assert page.app.overflow() == [0, 0]
    for part in (
        ".mis-title",
        ".mis-code",
        ".mis-fix",
        ".mis-numbers",
        ".mis-maps",
        "table.mis-list",
    ):
        box = page.page.locator(part).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
    chosen = page.row("polarity").bounding_box()  # the list does not jump from under the finger
    frame = page.app.widget("mistakes_list").bounding_box()
    assert chosen is not None
    assert frame is not None
    assert frame["y"] <= chosen["y"] <= frame["y"] + frame["height"]
