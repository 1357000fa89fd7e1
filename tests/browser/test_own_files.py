"""Files of one's own in the browser: weights, maps with their tokens, a picture, a broken one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, expect
from safetensors.torch import save_file
from torch import nn

from mha_core import MHAConfig, trace_forward
from mha_core.models.vision import load_vision, sample_image
from tests.browser.driver import App, number_after

pytestmark = pytest.mark.browser

WORDS = ["the", "<i>cat</i>", "007", "é", "."]


def torch_layer(d_model: int, heads: int) -> nn.MultiheadAttention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        module = nn.MultiheadAttention(d_model, heads, batch_first=True)
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=0.4)
    return module.eval()


def weights_file(folder: Path, module: nn.Module, name: str = "mine.safetensors") -> Path:
    path = folder / name
    save_file(module.state_dict(), path)
    return path


def four_digits(value: float) -> float:
    return float(f"{value:.3e}")


def overlay(app: App) -> Locator:
    return app.page.locator(".overlay")


def test_weights_are_given_heads_are_chosen_and_the_numbers_are_torchs(
    app: App, tmp_path: Path
) -> None:
    module = torch_layer(24, 3)
    app.select("w_source", "your weights")
    expect(app.page.get_by_text("must be a .safetensors or .pt state dict").first).to_be_visible()
    expect(app.errors).to_have_count(0)
    app.give("weights", weights_file(tmp_path, module))
    expect(app.page.get_by_text("No file holds the number of heads").first).to_be_visible()
    expect(app.glance).to_contain_text("(2, 4, 6, 8)")  # the last view, of random weights
    app.select("w_answer_heads", "3")
    expect(app.glance).to_contain_text("(2, 3, 6, 8)")
    app.settle()
    expect(app.shape("project_q")).to_have_text("(2, 6, 24)")
    expect(app.shape("split_q")).to_have_text("(2, 6, 3, 8)")
    expect(app.shape("scores")).to_have_text("(2, 3, 6, 6)")
    expect(app.page.locator(".proof", has_text="equals torch")).to_be_visible()
    app.settle()
    app.tile(2).click()
    expect(app.focus_name).to_have_text("head 2, weights")
    x = trace_forward(MHAConfig(d_model=24, heads=3), profile=False).x
    with torch.no_grad():
        _, expected = module(x, x, x, average_attn_weights=False)
    told = app.hover(4, 1, time=6)
    assert number_after("weight", told) == pytest.approx(float(expected[0, 2, 4, 1]), rel=1e-3)


def test_a_broken_file_is_an_error_beside_the_last_view(app: App, tmp_path: Path) -> None:
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(weights_file(tmp_path, torch_layer(24, 3)).read_bytes()[:-7])
    app.select("w_source", "your weights")
    app.give("weights", broken)
    expect(app.errors).to_contain_text("broken, incomplete")
    expect(app.page.get_by_test_id("stSidebar").get_by_test_id("stAlert")).to_have_count(1)
    expect(app.tile(3).first).to_be_visible()
    app.give("weights", weights_file(tmp_path, torch_layer(40, 5), "next.safetensors"))
    app.select("w_answer_heads", "5")
    expect(app.errors).to_have_count(0)
    expect(app.glance).to_contain_text("(2, 5, 6, 8)")
    # Looked at something else, the file is still there.
    app.select("w_source", "random weights")
    expect(app.glance).to_contain_text("(2, 4, 6, 8)")
    app.select("w_source", "your weights")
    expect(app.glance).to_contain_text("(2, 5, 6, 8)")


def test_maps_and_their_tokens_are_told_under_the_pointer(app: App, tmp_path: Path) -> None:
    scores = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(8))
    maps = scores.softmax(-1).numpy()
    name = "m_a_p **s** $x$ :red[y] [z](w).npy"  # of a file, and not Markdown
    np.save(tmp_path / name, maps)
    (tmp_path / "tokens.json").write_text(json.dumps(WORDS), encoding="utf-8")
    (tmp_path / "few.json").write_text('["a", "b"]', encoding="utf-8")
    app.select("w_source", "your attention maps")
    expect(app.widget("w_file_maps")).to_be_visible()
    app.give("maps", tmp_path / name)
    expect(app.page.locator(".tile")).to_have_count(3)
    expect(app.page.locator("table.shapes")).to_have_count(0)
    expect(app.widget("w_back_maps").get_by_role("button")).to_contain_text(f"Take back {name}")
    expect(app.page.get_by_text(f"{name}: layer 0", exact=True)).to_be_visible()
    app.give("tokens", tmp_path / "few.json")
    expect(app.errors).to_contain_text("must be 5, one a position")
    app.take_back("tokens")
    expect(app.errors).to_have_count(0)
    app.give("tokens", tmp_path / "tokens.json")
    expect(app.page.locator(".heads .map .ylab span")).to_have_text(WORDS)
    app.settle()
    app.tile(1).click()
    expect(app.focus_name).to_have_text("head 1, weights")
    app.settle()
    told = app.hover(1, 3, time=5)
    assert "query <i>cat</i> → key é" in told
    assert number_after("weight", told) == four_digits(float(maps[0, 1, 1, 3]))
    # Longer maps, for which these are too few tokens: the view outlives its file.
    np.save(tmp_path / "longer.npy", np.full((1, 3, 7, 7), 1 / 7, np.float32))
    app.give("maps", tmp_path / "longer.npy")
    expect(app.errors).to_contain_text("must be 7, one a position")
    expect(app.page.locator(".heads .map .ylab span")).to_have_text(WORDS)
    app.take_back("tokens")
    expect(app.page.locator(".heads .map .ylab span")).to_have_count(7)


def test_a_patch_and_a_head_are_chosen_on_the_picture(app: App) -> None:
    app.select("w_source", "DINOv2-small on a picture")
    note = app.section("On the picture")
    expect(note).to_have_text("weights of [CLS] as the query; choose a patch")
    expect(app.page.locator(".proof", has_text="equals DINOv2-small")).to_be_visible()
    app.settle()
    before = overlay(app).locator(".square img").get_attribute("src")
    patch = 16 * 9 + 4
    overlay(app).locator(f'[data-pick="patch:{patch}"]').click()
    expect(note).to_have_text("weights of patch 9,4 as the query; choose a patch")
    expect(overlay(app).locator(f'[data-pick="patch:{patch}"]')).to_have_attribute(
        "aria-checked", "true"
    )
    assert overlay(app).locator(".square img").get_attribute("src") != before
    overlay(app).locator('[data-pick="head:4"]').click()
    expect(overlay(app).locator('[data-pick="head:4"]')).to_have_attribute("aria-checked", "true")
    expect(app.focus_name.first).to_have_text("head 4, weights")  # in the section below, too
    app.settle()
    expect(note).to_have_text("weights of patch 9,4 as the query; choose a patch")
    model = load_vision()
    weights = model.capture(model.prepare(sample_image()), 0).weights[0, 4, patch + 1, 1:]
    told = overlay(app).locator(f'[data-pick="patch:{patch + 1}"]').get_attribute("title") or ""
    assert told.startswith("patch 9,5 · ")
    value = float(told.split(" · ")[1].replace("−", "-"))
    assert value == pytest.approx(float(weights[patch + 1]), rel=0.01)
    overlay(app).locator('[data-pick="cls"]').click()
    expect(note).to_have_text("weights of [CLS] as the query; choose a patch")


def test_a_picture_of_ones_own_and_a_broken_one(app: App, tmp_path: Path) -> None:
    mine, broken = tmp_path / "mine.png", tmp_path / "broken.png"
    sample_image().rotate(180).save(mine)
    broken.write_bytes(mine.read_bytes()[:200])
    app.select("w_source", "DINOv2-small on a picture")
    shown = overlay(app).locator(".square img").first  # while it runs, the old may be below
    expect(shown).to_have_attribute("alt", re.compile("the drawn scene"))
    app.give("picture", mine)
    expect(shown).to_have_attribute("alt", re.compile("your picture"))
    app.give("picture", broken)
    expect(app.errors).to_contain_text("is broken")
    expect(shown).to_have_attribute("alt", re.compile("your picture"))
