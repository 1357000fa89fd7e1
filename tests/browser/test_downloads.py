"""Every format through the export panel: prepared, downloaded, opened."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Browser, expect
from pypdf import PdfReader
from safetensors.torch import load_file

from mha_core import MHAConfig, Trace, trace_forward
from mha_core.export import FORMATS, Selection
from mha_core.inputs import text_input
from tests.browser.conftest import Opened, Server
from tests.browser.driver import App
from tests.browser.watch import Watch

pytestmark = pytest.mark.browser

WORDS = ("the", "the", "007", "<b>x</b>", "=1+1")
CONFIG = MHAConfig(batch=2, time=len(WORDS), d_model=12, heads=3, causal=True, seed=7)
TENSORS = {"weights": "softmax", "masked": "mask"}
# Two tensors, every head and batch item.
ROWS = 2 * CONFIG.batch * CONFIG.heads * CONFIG.time**2


@pytest.fixture(scope="module")
def trace() -> Trace:
    return trace_forward(CONFIG, x=text_input(CONFIG, WORDS))


@pytest.fixture(scope="module")
def downloads(
    browser: Browser, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Path]]:
    """Format name -> the file that one visit to the panel downloaded."""
    folder = tmp_path_factory.mktemp("downloads")
    opening = Opened(browser, server)
    query = CONFIG.to_dict() | {"causal": 1, "input": "text", "text": " ".join(WORDS)}
    shown = ("batch", "d_model", "heads", "causal", "seed", "input", "text")
    app = opening(query={name: query[name] for name in shown})
    app.expand("w_export")
    tensors = app.widget("w_tensors")
    tensors.locator("input").click()
    app.page.get_by_role("option", name="masked", exact=True).click()
    app.page.keyboard.press("Escape")
    files = {name: download(app, name, folder) for name in FORMATS}
    yield files
    opening.close()


def download(app: App, name: str, folder: Path) -> Path:
    """Chooses a format, prepares the file, and saves it under the name it comes with."""
    form = FORMATS[name]
    app.select("w_format", f"{name}: {form.description}")
    expect(app.page.get_by_text(f"{form.description}. Tensors are exact")).to_be_visible()
    expect(app.widget("download")).to_have_count(0)  # of the format before
    app.widget("prepare").get_by_role("button").click()
    button = app.widget("download").get_by_role("button")
    wanted = form.file_name(CONFIG, Selection(tuple(TENSORS)), WORDS)
    expect(button).to_contain_text(f"Download {wanted}")
    with app.page.expect_download() as waiting:
        button.click()
    assert waiting.value.suggested_filename == wanted
    path = folder / name / wanted
    waiting.value.save_as(path)
    return path


def open_png(path: Path, _: Trace) -> None:
    with Image.open(path) as image:
        assert image.format == "PNG"
        colours = image.convert("RGB").getcolors(maxcolors=2**24)
    assert colours is not None
    assert len(colours) > 10


def open_svg(path: Path, _: Trace) -> None:
    root = ET.parse(path).getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = [text.strip() for text in root.itertext()]
    assert "<b>x</b>" in words


def open_pdf(path: Path, _: Trace) -> None:
    pages = PdfReader(path).pages
    assert len(pages) == len(TENSORS) * CONFIG.batch
    assert "head 2" in pages[0].extract_text()


def open_csv(path: Path, trace: Trace) -> None:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == ROWS
    row = next(
        row for row in rows
        if [row[name] for name in ("tensor", "batch", "head", "query", "key")]
        == ["weights", "1", "2", "3", "0"]
    )  # fmt: skip
    assert np.float32(row["value"]) == trace.weights[1, 2, 3, 0].numpy()
    assert row["query_token"] == "<b>x</b>"
    assert sum(row["masked"] == "true" for row in rows) == ROWS * 2 // CONFIG.time  # 10 of 25


def open_npz(path: Path, trace: Trace) -> None:
    with np.load(path) as file:
        for name, step in TENSORS.items():
            ours = trace.tensor(step).numpy()
            assert file[name].dtype == ours.dtype
            assert file[name].tobytes() == ours.tobytes()
            assert file[name].shape == ours.shape
        assert tuple(file["tokens"]) == WORDS


def open_safetensors(path: Path, trace: Trace) -> None:
    file = load_file(path)
    assert set(file) == set(TENSORS)
    for name, step in TENSORS.items():
        assert file[name].dtype is trace.tensor(step).dtype
        assert torch.equal(file[name], trace.tensor(step))


def open_table_csv(path: Path, trace: Trace) -> None:
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    assert [row["output shape"] for row in rows] == [str(step.shape) for step in trace.steps]


def open_table_json(path: Path, trace: Trace) -> None:
    rows = json.loads(path.read_text(encoding="utf-8"))
    assert [row["output shape"] for row in rows] == [str(step.shape) for step in trace.steps]
    assert [row["bytes"] for row in rows] == [step.nbytes for step in trace.steps]


def open_table_text(path: Path, trace: Trace) -> None:
    text = path.read_text(encoding="utf-8")
    for step in trace.steps:
        assert str(step.shape) in text


def open_config(path: Path, _: Trace) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert MHAConfig.from_dict(document["config"]) == CONFIG
    assert tuple(document["tokens"]) == WORDS


def open_zip(path: Path, _: Trace) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        manifest = json.loads(archive.read("manifest.json"))
        assert manifest["left_out"] == []
        files = {entry["file"]: entry for entry in manifest["files"]}
        assert len(files) == len(FORMATS) - 1
        assert set(archive.namelist()) == set(files) | {"manifest.json"}
        for name, entry in files.items():
            data = archive.read(name)
            assert len(data) == entry["bytes"] > 0
            assert hashlib.sha256(data).hexdigest() == entry["sha256"]


OPENERS: dict[str, Callable[[Path, Trace], None]] = {
    "png": open_png,
    "svg": open_svg,
    "pdf": open_pdf,
    "csv": open_csv,
    "npz": open_npz,
    "safetensors": open_safetensors,
    "table-csv": open_table_csv,
    "table-markdown": open_table_text,
    "table-latex": open_table_text,
    "table-json": open_table_json,
    "config": open_config,
    "zip": open_zip,
}


def test_every_format_is_opened() -> None:
    assert set(OPENERS) | {"html"} == set(FORMATS)


@pytest.mark.parametrize("name", OPENERS)
def test_the_file_opens(name: str, downloads: dict[str, Path], trace: Trace) -> None:
    OPENERS[name](downloads[name], trace)


def test_the_html_opens_offline(
    browser: Browser, server: Server, downloads: dict[str, Path]
) -> None:
    context = browser.new_context()
    context.set_offline(True)
    page = context.new_page()
    watch = Watch(server.log)
    watch.page(page)
    page.goto(downloads["html"].as_uri())
    maps = page.locator(".js-plotly-plot")
    expect(maps).to_have_count(len(TENSORS) * CONFIG.batch)
    expect(maps.first.locator(".heatmaplayer image").first).to_be_attached()
    expect(maps.first.locator(".ytick text").filter(has_text="<b>x</b>").first).to_be_visible()
    assert watch.complaints() == []
    context.close()


def test_the_bundles_files_are_those_downloaded_one_by_one(downloads: dict[str, Path]) -> None:
    with zipfile.ZipFile(downloads["zip"]) as archive:
        for name in ("safetensors", "csv", "png", "svg", "config"):
            path = downloads[name]
            assert archive.read(path.name) == path.read_bytes(), name
