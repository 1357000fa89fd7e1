"""Pin a run, change one thing, and see both."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from mha_core import MHAConfig, trace_forward
from mha_core.figures.text import number
from tests.browser.driver import App

pytestmark = pytest.mark.browser


def test_a_pinned_run_stands_beside_the_one_in_view(app: App) -> None:
    app.widget("pin").get_by_role("button").first.click()
    expect(app.page.get_by_text("A and B are the same run")).to_be_visible()
    app.toggle("w_causal")
    changed = app.page.locator(".stats.pair").first
    expect(changed.locator("tr").nth(1).locator("td")).to_have_text(["causal", "False", "True"])
    maps = app.page.locator(".triple .map .pic")
    expect(maps).to_have_count(3)
    a, b = (
        trace_forward(MHAConfig(causal=causal), profile=False).weights[0, 0]
        for causal in (False, True)
    )
    largest = number(float((b - a).abs().max()), 3)
    expect(app.page.locator(".triple")).to_contain_text(f"B − A, largest {largest}")
    expect(app.page.locator(".proofs")).to_have_count(3)
    app.widget("unpin").get_by_role("button").first.click()
    expect(app.page.locator(".triple")).to_have_count(0)
    expect(app.widget("pin")).to_be_visible()
