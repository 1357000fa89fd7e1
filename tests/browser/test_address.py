"""A copied address, opened in a fresh profile, gives the same configuration and numbers."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Opened
from tests.browser.driver import App

pytestmark = pytest.mark.browser


def shown(app: App) -> dict[str, list[str]]:
    """Everything that the address is to bring back."""
    sizes = [app.exact(name).input_value() for name in ("batch", "time", "d_model", "heads")]
    return {
        "sizes": sizes,
        "table": app.table(),
        "values": app.values(),
        "pictures": app.pictures(),
        "labels": app.labels("x"),
        "proofs": app.page.locator(".proofs .proof").all_inner_texts(),
    }


def test_a_copied_address_reopens_the_same_view(app: App, opened: Opened) -> None:
    app.enter("batch", 3)
    expect(app.shape("output")).to_have_text("(3, 6, 32)")
    app.enter("d_model", 24)
    expect(app.shape("output")).to_have_text("(3, 6, 24)")
    app.toggle("w_causal")
    expect(app.widget("w_map_step")).to_contain_text("masked")
    app.expand("w_more")
    app.page.get_by_role("button", name="new sample").click()
    expect(app.widget("w_seed").locator("input")).to_have_value("1")
    app.select("w_dtype", "float64")
    expect(app.row("output").locator(".chip")).to_have_text("new 3.4 KiB")
    app.settle()
    again = opened(app.page.url)
    assert "seed=1" in again.page.url
    assert "causal=1" in again.page.url
    assert shown(again) == shown(app)


def test_a_text_comes_back_with_its_words(opened: Opened) -> None:
    words = "a & b = c + <i> 100% #1 ünï"
    app = opened(query={"input": "text", "text": words})
    expect(app.page.locator(".heads .map .xlab span")).to_have_text(words.split())
    again = opened(app.page.url)
    assert shown(again) == shown(app)


def test_what_an_address_has_wrong_is_said_and_the_rest_is_used(opened: Opened) -> None:
    app = opened(query={"batch": 3, "time": "abc", "seed": -1, "dtype": "int8", "who": "me"})
    expect(app.shape("output")).to_have_text("(3, 6, 32)")
    for wrong in ("time=abc", "seed=-1", "dtype=int8"):
        expect(app.page.get_by_test_id("stAlert").filter(has_text=wrong)).to_be_visible()


def test_an_address_from_a_stranger_loads_and_marks_up_nothing(opened: Opened) -> None:
    markup = "![p](http://elsewhere.example/p.png) **b** <i>x</i> $x$ `"
    app = opened(query={"time": markup, "input": "text", "text": f"{markup} {markup}"})
    notice = app.page.get_by_test_id("stAlert").filter(has_text="The address has")
    expect(notice).to_contain_text("time=![p](http://elsewhere.example/p.png) **b** <i>x</i> $x$ '")
    expect(app.page.locator(".heads .map .xlab span")).to_have_count(2 * len(markup.split()))
    expect(app.page.locator("img[src*=elsewhere]")).to_have_count(0)
