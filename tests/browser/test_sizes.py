"""The four sizes: by mouse, by keyboard, typed; what cannot run is refused and repaired."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from mha_core import MHAConfig, trace_forward
from mha_core.steps import NINE
from tests.browser.conftest import Opened
from tests.browser.driver import App

pytestmark = pytest.mark.browser


def expect_run(app: App, **sizes: int) -> None:
    """The glance and every row of the table show the shapes of these sizes."""
    config = MHAConfig(**sizes)
    batch, time, heads, d_k = config.batch, config.time, config.heads, config.d_k
    expect(app.glance).to_contain_text(f"({batch}, {time}, {heads}, {d_k})")
    expect(app.glance).to_contain_text(f"({batch}, {heads}, {time}, {d_k})")
    shapes = trace_forward(config, profile=False).table()["output shape"]
    for step, shape in zip(NINE, shapes, strict=True):
        expect(app.shape(step)).to_have_text(shape)


# From 2, 6, 32 and 4 to the next stop each; all differ on the way, so that no swap can hide.
STEPS = (("batch", 3), ("time", 8), ("d_model", 48), ("heads", 6))


def test_dragging_each_slider_reshapes(app: App) -> None:
    sizes = {"batch": 2, "time": 6, "d_model": 32, "heads": 4}
    for name, value in STEPS:
        app.drag(name, 1)
        sizes[name] = value
        expect(app.exact(name)).to_have_value(str(value))
        expect_run(app, **sizes)


def test_the_arrow_keys_move_each_slider(app: App) -> None:
    sizes = {"batch": 2, "time": 6, "d_model": 32, "heads": 4}
    for name, value in STEPS:
        app.thumb(name).focus()
        app.page.keyboard.press("ArrowRight")
        sizes[name] = value
        expect_run(app, **sizes)
    app.page.keyboard.press("ArrowLeft")
    expect_run(app, **sizes | {"heads": 4})


def test_sizes_can_be_typed_exactly(app: App) -> None:
    app.enter("time", 7)
    expect_run(app, batch=2, time=7, d_model=32, heads=4)
    expect(app.thumb("time")).to_have_attribute("aria-valuetext", "7")
    app.enter("batch", 5)
    expect_run(app, batch=5, time=7, d_model=32, heads=4)
    app.enter("heads", 0)  # refused by the field
    app.enter("d_model", 36)
    expect_run(app, batch=5, time=7, d_model=36, heads=4)
    expect(app.page).to_have_url(re.compile(r"/\?batch=5&time=7&d_model=36&heads=4$"))


def test_what_does_not_divide_is_refused_beside_its_control(app: App) -> None:
    before = app.table()
    app.enter("d_model", 65)
    expect(app.errors).to_have_count(1)
    expect(app.errors).to_contain_text("d_model=65")
    expect(app.errors).to_contain_text("heads=4")
    places = [
        part.bounding_box() for part in (app.widget("w_d_model"), app.errors, app.widget("w_heads"))
    ]
    tops = [place["y"] for place in places if place is not None]
    assert len(tops) == 3
    assert tops == sorted(tops)
    assert app.table() == before
    expect(app.page.get_by_text("The last view that ran is shown")).to_be_visible()
    expect(app.glance).to_contain_text("(2, 4, 6, 8)")


def test_one_click_repairs_it(app: App) -> None:
    app.enter("d_model", 65)
    app.page.get_by_role("button", name="Set d_model 64").click()
    expect_run(app, batch=2, time=6, d_model=64, heads=4)
    expect(app.errors).to_have_count(0)
    expect(app.exact("d_model")).to_have_value("64")
    app.enter("d_model", 65)
    app.page.get_by_role("button", name="Set heads 5").click()
    expect_run(app, batch=2, time=6, d_model=65, heads=5)
    expect(app.errors).to_have_count(0)


def test_a_run_too_large_for_the_memory_is_refused_with_the_largest_time(opened: Opened) -> None:
    app = opened(
        query={"batch": 64, "d_model": 64, "heads": 64, "causal": 1, "dropout": 0.1}
        | {"dtype": "float64"}
    )
    expect(app.shape("scores")).to_have_text("(64, 64, 6, 6)")
    app.enter("time", 2048)  # eight maps of 128 GiB each
    expect(app.errors).to_contain_text("over the limit of")
    expect(app.errors).to_contain_text("The largest time that fits is")
    expect(app.shape("scores")).to_have_text("(64, 64, 6, 6)")
