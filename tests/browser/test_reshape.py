"""The reshape playground in a browser: type, err, repair, play, follow, share, take files home."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Locator, expect

from mha_core.reshape import Run, plan_chain, plan_pattern, run
from mha_core.reshape.presets import PRESETS
from tests.browser.conftest import Opened
from tests.browser.driver import TIMEOUT, App
from tests.browser.flow import Flow

pytestmark = pytest.mark.browser


# Drawn again for the width it has: nothing of the flow is beyond its box.
_FITS = """
() => [document.querySelector(".flow-root .plot")].every(p => p.scrollWidth - p.clientWidth <= 1)
"""


class Playground:
    """The page, reached as a person reaches it: by its name in the sidebar."""

    def __init__(self, opened: Opened, **how: Any) -> None:
        self.app: App = opened(ready=False, **how)
        self.page = self.app.page
        self.app.go("Reshape playground")
        expect(self.steps).to_be_visible()
        expect(self.page.locator(".st-key-flow_chart .main-svg").first).to_be_attached()
        self.app.settle()
        self.flow = Flow(self.page)

    @property
    def steps(self) -> Locator:
        return self.page.locator("table.shapes.rp")

    @property
    def fault(self) -> Locator:
        """The part of what was typed that is marked."""
        return self.page.locator(".rp-error mark")

    @property
    def refusal(self) -> Locator:
        return self.page.locator(".rp-error")

    def field(self, name: str) -> Locator:
        return self.app.widget(f"rp_{name}").locator("input, textarea").first

    def enter(self, name: str, text: str) -> None:
        """Types over what is there; out of a text area one goes with Tab."""
        field = self.field(name)
        field.click()
        field.press("ControlOrMeta+a")
        field.press("Delete")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Tab" if name == "chain" else "Enter")
        self.app.settle()

    def expect_run(self, made: Run) -> None:
        """The table is the library's: every shape and stride of it."""
        expect(self.steps.locator("tbody tr")).to_have_count(len(made.steps))
        for step in made.steps:
            row = self.steps.locator(f'tr[data-pick="{step.number}"]')
            expect(row.locator(".op")).to_have_text(step.code)
            expect(row.locator("td.strides")).to_have_text(str(step.strides))
            expect(row.locator(".chip")).to_contain_text(step.storage)


def preset(name: str) -> Run:
    known = PRESETS[name]
    return run(plan_pattern(known.pattern, known.shape, known.axes))


def test_a_pattern_is_typed_mistaken_mended_and_plays(opened: Opened) -> None:
    page = Playground(opened)
    page.expect_run(preset("split heads"))
    page.enter("pattern", "b t (h d -> h b t d")
    expect(page.fault).to_have_text("(")
    expect(page.refusal).to_contain_text("pattern, character 5")
    page.expect_run(preset("split heads"))  # the last view stays
    page.page.get_by_role("button", name="Use b t (h d) -> h b t d").click()
    expect(page.refusal).to_have_count(0)
    made = run(plan_pattern("b t (h d) -> h b t d", "2, 6, 32", "h=4"))
    page.expect_run(made)
    expect(page.flow.title).to_have_text("2 · permute(2, 0, 1, 3)")

    page.flow.watch()
    page.flow.button("◀ step").click()
    back = page.flow.motion()
    expect(page.flow.title).to_have_text("1 · view(2, 6, 4, 8)")
    assert len(back.glided()) > len(back.moved()) / 2 > 50
    page.flow.stop("x").click()
    expect(page.flow.at).to_have_text("x")


def test_torch_refuses_a_view_live_and_contiguous_mends_it(opened: Opened) -> None:
    page = Playground(opened)
    page.app.segment("rp_preset", "merge heads")
    page.expect_run(preset("merge heads"))
    page.app.settle()
    page.app.segment("rp_mode", "torch steps")
    expect(page.field("chain")).to_have_value("transpose(1, 2).reshape(b, t, h*d)")
    expect(page.field("shape")).to_have_value("b, h, t, d")
    page.app.settle()
    page.enter("chain", "transpose(1, 2).view(b, t, h*d)")
    expect(page.fault).to_have_text("view(b, t, h*d)")
    expect(page.refusal).to_contain_text("h must step 8 × 1 = 8 elements")
    page.page.get_by_role("button", name=re.compile(r"^Use .*contiguous")).click()
    expect(page.refusal).to_have_count(0)
    page.expect_run(run(plan_chain("transpose(1, 2).contiguous().view(2, 6, 32)", "2, 4, 6, 8")))
    expect(page.steps.locator('tr[data-pick="2"] .chip')).to_have_text("copy 1.5 KiB")
    expect(page.page.locator(".rp-agrees")).to_contain_text("same as einops.rearrange ✓")


