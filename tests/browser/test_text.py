"""A text of one's own: its words label the axes exactly as typed."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from mha_core import MHAConfig, trace_forward
from mha_core.inputs import text_input
from tests.browser.driver import App, number_after

pytestmark = pytest.mark.browser

# Repeated, number-like, date-like, markup-like, Markdown-like, an entity, an emoji.
WORDS = ("the", "the", "007", "1e5", "2024-01-31", "<b>x</b>", "*a*", "$x$", "&amp;", "👩‍🚀", "the")


def type_text(app: App, text: str) -> None:
    field = app.widget("w_text").locator("textarea")
    field.fill(text)
    field.press("ControlOrMeta+Enter")


def test_words_label_the_axes_as_typed(app: App) -> None:
    app.segment("w_input", "text")
    expect(app.widget("w_text")).to_be_visible()
    type_text(app, " ".join(WORDS))
    expect(app.shape("scores")).to_have_text(f"(2, 4, {len(WORDS)}, {len(WORDS)})")
    expect(app.page.locator(".heads .map .xlab span")).to_have_text(WORDS)
    expect(app.page.locator(".heads .map .ylab span")).to_have_text(WORDS)
    expect(app.page.locator(".heads .map :is(.xlab, .ylab) :is(b, img)")).to_have_count(0)
    expect(app.exact("time")).to_have_value(str(len(WORDS)))
    expect(app.exact("time")).to_be_disabled()

    told = app.hover(5, 9, time=len(WORDS))
    assert told.startswith("query <b>x</b> → key 👩‍🚀\n")
    config = MHAConfig(time=len(WORDS))
    weights = trace_forward(config, x=text_input(config, WORDS), profile=False).weights
    assert number_after("weight", told) == float(f"{float(weights[0, 0, 5, 9]):.3e}")


def test_no_word_at_all_is_refused_and_the_last_view_stays(app: App) -> None:
    app.segment("w_input", "text")
    expect(app.shape("scores")).to_have_text("(2, 4, 7, 7)")
    type_text(app, "   ")
    expect(app.errors).to_contain_text("must have at least one word")
    expect(app.shape("scores")).to_have_text("(2, 4, 7, 7)")
    type_text(app, "two words")
    expect(app.shape("scores")).to_have_text("(2, 4, 2, 2)")
    expect(app.errors).to_have_count(0)
