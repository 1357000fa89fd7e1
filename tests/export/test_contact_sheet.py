"""All heads on one page: every word there and whole, right colours, the same bytes twice."""

from __future__ import annotations

import io
import re
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from pypdf import PdfReader

from mha_core import MHAConfig, trace_forward
from mha_core.errors import ConfigError
from mha_core.export.contact_sheet import contact_sheet
from mha_core.head_stats import HeadStats, head_stats, keys_text
from mha_core.maps import SCALES, HeadMaps, Pooled, head_maps, on_scale, scaled
from mha_core.palette import palette, rgb
from tests.export.support import ODD, TIME, config, traced

TITLE = "A small model, layer 2, batch item 1"


def sheet(made=None, *, limit=96, scale="weight", **how):
    made = config() if made is None else made
    maps = head_maps(trace_forward(made, profile=False))
    pooled, colours = scaled(maps, limit, "max", scale)
    return contact_sheet(pooled, colours, head_stats(maps), made, **({"title": TITLE} | how))


def long_maps(time, side, heads):
    """Pooled maps of any time, causal, without the maps themselves; and made-up statistics."""
    values = torch.rand(heads, side, side, generator=torch.Generator().manual_seed(0)).numpy()
    values[:, np.triu_indices(side, 1)[0], np.triu_indices(side, 1)[1]] = np.nan
    pooled = Pooled(values, -(-time // side), "max", time)
    numbers = [1000.0 * head + 0.5 for head in range(heads)]
    return pooled, on_scale(values, "weight"), HeadStats(*[numbers] * 6)


def page(data):
    reader = PdfReader(io.BytesIO(data))
    assert len(reader.pages) == 1
    return reader, reader.pages[0].extract_text()


def pixels(data):
    image = Image.open(io.BytesIO(data))
    image.load()
    return np.asarray(image.convert("RGB")), image


def margin(picture, mode, width):
    """Whether a frame of that many pixels holds nothing but the ground."""
    ground = np.array(rgb(palette(mode).background))
    frame = np.ones(picture.shape[:2], dtype=bool)
    frame[width:-width, width:-width] = False
    return bool((picture[frame] == ground).all())


@pytest.mark.parametrize("heads", [1, 2, 5, 12, 17, 64])
def test_every_head_is_named_with_its_keys_on_one_page(heads):
    made = MHAConfig(batch=1, time=11, d_model=2 * heads, heads=heads, causal=True)
    _, text = page(sheet(made))
    stats = head_stats(head_maps(trace_forward(made, profile=False)))
    words = " ".join(text.split())
    for head in range(heads):
        assert re.search(rf"head {head}\b", words)
        assert keys_text(stats.effective_keys[head]) in words
    assert len(re.findall(r"head \d+", words)) == heads
    assert TITLE in words
    for word in (f"heads {heads}", "time 11", "causal", "query down, key across", "query", "key"):
        assert word in words
    assert "hatched: masked, not zero" in words
    assert "pooled" not in words


def test_tokens_are_on_both_axes():
    _, text = page(sheet(tokens=ODD))
    for token in ODD:
        # Five heads in two rows: the words at the left of each row, and below the lowest maps.
        assert text.count(token) >= 2 * ODD.count(token), token


def test_a_pooled_sheet_says_so_and_has_positions_for_labels():
    words = [f"w{n}" for n in range(40)]
    _, text = page(sheet(config(time=40), limit=10, tokens=words))
    assert "40 × 40 pooled 4 × 4 to 10 × 10: the max of each block" in " ".join(text.split())
    assert "w0" not in text
    assert "10" in text.split()


@pytest.mark.parametrize("heads", [1, 8, 64])
def test_maps_of_32768_positions(heads):
    pooled, colours, stats = long_maps(32_768, 96, heads)
    made = MHAConfig(batch=1, time=32_768, d_model=64 * heads, heads=heads, causal=True)
    _, text = page(contact_sheet(pooled, colours, stats, made, title=TITLE))
    words = " ".join(text.split())
    assert "32768 × 32768 pooled 342 × 342 to 96 × 96: the max of each block" in words
    assert "time 32768" in words
    assert "10,000" in words
    assert heads == 1 or f"{1000 * (heads - 1):,} keys" in words


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("heads", [1, 3, 16, 64])
def test_nothing_touches_the_edge_of_the_picture(heads, mode):
    pooled, colours, stats = long_maps(32_768, 24, heads)
    made = MHAConfig(
        batch=1, time=32_768, d_model=64 * heads, heads=heads, causal=True, dropout=0.25,
        bias=False, scale=0.125, fill=-1e9, dtype="bfloat16", seed=123456,
    )  # fmt: skip
    data = contact_sheet(pooled, colours, stats, made, title="W" * 300, form="png", mode=mode)
    picture, image = pixels(data)
    assert margin(picture, mode, 20)
    assert not margin(picture, mode, 100)
    assert image.text["Title"] == "W" * 300
    assert f"{heads} heads" in image.text["Description"]


def test_long_and_rare_words_touch_no_edge_and_do_not_warn():
    tokens = ["\U00013000", "$x$", "internationalization" * 3, "\ud800", "", "你好", "👩‍👧"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = sheet(tokens=tokens, title="你好" * 60 + "\n$\\frac$", form="png")
    assert margin(pixels(data)[0], "light", 20)


def test_the_first_causal_weight_has_the_last_colour_and_masked_cells_are_hatched():
    picture, _ = pixels(sheet(form="png"))
    top = (picture == rgb(palette("light").sequential[-1])).all(-1).sum()
    cell = (2.2 * 200 / TIME) ** 2
    assert 0.8 * 5 * cell < top < 5 * TIME * cell  # query 0 of 5 heads sees one key
    assert (picture == rgb(palette("light").hatch)).all(-1).sum() > 500
    full, _ = pixels(sheet(config(causal=False), form="png"))
    assert (full == rgb(palette("light").hatch)).all(-1).sum() == 0


@pytest.mark.parametrize("form", ["pdf", "png"])
def test_equal_sheets_are_equal_bytes(form):
    assert sheet(form=form) == sheet(form=form)
    assert sheet(form=form) != sheet(form=form, title="another")


@pytest.mark.parametrize("scale", SCALES)
def test_the_colour_bar_and_the_captions_say_the_scale(scale):
    # Not causal: else the first weight of every head is 1, and so is the end of its scale.
    _, text = page(sheet(config(causal=False), scale=scale))
    words = " ".join(text.split())
    said = {
        "weight": "weight",
        "× uniform": "weight × visible keys",
        "log": "log₁₀ weight",
        "per head": "each head on",
    }[scale]
    assert said in words
    assert (len(re.findall(r"keys · to \d", words)) == 5) == (scale == "per head")


def test_scores_have_no_keys():
    maps = head_maps(traced(), "scores")
    pooled, colours = scaled(maps, 96)
    data = contact_sheet(pooled, colours, None, config(), title=TITLE, name="Scores")
    words = " ".join(page(data)[1].split())
    assert "Scores: query down, key across" in words
    assert " keys" not in words
    assert "−" in words  # the scale is centred at 0


def test_the_pdf_says_what_it_is_and_has_letters_that_can_be_searched():
    reader, _ = page(sheet())
    assert reader.metadata.title == TITLE
    assert "5 heads as heatmaps" in reader.metadata.subject
    fonts = reader.pages[0]["/Resources"]["/Font"].get_object().values()
    assert {font.get_object()["/Subtype"] for font in fonts} == {"/Type0"}


def test_what_does_not_fit_is_refused():
    pooled, colours, stats = long_maps(100, 10, 65)
    made = MHAConfig(batch=1, time=100, d_model=65, heads=65)
    with pytest.raises(ConfigError, match="heads=65: must be at most 64 on one sheet"):
        contact_sheet(pooled, colours, stats, made, title=TITLE)
    with pytest.raises(ConfigError, match="form='gif': is not offered"):
        sheet(form="gif")
    with pytest.raises(ConfigError, match="tokens=2: must be one for each of 7 positions"):
        sheet(tokens=["a", "b"])
    maps = HeadMaps("softmax", traced().weights[0][:2].float(), None)
    one, scale = scaled(maps, 96)
    with pytest.raises(ConfigError, match="stats=65: must be of the 2 heads shown"):
        contact_sheet(one, scale, stats, config(), title=TITLE)


def test_a_finer_sheet_has_a_pixel_for_every_cell():
    made = config(time=700)
    pictures = [pixels(sheet(made, limit=limit, form="png"))[0] for limit in (96, 700)]
    assert pictures[1].shape[1] >= 700 * min(made.heads, 4) > pictures[0].shape[1]
