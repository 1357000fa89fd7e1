"""The shape table: a row chosen by mouse or keyboard brings its lesson, and the flow with it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from mha_core import MHAConfig, trace_forward
from mha_core.figures.text import number
from mha_core.steps import STEPS
from tests.browser.driver import App
from tests.browser.flow import Flow

pytestmark = pytest.mark.browser


def expect_lesson(app: App, step: str, title: str) -> None:
    """The lesson of a step, its code, its real values, and the flow at its scene."""
    expect(app.lesson).to_contain_text(STEPS[step].lesson)
    expect(app.lesson.locator("code")).to_have_text(STEPS[step].code)
    expect(app.row(step)).to_have_attribute("aria-selected", "true")
    expect(app.page.locator('table.shapes tr[aria-selected="true"]')).to_have_count(1)
    tensor = trace_forward(MHAConfig(), profile=False).tensor(step)
    corner = tensor[(0,) * (tensor.dim() - 2)][:6, :8].flatten()
    expect(app.page.locator("table.values td")).to_have_text(
        [number(float(value), 3) for value in corner]
    )
    expect(Flow(app.page).title).to_have_text(title)


def test_a_row_is_chosen_by_mouse_and_by_keyboard(app: App) -> None:
    app.row("scores").click()
    expect_lesson(app, "scores", "4 · Q @ Kᵀ")
    # The focus stays in the table, on the row that was chosen.
    app.page.keyboard.press("Tab")
    app.page.keyboard.press("Enter")
    expect_lesson(app, "softmax", "5 · softmax(-1)")
    for _ in range(3):
        app.page.keyboard.press("ArrowDown")
    app.page.keyboard.press("Space")
    expect_lesson(app, "merge", "8 · contiguous().view(batch, time, d_model)")


def test_every_step_shows_its_memory_and_its_operators(app: App) -> None:
    app.toggle("w_detail")
    trace = trace_forward(MHAConfig())
    rows = app.page.locator("table.shapes.detail tbody tr")
    expect(rows).to_have_count(len(trace.steps))
    for step in trace.steps:
        row = app.row(step.id)
        expect(row).to_contain_text(str(step.strides))
        expect(row.locator(".ops")).to_have_text(
            ", ".join(operator.name.removeprefix("aten.") for operator in step.operators)
        )
    expect(app.row("merge").locator(".chip")).to_have_text("copy 1.5 KiB")
    expect(app.row("transpose_k").locator(".chip")).to_have_text("view")
