"""Maps as pictures: every visible cell in the colour of its value, every masked cell clear."""

from __future__ import annotations

import base64
import io
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mha_core import MHAConfig, maps
from mha_core.figures.raster import data_uri, map_png, tiles
from mha_core.palette import DARK, LIGHT, rgb
from tests.figures.support import config, overflowing, traced

GROUNDS = {"light": LIGHT, "dark": DARK}
every_ground = pytest.mark.parametrize("colours", GROUNDS.values(), ids=GROUNDS)


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGBA")).astype(int)


def middles(png, cells):
    """The pixel in the middle of every cell."""
    found = pixels(png)
    at = ((np.arange(cells) + 0.5) * (len(found) / cells)).astype(int)
    return found[at][:, at]


def expected(unit, anchors):
    """The colour between the two anchors around each value."""
    stops = np.array([rgb(anchor) for anchor in anchors], dtype=float)
    place = unit * (len(stops) - 1)
    low = np.clip(place.astype(int), 0, len(stops) - 2)
    part = (place - low)[..., None]
    return stops[low] * (1 - part) + stops[low + 1] * part


@every_ground
@pytest.mark.parametrize("diverging", [False, True])
@pytest.mark.parametrize("time", [1, 2, 3, 31, 32, 33, 100])
def test_visible_cells_have_the_colour_of_their_value_and_masked_ones_none(
    time, diverging, colours
):
    unit = np.random.default_rng(time).random((time, time)).astype(np.float32)
    masked = np.triu(np.ones((time, time), dtype=bool), 1)
    unit[masked] = np.nan
    shown = middles(map_png(unit, colours, diverging=diverging), time)
    assert (shown[masked][:, 3] == 0).all()
    assert (shown[~masked][:, 3] == 255).all()
    anchors = colours.diverging if diverging else colours.sequential
    wanted = expected(unit[~masked], anchors)
    step = max(np.abs(np.subtract(rgb(a), rgb(b))).max() for a, b in pairwise(anchors))
    # 64 colours: half a step of one stretch between anchors, and rounding.
    assert np.abs(shown[~masked][:, :3] - wanted).max() <= step * (len(anchors) - 1) / 126 + 1


@every_ground
def test_the_ends_of_the_scale_are_its_first_and_last_colour(colours):
    unit = np.array([[0.0, 0.5], [1.0, np.nan]], dtype=np.float32)
    shown = middles(map_png(unit, colours, diverging=False), 2)
    assert tuple(shown[0, 0, :3]) == rgb(colours.sequential[0])
    assert tuple(shown[1, 0, :3]) == rgb(colours.sequential[-1])


@every_ground
@pytest.mark.parametrize("time", [2, 6, 32])
def test_small_maps_have_hairlines_between_cells_and_not_around_them(time, colours):
    unit = np.full((time, time), 0.9, dtype=np.float32)
    shown = pixels(map_png(unit, colours, diverging=False))
    side = len(shown) // time
    assert side >= 2
    line = np.array([*rgb(colours.background), 255])
    is_line = (shown == line).all(axis=-1)
    rows, columns = is_line.all(axis=1), is_line.all(axis=0)
    assert rows.sum() == columns.sum() == time - 1
    # As many runs of colour as cells, along every row that is no line.
    starts = np.diff((~is_line[~rows]).astype(int), axis=1, prepend=0) == 1
    assert (starts.sum(axis=1) == time).all()


def test_a_masked_cell_stays_clear_up_to_its_edges():
    unit = np.ones((4, 4), dtype=np.float32)
    unit[1:3, 1:3] = np.nan
    shown = pixels(map_png(unit, LIGHT, diverging=False))
    side = len(shown) // 4
    assert (shown[side : 3 * side, side : 3 * side, 3] == 0).all()
    assert (shown[:side, :, 3] == 255).all()


@pytest.mark.parametrize("time", [33, 96, 300])
def test_large_maps_have_one_pixel_a_cell(time):
    unit = np.zeros((time, time), dtype=np.float32)
    assert pixels(map_png(unit, LIGHT, diverging=False)).shape == (time, time, 4)


def colours_shown(png):
    shown = pixels(png).reshape(-1, 4)
    return {tuple(pixel[:3]) for pixel in shown[shown[:, 3] > 0]}


@every_ground
@pytest.mark.parametrize("scale", maps.SCALES)
@pytest.mark.parametrize("time", [2, 6, 40, 200])
@pytest.mark.parametrize("causal", [True, False])
def test_no_map_of_a_run_is_all_one_colour(causal, time, scale, colours):
    found = maps.head_maps(traced(config(time=time, causal=causal)))
    _, scaled = maps.scaled(found, 160, scale=scale)
    for picture in tiles(scaled, colours):
        shown = colours_shown(base64.b64decode(picture.partition(",")[2]))
        assert len(shown - {rgb(colours.background)}) > 1


@given(st.integers(2, 40), st.integers(0, 2**16), st.booleans())
def test_values_from_end_to_end_of_the_scale_are_never_one_colour(time, seed, diverging):
    unit = np.random.default_rng(seed).random((time, time)).astype(np.float32)
    unit.flat[[0, -1]] = 0.0, 1.0
    shown = colours_shown(map_png(unit, LIGHT, diverging=diverging))
    assert len(shown - {rgb(LIGHT.background)}) > 1


def test_a_tile_a_head_in_order():
    found = maps.head_maps(traced(config()))
    _, scaled = maps.scaled(found, 48)
    pictures = tiles(scaled, LIGHT)
    assert len(pictures) == config().heads
    for head, picture in enumerate(pictures):
        assert picture == data_uri(map_png(scaled.unit()[head], LIGHT, diverging=False))
    assert len(set(pictures)) == len(pictures)


def test_scores_that_overflowed_are_painted_at_the_end_of_the_scale():
    found = maps.head_maps(overflowing(), "scores")
    _, scaled = maps.scaled(found, 48)
    shown = middles(map_png(scaled.unit()[0], LIGHT, diverging=True), 5)
    assert (shown == [*rgb(LIGHT.diverging[-1]), 255]).all()


def test_a_picture_is_small():
    made = MHAConfig(batch=1, time=160)
    _, scaled = maps.scaled(maps.head_maps(traced(made)), 160)
    assert len(map_png(scaled.unit()[0], LIGHT, diverging=False)) < 160 * 160
