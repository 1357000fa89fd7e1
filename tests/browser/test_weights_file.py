"""W_q, W_k, W_v, W_o downloaded under other code's names, and read back bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

from mha_core import MHAConfig
from mha_core.inputs import build_module
from mha_core.layouts import LAYOUTS, build, find_layers, read_state
from tests.browser.conftest import Opened
from tests.browser.driver import App

pytestmark = pytest.mark.browser

CONFIG = MHAConfig(batch=2, time=6, d_model=12, heads=3, seed=5)


def saved(app: App, folder: Path) -> Path:
    with app.page.expect_download() as waiting:
        app.widget("download_weights").get_by_role("button").click()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


@pytest.mark.parametrize(("layout", "form"), [("gpt2", "safetensors"), ("query_key_value", "pt")])
def test_a_layout_reads_back(opened: Opened, tmp_path: Path, layout: str, form: str) -> None:
    app = opened(query={"d_model": 12, "heads": 3, "seed": 5})
    app.expand("w_export")
    one = LAYOUTS[layout]
    app.select("w_layout", f"{one.label}: {', '.join(one.weights)}")
    app.fill(app.widget("w_layout_prefix").locator("input"), "h.0.attn.")
    if form == "pt":
        app.segment("w_layout_form", "pt")
        app.segment("w_layout_order", "interleaved")
    button = app.widget("download_weights").get_by_role("button")
    expect(button).to_contain_text(f"attention_d12_h3_{layout}.{form}")
    app.settle()
    path = saved(app, tmp_path)
    state = read_state(path.read_bytes(), path.name)
    assert all(name.startswith("h.0.attn.") for name in state)
    (found,) = find_layers(state)
    answers = {"order": "interleaved"} if form == "pt" else {}
    module = build(state, found, heads=3, **answers)
    own = build_module(CONFIG).state_dict()
    assert all(torch.equal(tensor, own[name]) for name, tensor in module.state_dict().items())
