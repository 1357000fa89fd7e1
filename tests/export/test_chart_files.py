"""Charts as files: they open, are repeatable, and have their words and numbers."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
from PIL import Image
from pypdf import PdfReader

from mha_core.charts import Chart, Mark, Series
from mha_core.export.chart import FILES, build
from mha_core.palette import palette, rgb

LINE = Series("closed <form>", (16.0, 64.0), (1e3, 1e6), "d_model")
POINTS = Series("measured", (16.0, 64.0), (1e4, 1e5), "time", "points", (9e3, 9e4), (2e4, 2e5))
CHARTS = [
    Chart("FLOPs", "time", "FLOPs", (LINE,), (Mark(32.0, "equal at 2·d_model"),)),
    Chart("Time", "time", "seconds", (POINTS,)),
    Chart("Later", "time", "seconds", (), empty="not yet", reach=(16.0, 64.0)),
]
TABLE = pd.DataFrame({"time": [16, 64], "seconds": [0.1, 1 / 3]})
TITLE = "over time; batch 2, d_model <32>"


def made(form: str, mode: str = "light") -> bytes:
    return build(form, CHARTS, TABLE, title=TITLE, mode=mode)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_png_is_drawn_on_its_ground(mode: str) -> None:
    image = Image.open(io.BytesIO(made("png", mode)))
    assert image.text["Title"] == TITLE
    assert "closed <form> from 1 k at 16 to 1 M at 64" in image.text["Description"]
    pixels = image.convert("RGB")
    assert pixels.getpixel((2, 2)) == rgb(palette(mode).background)
    colours = {colour for _, colour in pixels.getcolors(maxcolors=2**24)}
    assert rgb(palette(mode).tints["d_model"]) in colours
    assert rgb(palette(mode).tints["time"]) in colours


def test_svg_has_its_text_as_text_and_a_label() -> None:
    root = ET.fromstring(made("svg"))
    assert root.attrib["role"] == "img"
    assert "equal at 2·d_model at 32" in root.attrib["aria-label"]
    words = "\n".join(root.itertext())
    for text in ("FLOPs", "closed <form>", "equal at 2·d_model", "not yet", TITLE):
        assert text in words


def test_pdf_has_its_words() -> None:
    (page,) = PdfReader(io.BytesIO(made("pdf"))).pages
    text = page.extract_text()
    assert "equal at 2·d_model" in text
    assert "measured" in text


def test_html_opens_offline_and_is_escaped() -> None:
    text = made("html").decode()
    assert "d_model &lt;32&gt;" in text
    assert "<32>" not in text
    assert 'role="img" aria-label="FLOPs over time: closed &lt;form&gt;' in text
    assert not re.findall(r'<(?:script|link)[^>]+(?:src|href)="http', text)


def test_csv_reads_back_to_the_same_numbers() -> None:
    assert pd.read_csv(io.BytesIO(made("csv"))).equals(TABLE)


@pytest.mark.parametrize("form", ["png", "svg", "pdf", "csv"])
def test_the_same_numbers_give_the_same_bytes(form: str) -> None:
    assert made(form) == made(form)


def test_every_form_is_offered_by_the_page_under_its_kind() -> None:
    from pages.shared import chart_export

    assert {form: mime for form, (mime, _) in FILES.items()} == chart_export._FORMS
