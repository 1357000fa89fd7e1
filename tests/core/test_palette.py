"""Every colour is the one designed in OKLCH, can be read, and orders as its scale does."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from coloraide import Color

from mha_core.palette import DARK, LIGHT, colorscale, mix, palette, ramp, rgb

HUES = {"batch": 300, "time": 185, "d_model": 65, "h": 15, "d_k": 255}
HEAD_HUES = (255, 35, 150, 320)
TINT_LIGHTNESS = {"light": 0.55, "dark": 0.78}
HEAD_LIGHTNESS = {"light": 0.66, "dark": 0.74}

each_ground = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])


def oklch(colour):
    """Lightness, chroma and hue in degrees."""
    return Color(colour).convert("oklch").coords()


def oklab_lightness(colours):
    return [oklch(colour)[0] for colour in colours]


def hue_gap(one, other):
    return abs((one - other + 180) % 360 - 180)


def every_colour(colours):
    plain = [value for value in vars(colours).values() if isinstance(value, str)]
    groups = [*colours.heads, *colours.sequential, *colours.diverging, *colours.tints.values()]
    return [value for value in plain if value != colours.mode] + groups


@each_ground
def test_every_colour_is_six_hexadecimal_digits(colours):
    for colour in every_colour(colours):
        assert re.fullmatch("#[0-9a-f]{6}", colour)


@each_ground
def test_the_tint_of_every_axis_has_its_hue_and_the_common_lightness(colours):
    assert list(colours.tints) == list(HUES)
    for axis, hue in HUES.items():
        lightness, chroma, actual = oklch(colours.tints[axis])
        assert lightness == pytest.approx(TINT_LIGHTNESS[colours.mode], abs=0.02)
        assert hue_gap(actual, hue) < 3
        # sRGB has no teal of chroma 0.12 at this lightness: the nearest it has.
        assert 0.095 <= chroma <= 0.125


@each_ground
def test_the_first_heads_have_the_designed_hues_and_all_of_the_first_eight_one_lightness(colours):
    for colour, hue in zip(colours.heads, HEAD_HUES, strict=False):
        assert hue_gap(oklch(colour)[2], hue) < 3
    for colour in colours.heads[:8]:
        lightness, chroma, _ = oklch(colour)
        assert lightness == pytest.approx(HEAD_LIGHTNESS[colours.mode], abs=0.02)
        assert 0.11 <= chroma <= 0.145


@each_ground
def test_sixteen_heads_are_distinct_and_then_repeat(colours):
    assert len(colours.heads) == 16
    for one, other in itertools.combinations(colours.heads, 2):
        # Two units of CIEDE2000 can be told apart side by side; these are far beyond.
        assert Color(one).delta_e(other, method="2000") > 6
    assert [colours.head(index) for index in range(32)] == [*colours.heads] * 2


@each_ground
def test_everything_that_is_read_has_a_contrast_of_4_5_to_1_on_page_and_surface(colours):
    read = {name: getattr(colours, name) for name in ("text", "muted", "good", "bad")}
    for name, colour in (read | colours.tints).items():
        for ground in (colours.background, colours.surface):
            contrast = Color(colour).contrast(ground, method="wcag21")
            assert contrast >= 4.5, f"{name} {colour} on {ground}: {contrast:.2f}"


@each_ground
def test_words_on_the_mark_of_a_copy_can_be_read(colours):
    assert Color(colours.text).contrast(colours.copy, method="wcag21") >= 4.5


@each_ground
def test_marks_of_the_heads_stand_out_from_the_page(colours):
    # Filled marks and lines, never text: WCAG asks for 3 of what stands alone; the lightest
    # here has 2.8, and is always labelled.
    for colour in colours.heads:
        assert Color(colour).contrast(colours.background, method="wcag21") >= 2.8


@each_ground
def test_the_sequential_ramp_moves_away_from_the_page_step_by_even_step(colours):
    lightness = oklab_lightness(colours.sequential)
    steps = np.diff(lightness)
    away = -1 if colours.mode == "light" else 1
    assert (away * steps > 0).all()
    assert np.abs(steps).max() < 1.5 * np.abs(steps).min()
    assert abs(lightness[0] - oklch(colours.background)[0]) < 0.08


@each_ground
def test_the_ramp_as_drawn_is_monotone_between_its_anchors_too(colours):
    drawn = ramp(colours.sequential, 256)
    shades = [Color("srgb", [channel / 255 for channel in shade]) for shade in drawn]
    lightness = [shade.convert("oklab")["lightness"] for shade in shades]
    away = -1 if colours.mode == "light" else 1
    # Eight bits a channel round a step by at most this much.
    assert (away * np.diff(lightness) > -0.002).all()


@each_ground
def test_the_diverging_scale_is_as_dark_on_either_side_of_its_middle(colours):
    lightness = oklab_lightness(colours.diverging)
    assert len(lightness) % 2 == 1
    assert lightness == pytest.approx(lightness[::-1], abs=0.01)
    half = lightness[: len(lightness) // 2 + 1]
    towards = 1 if colours.mode == "light" else -1
    assert (towards * np.diff(half) > 0).all()
    middle = oklch(colours.diverging[len(lightness) // 2])
    assert middle[1] < 0.01
    assert abs(middle[0] - oklch(colours.background)[0]) < 0.08


@each_ground
def test_the_two_sides_of_the_diverging_scale_differ_for_every_reader(colours):
    for one, other in zip(colours.diverging[:4], colours.diverging[::-1], strict=False):
        for deficiency in ("protan", "deutan", "tritan"):
            seen = [Color(colour).filter(deficiency) for colour in (one, other)]
            assert seen[0].delta_e(seen[1], method="2000") > 15


@each_ground
def test_a_masked_cell_and_a_copy_look_like_no_weight(colours):
    for weight in ramp(colours.sequential, 16):
        shade = Color("srgb", [channel / 255 for channel in weight])
        for mark in (colours.hatch, colours.copy):
            assert shade.delta_e(mark, method="2000") > 4


def test_the_dark_palette_is_given_when_asked_for_and_the_light_one_otherwise():
    assert palette("dark") is DARK
    assert palette("light") is LIGHT
    assert palette(None) is LIGHT
    assert (LIGHT.mode, DARK.mode) == ("light", "dark")


def test_rgb_mix_ramp_and_colorscale():
    assert rgb("#5294e6") == (82, 148, 230)
    assert mix("#000000", "#ffffff", 0.0) == "#000000"
    assert mix("#000000", "#ffffff", 1.0) == "#ffffff"
    assert mix("#204060", "#406080", 0.5) == "#305070"
    drawn = ramp(("#000000", "#640000", "#64c800"), 5)
    assert drawn.dtype == np.uint8
    assert drawn.tolist() == [[0, 0, 0], [50, 0, 0], [100, 0, 0], [100, 100, 0], [100, 200, 0]]
    assert colorscale(("#000000", "#640000", "#64c800")) == [
        [0.0, "#000000"],
        [0.5, "#640000"],
        [1.0, "#64c800"],
    ]
