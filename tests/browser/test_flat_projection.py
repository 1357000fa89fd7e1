"""The flat projection page in a browser: choose a head, measure, cancel, take files home."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from mha_core import MHAConfig
from mha_core.inputs import build_module
from mha_core.palette import DARK, LIGHT, rgb
from tests.browser.conftest import Opened
from tests.browser.driver import App, picture

pytestmark = pytest.mark.browser


class Flat:
    """The page, reached as a person reaches it: by its name in the sidebar."""

    def __init__(self, opened: Opened, *, size: tuple[int, int] = (1440, 900), **how: Any) -> None:
        self.app: App = opened(ready=False, viewport={"width": 1440, "height": 900}, **how)
        self.page = self.app.page
        self.app.go("Flat projection")
        expect(self.page.locator(".fp-facts")).to_be_visible()
        if size != (1440, 900):
            self.page.set_viewport_size({"width": size[0], "height": size[1]})
        expect(self.page.locator(".st-key-fp_chart .main-svg").first).to_be_attached()
        self.app.settle()

    @property
    def lesson(self) -> Locator:
        return self.page.locator(".fp-lesson")

    def strip(self, figure: int, head: int) -> Locator:
        """One head in one of the pictures: 0 flat, 1 as kept, 2 cut, 3 to 5 fused q, k, v."""
        return self.page.locator(".fp-strips").nth(figure).locator(f'[data-pick="{head}"]')

    @property
    def measure(self) -> Locator:
        return self.app.widget("w_measure_projections").get_by_role("button")

    @property
    def cancel(self) -> Locator:
        return self.app.widget("w_cancel_projections").get_by_role("button")

    @property
    def said(self) -> Locator:
        return self.page.locator(".fp-say")


def test_a_head_is_chosen_with_mouse_and_keys(opened: Opened) -> None:
    flat = Flat(opened)
    expect(flat.lesson).to_contain_text("Head 0 owns columns 0 to 7 of W_q")
    flat.strip(0, 2).click()
    expect(flat.lesson).to_contain_text("Head 2 owns columns 16 to 23 of W_q")
    for figure in range(6):
        expect(flat.strip(figure, 2)).to_have_attribute("aria-pressed", "true")
        expect(flat.strip(figure, 0)).to_have_attribute("aria-pressed", "false")
    flat.strip(1, 2).focus()
    flat.page.keyboard.press("ArrowDown")
    flat.page.keyboard.press("Enter")
    expect(flat.lesson).to_contain_text("Head 3 owns columns 24 to 31 of W_q")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_columns_are_where_the_weights_are(opened: Opened, scheme: str) -> None:
    flat = Flat(opened, color_scheme=scheme)
    colours = DARK if scheme == "dark" else LIGHT
    weight = build_module(MHAConfig()).W_q.weight.detach().abs().numpy()
    share = np.sqrt(weight / weight.max())
    for head in range(4):
        image = flat.strip(0, head).locator("img").get_attribute("src")
        assert image is not None
        pixels = np.asarray(picture(image))[..., :3].astype(float)
        ground, full = (np.array(rgb(c), float) for c in (colours.background, colours.head(head)))
        columns = share[8 * head : 8 * head + 8].T  # (in, d_k)
        expected = ground + columns[..., None] * (full - ground)
        assert np.abs(pixels - expected).max() <= 0.51


def test_strips_stand_in_order_and_columns_are_columns(opened: Opened) -> None:
    flat = Flat(opened)
    for figure, along in ((0, "x"), (1, "y"), (2, "x")):
        boxes = [flat.strip(figure, head).bounding_box() for head in range(4)]
        assert all(box is not None for box in boxes)
        places = [box[along] for box in boxes if box]
        assert places == sorted(places)
        assert len(set(places)) == 4
        other = "y" if along == "x" else "x"
        assert len({round(box[other]) for box in boxes if box}) == 1


def test_measuring_shows_progress_and_then_the_times(opened: Opened) -> None:
    flat = Flat(opened)
    expect(flat.said.last).to_contain_text("Neither always wins")
    flat.measure.click()
    expect(flat.said.last).to_contain_text("At h = 4, one flat matrix each took")
    expect(flat.said.last).to_contain_text("one fused QKV matrix")
    expect(flat.measure).to_contain_text("Measure, about 8 s again")
    expect(flat.cancel).to_have_count(0)
    chart = flat.page.locator(".st-key-fp_chart .plot-root")
    label = chart.get_attribute("aria-label") or ""
    assert "h matrices each, stacked from" in label
    assert chart.locator(".scatterlayer .trace").count() == 4
    expect(chart.locator(".errorbars path").first).to_be_attached()


def test_a_measurement_can_be_cancelled(opened: Opened) -> None:
    flat = Flat(opened, query={"d_model": 512, "heads": 8, "time": 256})
    flat.measure.click()
    expect(flat.page.get_by_test_id("stProgress")).to_be_visible()
    expect(flat.page.get_by_text("h = 2", exact=True)).to_be_visible()
    flat.cancel.click()
    expect(flat.page.get_by_test_id("stProgress")).to_have_count(0)
    expect(flat.said.last).to_contain_text("Broken off")
    expect(flat.cancel).to_have_count(0)


def test_files_come_home(opened: Opened, tmp_path: Path) -> None:
    flat = Flat(opened)
    flat.app.expand("w_projections_export")
    files = {}
    for form in ("png", "svg", "csv"):
        button = flat.app.widget(f"projections_{form}").get_by_role("button")
        with flat.page.expect_download() as waiting:
            button.click()
        name = waiting.value.suggested_filename
        assert name == f"attention_b2_t6_d32_h4_seed0_projections.{form}"
        files[form] = tmp_path / name
        waiting.value.save_as(files[form])
    Image.open(files["png"]).verify()
    assert "not measured yet" in "".join(ET.parse(files["svg"]).getroot().itertext())
    with files["csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kernels"] for row in rows] == ["3", "15", "12", "1"]
    assert all(float(row["largest difference in float64"]) < 1e-12 for row in rows)


@pytest.mark.parametrize(
    "size", [(390, 844), (1024, 768), (1920, 1080)], ids=["phone", "tablet", "projector"]
)
def test_nothing_hangs_over_the_side(opened: Opened, size: tuple[int, int]) -> None:
    flat = Flat(opened, size=size, query={"d_model": 128, "heads": 64})
    assert flat.app.overflow() == [0, 0]
    for part in (".fp-figures", ".fp-three", ".fp-lesson", ".plot-root"):
        box = flat.page.locator(part).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
    for figure in range(6):  # every head has a width, however many there are
        box = flat.strip(figure, 40).bounding_box()
        assert box is not None
        assert min(box["width"], box["height"]) > 0.5


def test_the_step_is_one_click_away(opened: Opened) -> None:
    flat = Flat(opened)
    flat.app.widget("w_step_project_q").get_by_role("button").click()
    expect(flat.app.lesson).to_contain_text("One flat (d_model, d_model) matrix")
