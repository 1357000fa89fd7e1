"""The heads: causal, hover, focus, step, scale and batch item, against the library's own trace."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from mha_core import MHAConfig, trace_forward
from mha_core.maps import HeadMaps, relative_to_uniform
from tests.browser.conftest import Opened
from tests.browser.driver import App, number_after, picture

pytestmark = pytest.mark.browser

TIME = 6


def there(address: str, time: int = TIME) -> np.ndarray:
    """Boolean (time, time): which cells of a tile are painted, read at their centres."""
    alpha = np.asarray(picture(address))[..., 3]
    centres = ((np.arange(time) + 0.5) * len(alpha) / time).astype(int)
    return alpha[np.ix_(centres, centres)] > 0


def weights(**changes: object) -> torch.Tensor:
    return trace_forward(MHAConfig(**changes), profile=False).weights  # type: ignore[arg-type]


def four_digits(value: float) -> float:
    return float(f"{value:.3e}")


def test_causal_takes_the_upper_triangle_away(app: App) -> None:
    assert all(there(address).all() for address in app.pictures())
    app.toggle("w_causal")
    expect(app.row("scores")).to_be_visible()
    expect(app.widget("w_map_step").get_by_role("radio", name="masked")).to_be_visible()
    lower = np.tril(np.ones((TIME, TIME), dtype=bool))
    assert [there(address).tolist() for address in app.pictures()] == [lower.tolist()] * 4
    shown = app.map.locator("img").get_attribute("src")
    assert np.array_equal(there(shown or ""), lower)
    assert "masked" in app.hover(1, 4, time=TIME)
    assert "masked" not in app.hover(4, 1, time=TIME)
    app.segment("w_map_step", "scores")  # before the mask
    expect(app.focus_name).to_have_text("head 0, scores")
    assert all(there(address).all() for address in app.pictures())
    app.toggle("w_causal")
    expect(app.widget("w_map_step").get_by_role("radio", name="masked")).to_have_count(0)


def test_hovering_tells_query_key_and_the_exact_weight(opened: Opened) -> None:
    app = opened(query={"causal": 1, "seed": 3})
    expected = weights(causal=True, seed=3)[0, 0]
    for query, key in ((0, 0), (3, 1), (5, 4)):
        told = app.hover(query, key, time=TIME)
        assert f"query {query} → key {key}" in told
        assert number_after("weight", told) == four_digits(float(expected[query, key]))


def test_the_map_can_be_read_by_keyboard(app: App) -> None:
    app.tile(3).focus()
    app.page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        app.page.keyboard.press(key)
    tip = app.page.locator(".soa-tip:visible")
    expect(tip).to_contain_text("query 2 → key 1")
    assert number_after("weight", tip.inner_text()) == four_digits(float(weights()[0, 0, 2, 1]))


def test_a_head_is_focused_by_click_and_by_keyboard(app: App) -> None:
    expected = weights()[0]
    app.tile(2).click()
    expect(app.focus_name).to_have_text("head 2, weights")
    expect(app.tile(2)).to_have_attribute("aria-selected", "true")
    expect(app.tile(0)).to_have_attribute("aria-selected", "false")
    told = app.hover(4, 2, time=TIME)
    assert number_after("weight", told) == four_digits(float(expected[2, 4, 2]))
    app.page.keyboard.press("Tab")
    app.page.keyboard.press("Enter")
    expect(app.focus_name).to_have_text("head 3, weights")
    told = app.hover(4, 2, time=TIME)
    assert number_after("weight", told) == four_digits(float(expected[3, 4, 2]))


def test_step_and_batch_item_change_what_is_shown(app: App) -> None:
    trace = trace_forward(MHAConfig(), profile=False)
    first = app.pictures()
    app.segment("w_map_step", "scores")
    expect(app.focus_name).to_have_text("head 0, scores")
    told = app.hover(5, 0, time=TIME)
    assert number_after("scores", told) == four_digits(float(trace.tensor("scores")[0, 0, 5, 0]))
    app.segment("w_map_step", "weights")
    expect(app.focus_name).to_have_text("head 0, weights")
    assert app.pictures() == first
    app.fill(app.widget("w_item").locator("input"), "1")
    expect(app.tile(0).locator("img")).not_to_have_attribute("src", first[0])
    told = app.hover(5, 0, time=TIME)
    assert number_after("weight", told) == four_digits(float(trace.weights[1, 0, 5, 0]))


def test_each_scale_says_what_it_measures(app: App) -> None:
    values = weights()[0]
    uniform = relative_to_uniform(HeadMaps("softmax", values, None)).values[0, 1, 2]
    weight = float(values[0, 1, 2])
    bar = app.page.locator(".heads .map .bar .what")
    for scale, title, shown in (
        ("× uniform", "weight × visible keys", {"× uniform": float(uniform), "weight": weight}),
        ("log", "log₁₀ weight", {"log₁₀ weight": float(np.log10(weight)), "· weight": weight}),
        ("per head", "each head on its own scale", {"weight": weight}),
    ):
        app.select("w_colour_scale", scale)
        expect(bar).to_contain_text(title)
        told = app.hover(1, 2, time=TIME)
        for name, value in shown.items():
            assert number_after(name, told) == pytest.approx(value, rel=2e-4)


def test_the_statistics_have_a_row_a_head(app: App) -> None:
    app.expand("w_stats")
    rows = app.widget("w_stats").locator(".stats tr:has(td)")
    expect(rows).to_have_count(4)
    entropy = torch.special.entr(weights()[0]).sum(-1).mean(-1)
    for head in range(4):
        expect(rows.nth(head)).to_contain_text(f"head {head}")
        expect(rows.nth(head).locator("td").nth(1)).to_have_text(f"{float(entropy[head]):.2f}")
