"""The LibTorch page in a browser: read, build and compare, break off, take the project home."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect
from safetensors.torch import load

from mha_core import MHAConfig, trace_forward
from mha_core.libtorch import build, project
from tests.browser.conftest import Opened
from tests.browser.driver import App
from tests.libtorch.compiler import left_out

pytestmark = pytest.mark.browser


class LibTorch:
    """The page, reached as a person reaches it: by its name in the sidebar."""

    def __init__(self, opened: Opened, *, size: tuple[int, int] = (1440, 900), **how: Any) -> None:
        self.app: App = opened(ready=False, viewport={"width": size[0], "height": size[1]}, **how)
        self.page = self.app.page
        self.app.go("LibTorch")
        expect(self.step("9")).to_be_visible()
        self.app.settle()

    def step(self, number: str) -> Locator:
        return self.page.locator(f'.lt-step[data-step="{number}"]')

    @property
    def compare(self) -> Locator:
        return self.app.widget("w_measure_libtorch").get_by_role("button")


def test_the_shapes_follow_the_sidebar(opened: Opened) -> None:
    page = LibTorch(opened)
    expect(page.step("2").locator(".lt-shapes")).to_have_text("(2, 6, 32) → (2, 6, 4, 8)")
    expect(page.step("4b")).to_have_count(0)
    page.app.enter("heads", 8)
    expect(page.step("2").locator(".lt-shapes")).to_have_text("(2, 6, 32) → (2, 6, 8, 4)")
    page.app.toggle("w_causal")
    expect(page.step("4b")).to_contain_text('see("mask", filling.apply(scores, full))')


def test_built_and_compared(opened: Opened) -> None:
    if left_out():
        pytest.skip("the C++ module is left out")
    build.program()  # else this takes the minutes of a compiler
    page = LibTorch(opened)
    page.compare.click()
    verdict = page.page.locator(".lt-verdict")
    expect(verdict).to_contain_text("are equal in C++ and in Python, bit for bit")
    expect(page.page.locator(".lt-apart")).to_have_count(10)
    expect(page.step("5").locator(".lt-apart")).to_have_text("0, every bit the same")
    page.app.enter("time", 9)
    expect(verdict).to_have_count(0)


def test_the_project_comes_home(opened: Opened, tmp_path: Path) -> None:
    page = LibTorch(opened)
    with page.page.expect_download() as waiting:
        page.app.widget("lt_project").get_by_role("button").click()
    assert waiting.value.suggested_filename == "attention_b2_t6_d32_h4_seed0_libtorch_project.zip"
    waiting.value.save_as(tmp_path / "project.zip")
    with zipfile.ZipFile(tmp_path / "project.zip") as archive:
        expected = load(archive.read(f"{project.NAME}/expected.safetensors"))
        assert f"{project.NAME}/CMakeLists.txt" in archive.namelist()
    trace = trace_forward(MHAConfig(), profile=False)
    assert expected.keys() == {step.id for step in trace.steps}
    assert all(expected[step.id].equal(trace.tensor(step.id)) for step in trace.steps)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(390, 844), (1024, 768), (1920, 1080)], ids=str)
def test_nothing_hangs_over_the_side(opened: Opened, size: tuple[int, int], scheme: str) -> None:
    page = LibTorch(opened, size=size, color_scheme=scheme)
    assert page.app.overflow() == [0, 0]
    for code in page.page.locator("pre.lt-code").all()[:12]:
        box = code.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
    assert re.search("C\\+\\+", page.step("1").inner_text())
