"""The flow plays: elements glide from scene to scene, stop when told, and can be followed."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from mha_core import MHAConfig, trace_forward
from mha_core.figures.text import number
from tests.browser.conftest import Opened
from tests.browser.driver import App
from tests.browser.flow import Flow

pytestmark = pytest.mark.browser

VIEW = "2 · view(batch, time, h, d_k)"
TRANSPOSE = "3 · transpose(1, 2)"
SCORES = "4 · Q @ Kᵀ"


def test_step_by_step_the_elements_glide_forth_and_back(app: App) -> None:
    flow = Flow(app.page)
    flow.button("½×").click()
    expect(flow.title).to_have_text(TRANSPOSE)
    expect(flow.at).to_have_attribute("data-scene", "transpose_q")
    flow.rest()
    there = flow.places()

    flow.watch()
    flow.button("◀ step").click()
    back = flow.motion()
    expect(flow.title).to_have_text(VIEW)
    expect(flow.at).to_have_attribute("data-scene", "split_q")
    assert len(back.moved()) > len(there) / 2
    assert len(back.glided()) > len(back.moved()) / 2

    flow.watch()
    flow.button("step ▶").click()
    forth = flow.motion()
    expect(flow.title).to_have_text(TRANSPOSE)
    assert len(forth.glided()) > len(forth.moved()) / 2
    assert np.allclose(flow.places(), there, atol=0.5)


def test_play_moves_on_and_pause_holds(app: App) -> None:
    flow = Flow(app.page)
    flow.stop("split_q").click()
    expect(flow.title).to_have_text(VIEW)
    flow.watch()
    flow.button("▶ play").click()
    motion = flow.motion()
    assert len(motion.glided()) > len(motion.moved()) / 2 > 0
    expect(flow.title).to_have_text(SCORES)  # the scene after the one it glided into
    flow.button("❚❚ pause").click()
    # The next scene would have come within this time, unless paused.
    held = flow.title.text_content()
    app.page.wait_for_timeout(2500)
    assert flow.title.text_content() == held
    flow.button("2×").click()
    flow.button("▶ play").click()
    expect(flow.title).to_have_text("9 · W_o(out)")
    expect(flow.button("▶ play")).to_be_visible()  # it ends there


def test_the_rail_scrubs_and_says_what_became_of_the_bytes(app: App) -> None:
    flow = Flow(app.page)
    for scene, title, bytes_moved in (
        ("merge", "8 · contiguous().view(batch, time, d_model)", "copied 1.5 KiB"),
        ("transpose_back", "7 · transpose(1, 2)", "no bytes moved"),
        ("softmax", "5 · softmax(-1)", "new 1.1 KiB"),
    ):
        flow.stop(scene).click()
        expect(flow.title).to_have_text(title)
        expect(flow.words.nth(1)).to_contain_text(bytes_moved)
        expect(flow.at).to_have_attribute("data-scene", scene)
    app.page.keyboard.press("ArrowLeft")
    expect(flow.title).to_have_text(SCORES)
    app.page.keyboard.press("ArrowRight")
    expect(flow.title).to_have_text("5 · softmax(-1)")


def test_dragging_along_the_rail_scrubs(app: App) -> None:
    flow = Flow(app.page)
    start, end = flow.stop("project_q"), flow.stop("scores")
    start.hover()
    app.page.mouse.down()
    end.hover()
    expect(flow.title).to_have_text(SCORES)
    app.page.mouse.up()
    expect(flow.at).to_have_attribute("data-scene", "scores")


def expect_followed(flow: Flow, b: int, t: int, c: int) -> None:
    """The words below the scene say where the element is, and its value."""
    trace = trace_forward(MHAConfig(), profile=False)
    head, j = divmod(c, MHAConfig().d_k)
    place = (b, head, t, j)
    strides = trace["transpose_q"].strides
    offset = sum(i * stride for i, stride in zip(place, strides, strict=True))
    value = number(float(trace.tensor("transpose_q")[place]))
    said = flow.words.filter(has_text=f"element (b {b}, t {t}, c {c})")
    expect(said).to_contain_text(f"q[{b}, {head}, {t}, {j}] = {value} · offset {offset} in memory")


def test_the_element_followed_is_the_one_typed_or_clicked(app: App) -> None:
    flow = Flow(app.page)
    expect_followed(flow, 0, 3, 21)
    for axis, value in (("b", 1), ("t", 2), ("c", 5)):
        app.fill(flow.element(axis), str(value))
    expect_followed(flow, 1, 2, 5)
    app.fill(flow.element("c"), "500")  # the last there is
    expect_followed(flow, 1, 2, 31)
    expect(flow.element("c")).to_have_value("31")
    flow.points().first.scroll_into_view_if_needed()
    flow.rest()
    box = flow.points().nth(1).bounding_box()
    assert box is not None
    app.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=3)
    expect(flow.chart.locator(".hovertext")).to_contain_text("q[0, 0, 0, 1] = ")
    app.page.mouse.down()
    app.page.mouse.up()
    expect_followed(flow, 0, 0, 1)
    expect(flow.element("c")).to_have_value("1")


def test_less_motion_jumps(opened: Opened) -> None:
    app = opened(reduced_motion="reduce")
    flow = Flow(app.page)
    expect(flow.title).to_have_text(TRANSPOSE)
    flow.watch()
    flow.button("◀ step").click()
    motion = flow.motion()
    expect(flow.title).to_have_text(VIEW)
    assert motion.moved()
    assert motion.glided() == []


def test_a_large_tensor_is_shown_through_a_window(opened: Opened) -> None:
    app = opened(query={"batch": 3, "time": 40, "d_model": 96, "heads": 12})
    flow = Flow(app.page)
    expect(flow.words.filter(has_text="= (3, 12, 40, 8)")).to_have_count(1)
    expect(flow.words.filter(has_text="…").first).to_be_attached()
    assert 0 < flow.points().count() <= 1000
