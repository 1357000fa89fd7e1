"""The built-in model, as a newcomer meets it: a sentence, a head, a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import expect

from mha_core.models import retrace
from mha_core.models.hub import load
from tests.browser.conftest import Opened
from tests.browser.driver import App, number_after

pytestmark = pytest.mark.browser

SENTENCE = "The cat sat."
WORDS = ["[CLS]", "the", "cat", "sat", ".", "[SEP]"]


def test_a_sentence_a_head_a_file(app: App, tmp_path: Path) -> None:
    app.select("w_source", "MiniLM-L6: a real model")
    expect(app.page.locator(".tile")).to_have_count(12)
    box = app.widget("w_sentences").locator("textarea")
    box.fill(SENTENCE)
    box.press("ControlOrMeta+Enter")
    expect(app.page.locator(".heads .map .ylab span")).to_have_text(WORDS)
    expect(app.page.locator(".proof", has_text="equals MiniLM-L6")).to_be_visible()
    app.page.locator(".tile").nth(7).click()
    expect(app.focus_name).to_have_text("head 7, weights")
    app.thumb("layer").focus()
    app.page.keyboard.press("ArrowRight")
    model = load("minilm")
    encoded = model.encode([SENTENCE])
    trace = retrace(model.capture(encoded, 1)).trace
    expect(app.page.locator(".glance .line").first).to_contain_text("(1, 12, 6, 32)")
    app.settle()
    told = app.hover(2, 3, time=6)
    assert "query cat → key sat" in told
    assert number_after("weight", told) == float(f"{float(trace.weights[0, 7, 2, 3]):.3e}")

    app.expand("w_export")
    app.select("w_format", "npz: Exact tensors for NumPy")
    app.widget("prepare").get_by_role("button").click()
    with app.page.expect_download() as waiting:
        app.widget("download").get_by_role("button").click()
    path = tmp_path / waiting.value.suggested_filename
    waiting.value.save_as(path)
    with np.load(path) as file:
        assert np.array_equal(file["weights"], trace.weights.numpy())
        assert file["tokens"].tolist() == WORDS


def test_special_tokens_can_be_hidden(opened: Opened) -> None:
    app = opened(query={"source": "minilm", "sentences": f"{SENTENCE}\nHi"})
    expect(app.page.locator(".heads .map .ylab span")).to_have_text(WORDS)
    app.toggle("w_plain")
    expect(app.page.locator(".heads .map .ylab span")).to_have_text(["the", "cat", "sat", "."])
    app.toggle("w_plain")
    app.fill(app.widget("w_item").locator("input"), "1")
    expect(app.page.locator(".heads .map .ylab span").nth(1)).to_have_text("hi")
    expect(app.page.locator(".heads .map .pic.some")).to_have_count(1)


def test_no_text_is_refused_beside_the_last_view(opened: Opened) -> None:
    app = opened(query={"source": "minilm", "sentences": SENTENCE})
    box = app.widget("w_sentences").locator("textarea")
    box.fill("")
    box.press("ControlOrMeta+Enter")
    expect(app.errors).to_contain_text("must have at least one word")
    expect(app.page.locator(".heads .map .ylab span")).to_have_text(WORDS)
