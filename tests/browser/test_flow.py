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


def test_step_by_step_the_elements_glide_forth_and_back(app: App) -> None:
    flow = Flow(app.page)
    app.segment("w_speed", "½×")
    app.settle()
    expect(flow.title).to_have_text("3 · transpose(1, 2)")
    there = flow.places()

    flow.watch()
    flow.button("◀ step").click()
    expect(flow.title).to_have_text("2 · view(batch, time, h, d_k)")
    back = flow.motion()
    assert len(back.moved()) > len(there) / 2
    assert len(back.glided()) > len(back.moved()) / 2

    flow.watch()
    flow.button("step ▶").click()
    expect(flow.title).to_have_text("3 · transpose(1, 2)")
    forth = flow.motion()
    assert len(forth.glided()) > len(forth.moved()) / 2
    assert np.allclose(flow.places(), there, atol=0.5)


def test_play_moves_on_and_pause_holds(app: App) -> None:
    flow = Flow(app.page)
    flow.scrub("view")
    expect(flow.title).to_have_text("2 · view(batch, time, h, d_k)")
    flow.watch()
    flow.button("play").click()
    expect(flow.title).to_have_text("3 · transpose(1, 2)")
    motion = flow.motion()
    assert len(motion.glided()) > len(motion.moved()) / 2 > 0
    expect(flow.title).to_have_text("4 · Q @ Kᵀ")
    flow.button("pause").click()
    # The next scene would have come within this time, unless paused.
    held = flow.title.text_content()
    app.page.wait_for_timeout(2500)
    assert flow.title.text_content() == held
    flow.button("play").click()
    expect(flow.title).not_to_have_text(held or "")
    flow.button("pause").click()


def test_the_rail_scrubs_and_says_what_became_of_the_bytes(app: App) -> None:
    flow = Flow(app.page)
    for scene, nth, title, bytes_moved in (
        ("merge", 0, "8 · contiguous().view(batch, time, d_model)", "copied 1.5 KiB"),
        ("transpose", 1, "7 · transpose(1, 2)", "no bytes moved"),
        ("softmax", 0, "5 · softmax(-1)", "new 1.1 KiB"),
    ):
        flow.scrub(scene, nth=nth)
        expect(flow.title).to_have_text(title)
        expect(flow.words.nth(1)).to_contain_text(bytes_moved)


def test_the_element_followed_is_the_one_asked_for(app: App) -> None:
    flow = Flow(app.page)
    for key, value in (("b", 1), ("t", 2), ("c", 5)):
        app.fill(app.widget(f"w_follow_{key}").locator("input"), str(value))
    trace = trace_forward(MHAConfig(), profile=False)
    step = trace["transpose_q"]
    place = (1, 0, 2, 5)  # c 5 is column 5 of head 0
    offset = sum(i * stride for i, stride in zip(place, step.strides, strict=True))
    value = number(float(trace.tensor("transpose_q")[place]))
    said = flow.words.filter(has_text="element (b 1, t 2, c 5)")
    expect(said).to_contain_text(f"q[1, 0, 2, 5] = {value} · offset {offset} in memory")


def test_less_motion_jumps(opened: Opened) -> None:
    app = opened(reduced_motion="reduce")
    flow = Flow(app.page)
    expect(flow.title).to_have_text("3 · transpose(1, 2)")
    flow.watch()
    flow.button("◀ step").click()
    expect(flow.title).to_have_text("2 · view(batch, time, h, d_k)")
    motion = flow.motion()
    assert motion.moved()
    assert motion.glided() == []


def test_a_large_tensor_is_shown_through_a_window(opened: Opened) -> None:
    app = opened(query={"batch": 3, "time": 40, "d_model": 96, "heads": 12})
    flow = Flow(app.page)
    expect(flow.words.filter(has_text="= (3, 12, 40, 8)")).to_have_count(1)
    expect(flow.words.filter(has_text="…").first).to_be_attached()
    assert 0 < len(flow.places()) <= 1000
