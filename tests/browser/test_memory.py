"""The memory page: choose a step, follow an element, walk, read torch's error, take files home."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import expect

from mha_core import MHAConfig, memory, trace_forward
from mha_core.figures.text import number
from mha_core.window import Element
from tests.browser.conftest import Opened
from tests.browser.memory_page import Memory

pytestmark = pytest.mark.browser


def expect_element(page: Memory, step: str, element: Element, key: int = 0) -> None:
    """The table and the line below the figure say where the element really is."""
    trace = trace_forward(MHAConfig(), clock=False)
    stops = {stop.step.id: stop for stop in memory.journey(trace, element, key)}
    stop = stops[step]
    index = ", ".join(map(str, stop.place.index))
    expect(page.say).to_have_text(
        f"{memory.tensor_name(step)}[{index}] = {number(stop.value)} · offset "
        f"{stop.place.offset:,} · byte {stop.place.byte:,} of its storage"
    )
    for name in ("project_q", "transpose_q", "softmax", "transpose_back", "merge"):
        cells = page.row(name).locator("td")
        expect(cells.nth(6)).to_have_text(str(list(stops[name].place.index)))
        expect(cells.nth(7)).to_have_text(f"{stops[name].place.offset:,}")


def test_a_step_is_chosen_and_an_element_is_typed_or_clicked(opened: Opened) -> None:
    page = Memory(opened)
    expect(page.title).to_have_text("3 · transpose(1, 2)")
    expect_element(page, "transpose_q", Element(0, 3, 21))
    for axis, value in (("b", 1), ("t", 2), ("c", 9)):
        page.app.fill(page.element(axis), str(value))
    expect_element(page, "transpose_q", Element(1, 2, 9))
    expect(page.element("key")).to_be_hidden()

    # One cell further right in the storage is one column further.
    (_, _), (x, y) = page.chosen()
    first, _ = page.chosen()
    page.app.fill(page.element("c"), "10")
    expect_element(page, "transpose_q", Element(1, 2, 10))
    step = page.chosen()[1][0] - x
    assert step > 4
    page.page.mouse.click(*page.point((x + 3 * step, y)))
    expect_element(page, "transpose_q", Element(1, 2, 12))
    page.page.mouse.click(*page.point(first))
    expect_element(page, "transpose_q", Element(1, 2, 9))

    page.choose("scores")
    expect(page.title).to_have_text("4 · Q @ Kᵀ")
    expect_element(page, "scores", Element(1, 2, 9))
    page.app.fill(page.element("key"), "4")
    expect_element(page, "scores", Element(1, 2, 9), 4)
    expect(page.page.locator(".mem-below")).to_contain_text("is copied, 1.5 KiB")
    for operator in trace_forward(MHAConfig(), clock=False)["scores"].operators:
        expect(page.page.locator(".mem-below").get_by_text(operator.name).first).to_be_visible()


def test_the_letters_and_the_keyboard_choose_too(opened: Opened) -> None:
    page = Memory(opened)
    page.row("split_q").locator('[data-pick="split_v"]').click()
    expect(page.page.locator(".mem-below")).to_contain_text("split_v has the storage of project_v")
    expect(page.row("split_v")).to_have_attribute("aria-selected", "true")
    page.row("softmax").focus()
    page.page.keyboard.press("Enter")
    expect(page.title).to_have_text("5 · softmax(-1)")
    page.page.keyboard.press("ArrowDown")
    page.page.keyboard.press("Space")
    expect(page.title).to_have_text("6 · weights @ V")


def test_the_walk_steps_plays_and_holds(opened: Opened) -> None:
    page = Memory(opened)
    tensor = trace_forward(MHAConfig(), clock=False).tensor("transpose_q")
    assert page.walk() is None
    seen = []
    for n in range(10):
        page.button("step ▶").click()
        expect(page.say).to_contain_text(f"{n + 1} of 384: ")
        index, offset = page.said_place()
        assert memory.place_at(tensor, tuple(index)).offset == offset
        seen.append(offset)
    assert seen == [0, 1, 2, 3, 4, 5, 6, 7, 32, 33]  # a head's row of 8, then the next position
    expect(page.say).to_contain_text("+1, the next in memory")
    page.button("◀ step").click()
    expect(page.say).to_contain_text("offset 32 · +25, a jump")
    found = page.walk()
    assert found is not None
    assert found[1] == 2 * 9

    page.button("4×").click()
    page.button("▶ walk").click()
    page.walked(15)
    page.button("❚❚ pause").click()
    held = page.say.inner_text()
    page.page.wait_for_timeout(600)
    assert page.say.inner_text() == held
    page.choose("merge")  # another step: the walk begins anew
    expect(page.say).to_contain_text("out[0, 3, 21] = ")
    assert page.walk() is None


def test_pointing_at_a_cell_says_where_it_lies(opened: Opened) -> None:
    page = Memory(opened)
    space, storage = page.chosen()
    for place in (space, storage):
        page.page.mouse.move(*page.point(place), steps=2)
        expect(page.say).to_have_text("[0, 2, 3, 5] lies at offset 117")
    frames = page.walk()
    assert frames is not None
    page.page.mouse.move(5, 5)
    expect(page.say).to_contain_text("q[0, 2, 3, 5] = ")
    assert page.walk() is None


def test_less_motion_jumps(opened: Opened) -> None:
    page = Memory(opened, reduced_motion="reduce")
    page.button("step ▶").click()
    moving = "r => getComputedStyle(r).transitionDuration"
    assert page.page.locator(".mem-svg .walk rect").first.evaluate(moving) == "0s"
    page.page.emulate_media(reduced_motion="no-preference")
    assert page.page.locator(".mem-svg .walk rect").first.evaluate(moving) != "0s"


def test_torchs_error_and_the_way_to_the_pipeline(opened: Opened) -> None:
    page = Memory(opened)
    error = memory.calls(trace_forward(MHAConfig(), clock=False))[-1].error
    expect(page.page.locator(".mem-error .words")).to_have_text(f"RuntimeError: {error}")
    expect(page.page.locator(".mem-error p")).to_contain_text("stride(h) is 48")
    page.app.enter("heads", 1)
    expect(page.page.locator(".mem-error .words")).to_contain_text("no error")
    page.app.enter("heads", 4)
    expect(page.page.locator(".mem-error .words")).to_contain_text("RuntimeError")
    page.choose("weighted_values")
    link = page.page.get_by_test_id("stPageLink").get_by_role("link")
    expect(link).to_contain_text("Step 6, weights @ V, in the pipeline")
    link.click()
    expect(page.app.row("weighted_values")).to_have_attribute("aria-selected", "true")


def test_files_are_taken_home(opened: Opened, tmp_path: Path) -> None:
    page = Memory(opened)
    page.choose("merge")
    expect(page.title).to_have_text("8 · contiguous().view(batch, time, d_model)")
    page.app.expand("w_memory_export")
    files = {}
    for suffix in ("csv", "md", "svg", "png"):
        button = page.app.widget(f"memory_{suffix}").get_by_role("button")
        with page.page.expect_download() as waiting:
            button.click()
        files[suffix] = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(files[suffix])
    trace = trace_forward(MHAConfig(), clock=False)
    rows = list(csv.DictReader(files["csv"].read_text(encoding="utf-8").splitlines()))
    assert [row["strides"] for row in rows] == [str(step.strides) for step in trace.steps]
    assert [int(row["copied"]) for row in rows] == [step.copied for step in trace.steps]
    assert "(192, 8, 48, 1)" in files["md"].read_text(encoding="utf-8")
    drawing = ET.fromstring(files["svg"].read_text(encoding="utf-8"))
    assert "index [0, 3, 21]" in str(drawing.get("aria-label")).replace("(", "[").replace(")", "]")
    assert files["svg"].name == "attention_b2_t6_d32_h4_seed0_memory_merge.svg"
    with Image.open(files["png"]) as image:
        colours = image.convert("RGB").getcolors(maxcolors=2**24)
    assert colours is not None
    assert len(colours) > 20


@pytest.mark.parametrize(
    "size", [(390, 844), (1024, 768), (1920, 1080)], ids=["phone", "tablet", "projector"]
)
def test_nothing_hangs_over_the_side(opened: Opened, size: tuple[int, int]) -> None:
    page = Memory(opened, size=size, query={"batch": 3, "time": 40, "d_model": 96, "heads": 12})
    assert page.app.overflow() == [0, 0]
    box = page.svg.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size[0]
