"""A mistake as a figure: maps, words, colours; for a reader who does not see it, too."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from mha_core.export.mistake import description, figure
from mha_core.mistakes import MISTAKES, examine
from mha_core.mistakes.measures import maps_seen
from mha_core.palette import DARK, LIGHT, rgb
from tests.mistakes.support import bench


def drawn(name, form, colours=LIGHT, **how):
    found = examine(MISTAKES[name], *bench())
    return figure(found, maps_seen(found, 1), form, colours=colours, **how)


def texts(svg):
    return [
        "".join(node.itertext()) for node in ET.fromstring(svg).iter() if node.tag[-4:] == "text"
    ]


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_has_its_figure(name):
    said = texts(drawn(name, "svg"))
    assert MISTAKES[name].title in said
    assert f"fix: {MISTAKES[name].fix}" in said


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_the_png_is_on_its_ground_and_says_what_it_is(colours):
    data = drawn("causal_blind", "png", colours)
    picture = Image.open(io.BytesIO(data))
    pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
    assert tuple(pixels[0]) == rgb(colours.background)
    colour_found = {tuple(pixel) for pixel in np.unique(pixels, axis=0)}
    assert rgb(colours.bad) in colour_found  # the row of NaN
    assert picture.text["Title"] == MISTAKES["causal_blind"].title
    assert "Largest change of the output NaN" in picture.text["Description"]


def test_it_says_what_hatching_and_red_mean_where_there_is_any():
    assert "hatched: masked, not zero · red: not a number" in texts(drawn("causal_blind", "svg"))
    assert "hatched: masked, not zero" in texts(drawn("softmax_axis", "svg"))
    assert not any("hatched" in said for said in texts(drawn("no_scale", "svg")))


def test_a_loud_one_has_torchs_words_in_place_of_maps():
    said = " ".join(texts(drawn("mask_dtype", "svg")))
    assert "masked_fill_ only supports boolean masks" in said
    assert "query" not in said
    assert "torch raises RuntimeError" in description(examine(MISTAKES["mask_dtype"], *bench()))


def test_the_svg_has_a_label_and_its_tokens_as_typed():
    svg = drawn("no_scale", "svg", tokens=("<b>", "$x$", "a", "a", "d"))
    root = ET.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"].startswith("no 1/√d_k: attention weights")
    assert texts(svg).count("query") == texts(svg).count("key") == 3
    assert texts(svg).count("<b>") == 6  # both axes of three maps
    assert texts(svg).count("$x$") == 6


def test_the_same_run_gives_the_same_bytes():
    assert drawn("polarity", "svg") == drawn("polarity", "svg")