def test_a_step_and_an_element_are_chosen(opened: Opened) -> None:
    page = Playground(opened)
    page.app.segment("rp_preset", "grouped-query repeat")
    page.expect_run(preset("grouped-query repeat"))
    expect(page.flow.title).to_have_text("3 · reshape(2, 6, 5, 6)")
    rings = page.flow.chart.locator(".scatterlayer .trace").nth(2).locator(".point")
    expect(rings).to_have_count(3)  # the followed element and its copies
    page.app.fill(page.flow.element("n"), "77")
    words = page.flow.words.filter(has_text="element 77")
    expect(words).to_contain_text("= x[1, 0, 2, 5]: [1, 0, 2, 5] · offset 197 in new memory")
    page.app.settle()
    page.steps.locator('tr[data-pick="2"]').click()
    expect(page.flow.title).to_have_text("2 · expand(2, 2, 3, 5, 6)")
    expect(page.page.locator(".lesson")).to_contain_text("Stride 0")
    page.app.settle()
    page.flow.points().first.scroll_into_view_if_needed()
    page.flow.rest()
    box = page.flow.points().first.bounding_box()
    assert box is not None
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    expect(page.flow.chart.locator(".hovertext")).to_contain_text("[0, 0, 0, 0, 0] = element 0")
    page.page.mouse.down()
    page.page.mouse.up()
    expect(page.flow.element("n")).to_have_value("0")
    expect(page.flow.words.filter(has_text="element 0")).to_have_count(1)


def test_a_copied_address_opens_the_same(opened: Opened, browser: Browser) -> None:
    page = Playground(opened)
    page.app.segment("rp_preset", "image patches")
    page.expect_run(preset("image patches"))
    page.app.settle()
    page.app.fill(page.flow.element("n"), "50")
    expect(page.flow.words.filter(has_text="element 50")).to_have_count(1)
    page.app.settle()
    address = page.page.url
    assert urlencode({"pattern": PRESETS["image patches"].pattern}) in address
    # Unwatched: Streamlit itself asks for its health below the page's name first, and is told 404.
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        other = context.new_page()
        other.goto(address)
        expect(other.locator("table.shapes.rp")).to_contain_text("permute(0, 2, 4, 3, 5, 1)")
        flow = Flow(other)
        expect(flow.words.filter(has_text="element 50")).to_have_count(1)
        assert other.locator("table.shapes.rp").inner_text() == page.steps.inner_text()
    finally:
        context.close()


def test_files_are_what_ran(opened: Opened, tmp_path: Path) -> None:
    page = Playground(opened)
    page.app.expand("rp_export")
    files = {}
    for label in ("Steps, CSV", "Flow, HTML", "Code, Python"):
        button = page.page.get_by_role("button", name=label)
        expect(button).to_be_visible()
        page.app.settle()
        with page.page.expect_download() as waiting:
            button.click()
        download = waiting.value
        files[label] = tmp_path / download.suggested_filename
        download.save_as(files[label])
    assert files["Steps, CSV"].name == "reshape_2x6x32_to_2x4x6x8.csv"
    rows = list(csv.DictReader(files["Steps, CSV"].open(encoding="utf-8")))
    assert [row["strides"] for row in rows] == [str(s.strides) for s in preset("split heads").steps]
    subprocess.run([sys.executable, files["Code, Python"]], check=True)
    context = page.page.context
    html = context.new_page()
    said: list[str] = []
    html.on("pageerror", lambda error: said.append(str(error)))
    html.on("request", lambda request: said.append(request.url)
            if request.url.startswith("http") else None)  # fmt: skip
    html.goto(files["Flow, HTML"].as_uri())
    title = html.locator("#flow .textpoint text").first
    expect(title).to_have_text("0 · x")
    html.get_by_text("step ▶").click()
    expect(title).to_have_text("1 · view(2, 6, 4, 8)")
    assert said == []
    html.close()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024), (1920, 1080)])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_screen(opened: Opened, width: int, height: int, scheme: str) -> None:
    page = Playground(opened, color_scheme=scheme)
    page.app.segment("rp_preset", "image patches")
    page.expect_run(preset("image patches"))
    page.page.set_viewport_size({"width": width, "height": height})
    page.app.settle()
    expect(page.flow.points().first).to_be_attached()
    page.page.wait_for_function(_FITS, timeout=TIMEOUT)
    assert all(over <= 1 for over in page.app.overflow())


def test_the_home_page_is_as_it_was_after_a_visit(opened: Opened) -> None:
    page = Playground(opened)
    page.page.get_by_test_id("stSidebarNav").get_by_role("link").first.click()
    expect(page.flow.stop("scores")).to_be_visible()
    expect(page.flow.element("t")).to_have_value("3")
    page.app.settle()
    page.app.fill(page.flow.element("t"), "2")
    expect(page.flow.words.filter(has_text="element (b 0, t 2, c 21)")).to_have_count(1)
