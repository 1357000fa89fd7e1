"""The page opens: every section is there, and nothing complains."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from mha_core import MHAConfig, trace_forward
from mha_core.steps import NINE
from tests.browser.conftest import Opened
from tests.browser.driver import App

pytestmark = pytest.mark.browser


def test_every_section_is_there(app: App) -> None:
    expect(app.glance).to_contain_text("(2, 4, 6, 8)")
    expect(app.page.locator("table.shapes tbody tr")).to_have_count(len(NINE))
    expect(app.page.locator(".st-key-flow_chart .textpoint text").first).to_be_visible()
    expect(app.page.locator(".tile")).to_have_count(4)
    expect(app.map).to_be_visible()
    expect(app.page.locator(".proofs .proof")).to_have_count(4)
    code = app.expand("w_code").get_by_test_id("stCode")
    expect(code).to_contain_text("batch, time, d_model, h = 2, 6, 32, 4")


def test_the_table_has_the_librarys_shapes(app: App) -> None:
    expected = trace_forward(MHAConfig(), profile=False).table()
    for step, row in zip(NINE, expected.itertuples(index=False), strict=True):
        _, operation, symbolic_in, symbolic_out, sizes_in, sizes_out = row
        expect(app.row(step).locator(".op")).to_have_text(operation)
        expect(app.row(step).locator(".in .sym")).to_have_text(symbolic_in)
        expect(app.row(step).locator(".in .now")).to_have_text(sizes_in)
        expect(app.row(step).locator(".out .sym")).to_have_text(symbolic_out)
        expect(app.row(step).locator(".out .now")).to_have_text(sizes_out)


def test_the_address_says_what_is_shown(app: App) -> None:
    assert app.page.url.endswith("/?batch=2&time=6&d_model=32&heads=4")


def test_an_address_that_cannot_run_says_why(opened: Opened) -> None:
    app = opened(query={"d_model": 32, "heads": 7}, ready=False)
    expect(app.errors.first).to_contain_text("d_model=32: must be a multiple of heads=7")
    expect(app.page.locator("table.shapes")).to_have_count(0)
    app.page.get_by_role("button", name="Set heads 8").click()
    expect(app.shape("transpose_q")).to_have_text("(2, 8, 6, 4)")
    expect(app.errors).to_have_count(0)
