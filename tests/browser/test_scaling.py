"""The scaling page in a browser: axes, a measurement and its end, points told, files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Locator, expect

from mha_core import MHAConfig, cost
from mha_core.scaling import sizes
from tests.browser.conftest import Opened
from tests.browser.driver import App

pytestmark = pytest.mark.browser


class Scaling:
    """The page, reached as a person reaches it: by its name in the sidebar."""

    def __init__(self, opened: Opened, *, size: tuple[int, int] = (1440, 900), **how: Any) -> None:
        self.app: App = opened(ready=False, viewport={"width": 1440, "height": 900}, **how)
        self.page = self.app.page
        self.app.go("Scaling")
        expect(self.costs.locator(".main-svg").first).to_be_attached()
        if size != (1440, 900):
            self.page.set_viewport_size({"width": size[0], "height": size[1]})
        expect(self.page.locator(".st-key-sc_spread .main-svg").first).to_be_attached()
        self.app.settle()

    @property
    def costs(self) -> Locator:
        return self.page.locator(".st-key-sc_costs .plot-root")

    def measure(self, axis: str) -> Locator:
        return self.page.locator(f".st-key-w_measure_scaling-{axis}").get_by_role("button")

    @property
    def cancel(self) -> Locator:
        return self.page.get_by_role("button", name="Cancel")

    def alt(self) -> str:
        return self.costs.get_attribute("aria-label") or ""


def test_each_size_has_its_axis(opened: Opened) -> None:
    scaling = Scaling(opened)
    for axis, name in (("d_model", "d_model"), ("heads", "h"), ("batch", "batch")):
        scaling.app.segment("w_sc_axis", name)
        last = sizes(MHAConfig(), axis)[-1]
        expect(scaling.costs.locator(".xtitle")).to_have_text(name)
        assert f"FLOPs over {name}: projections from" in scaling.alt()
        assert f"at {last}" in scaling.alt()
        expect(scaling.measure(axis)).to_be_visible()


def test_every_step_is_a_toggle_away(opened: Opened) -> None:
    scaling = Scaling(opened, query={"causal": 1})
    legend = scaling.page.locator(".chart-legend").first
    expect(legend).not_to_contain_text("4b mask")
    scaling.app.toggle("w_sc_detail")
    expect(legend).to_contain_text("4b mask")
    expect(legend).to_contain_text("6 weights @ V")


def test_measuring_puts_points_on_the_lines(opened: Opened) -> None:
    scaling = Scaling(opened)
    scaling.app.segment("w_sc_axis", "h")
    expect(scaling.costs.get_by_text("not measured yet")).to_be_attached()
    scaling.measure("heads").click()
    said = scaling.page.locator(".fp-say").filter(has_text="Counted at 6 sizes")
    expect(said).to_contain_text("FLOPs equal to the formulas, bytes equal.")
    expect(scaling.costs.get_by_text("not measured yet")).to_have_count(0)
    expect(scaling.costs.locator(".errorbars path").first).to_be_attached()
    expect(scaling.page.get_by_test_id("stProgress")).to_have_count(0)
    expect(scaling.page.locator("body")).to_contain_text("On this machine (cpu,")
    expect(scaling.page.locator("body")).to_contain_text("in F.scaled_dot_product_attention (")


def test_a_measurement_is_cancelled_and_goes_with_the_configuration(opened: Opened) -> None:
    scaling = Scaling(opened, query={"d_model": 512, "heads": 8})
    scaling.measure("time").click()
    expect(scaling.page.get_by_test_id("stProgress")).to_be_visible()
    expect(scaling.cancel).to_be_visible()
    scaling.page.wait_for_timeout(1500)
    scaling.cancel.click()
    expect(scaling.page.get_by_test_id("stProgress")).to_have_count(0)
    body = scaling.page.locator("body")
    expect(body).to_contain_text("Broken off: what was measured until then is shown.")
    scaling.app.enter("batch", 3)
    expect(body).not_to_contain_text("Broken off")
    expect(scaling.costs.get_by_text("not measured yet")).to_be_attached()


def test_a_point_is_told_with_its_unit(opened: Opened) -> None:
    scaling = Scaling(opened)
    scaling.costs.scroll_into_view_if_needed()
    subplot = scaling.costs.locator(".subplot.xy .lines path").first
    box = subplot.bounding_box()
    assert box is not None
    scaling.page.mouse.move(box["x"] + 2, box["y"] + box["height"] - 2, steps=4)
    tip = scaling.costs.locator(".hoverlayer .hovertext")
    expect(tip).to_contain_text("time 6")
    flops = cost.flops(MHAConfig())
    assert f"{sum(flops[f'project_{n}'] for n in 'qkv') + flops['output']}" == "98304"
    expect(tip).to_contain_text("98.3 k")


def test_files_come_home(opened: Opened, tmp_path: Path) -> None:
    scaling = Scaling(opened)
    scaling.app.expand("w_scaling_time_export")
    files = {}
    for form in ("png", "csv"):
        button = scaling.app.widget(f"scaling_time_{form}").get_by_role("button")
        with scaling.page.expect_download() as waiting:
            button.click()
        name = waiting.value.suggested_filename
        assert name == f"attention_b2_t6_d32_h4_seed0_scaling_time.{form}"
        files[form] = tmp_path / name
        waiting.value.save_as(files[form])
    Image.open(files["png"]).verify()
    with files["csv"].open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["step"] == "all"]
    assert [int(row["time"]) for row in rows] == sizes(MHAConfig(), "time")
    for row in rows:
        made = MHAConfig(time=int(row["time"]))
        assert int(row["FLOPs"]) == sum(cost.flops(made).values())
        assert int(row["peak bytes"]) == cost.peak(made)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "size", [(390, 844), (1024, 768), (1920, 1080)], ids=["phone", "tablet", "projector"]
)
def test_nothing_hangs_over_the_side(opened: Opened, size: tuple[int, int], scheme: str) -> None:
    scaling = Scaling(opened, size=size, color_scheme=scheme)
    assert scaling.app.overflow() == [0, 0]
    for part in (".st-key-sc_costs .plot-root", ".st-key-sc_spread .plot-root", ".chart-legend"):
        box = scaling.page.locator(part).first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
    # No label is cut: every word of the figure lies within it.
    figure = scaling.costs.bounding_box()
    assert figure is not None
    for box in scaling.costs.locator(".main-svg text").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect()).map((b) => [b.left, b.right])"
    ):
        assert box[0] >= figure["x"] - 1
        assert box[1] <= figure["x"] + figure["width"] + 1


def test_the_step_is_one_click_away(opened: Opened) -> None:
    scaling = Scaling(opened)
    scaling.page.locator(".st-key-w_step_scale").get_by_role("button").click()
    expect(scaling.app.lesson).to_contain_text("dividing by it keeps softmax out of its flat ends")
