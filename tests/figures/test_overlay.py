"""Attention over a picture: on the right patch, readable on any picture."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mha_core import ConfigError
from mha_core.figures.overlay import PATCHES, SIDE, STYLES, on_picture, overlay_png, paint
from mha_core.palette import DARK, LIGHT, rgb

GROUNDS = {"light": LIGHT, "dark": DARK}
every_ground = pytest.mark.parametrize("colours", GROUNDS.values(), ids=GROUNDS)
every_style = pytest.mark.parametrize("style", STYLES)

# Sizes that no other axis has: a picture is squeezed to the square that is drawn.
BLOCK = 21
PIXELS = SIDE * BLOCK


def noise():
    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (99, 131, 3), dtype=np.uint8))


PICTURES = {
    "white": Image.new("RGB", (224, 224), "white"),
    "black": Image.new("RGB", (224, 224), "black"),
    "grey": Image.new("RGB", (224, 224), (128, 128, 128)),
    "blue": Image.new("RGB", (224, 224), (40, 90, 200)),
    "noise": noise(),
}
every_picture = pytest.mark.parametrize("image", PICTURES.values(), ids=PICTURES)


def random_row(seed=0, *, count=PATCHES + 1):
    return np.random.default_rng(seed).dirichlet(np.full(count, 0.2)).astype(np.float32)


def pixels(image):
    return np.asarray(image.convert("RGB")).astype(int)


def opened(png):
    return pixels(Image.open(io.BytesIO(png)))


def block(shown, row, column):
    return shown[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]


# Rows


def test_a_row_lies_row_by_row_and_cls_apart():
    row = np.arange(PATCHES + 1, dtype=np.float32)
    found = on_picture(row)
    assert found.cls_share.tolist() == [0.0]
    assert found.patches[0, 2, 5] == 1 + 2 * SIDE + 5
    assert np.array_equal(found.patches, on_picture(row[1:]).patches)
    assert np.array_equal(found.patches, on_picture(row[1:].reshape(SIDE, SIDE)).patches)
    assert np.isnan(on_picture(row[1:]).cls_share).all()


@pytest.mark.parametrize("shape", [(3, 257), (3, 256), (3, 16, 16), (1, 257)])
def test_several_rows_are_laid_out_one_by_one(shape):
    rows = np.random.default_rng(0).random(shape)
    found = on_picture(rows)
    assert found.patches.shape == (shape[0], SIDE, SIDE)
    alone = [on_picture(row).patches[0] for row in rows]
    assert np.array_equal(found.patches, alone)


@pytest.mark.parametrize("shape", [(), (255,), (258,), (16, 15), (0, 257), (2, 3, 257), (16,)])
def test_rows_of_another_shape_are_refused(shape):
    with pytest.raises(ConfigError, match=re.escape(f"row={shape}: must be (257,)")):
        on_picture(np.zeros(shape))


@pytest.mark.parametrize("value", [-0.1, np.nan, np.inf])
def test_what_is_no_weight_is_refused(value):
    row = random_row()
    row[7] = value
    with pytest.raises(ConfigError, match="must be numbers from 0 on"):
        on_picture(row)


def test_the_scale_ends_at_the_third_largest_weight_but_not_far_below_the_largest():
    row = np.full(PATCHES, 0.001, dtype=np.float32)
    row[[9, 8, 7]] = 0.4, 0.3, 0.2
    found = on_picture(row)
    assert found.high[0] == np.float32(0.2)
    assert found.clipped[0]
    row[[8, 7]] = 0.002
    assert on_picture(row).high[0] == np.float32(0.4) / 8
    assert not on_picture(np.full(PATCHES, 1 / 256)).clipped[0]


def test_the_weight_on_cls_changes_no_patch():
    row = random_row()
    other = row.copy()
    other[0] = 0.9
    assert np.array_equal(on_picture(row).unit(), on_picture(other).unit())
    assert on_picture(other).cls_share[0] == np.float32(0.9)


def test_rows_together_share_the_largest_scale():
    rows = np.stack([random_row(1) * 0.1, random_row(2)])
    found = on_picture(rows, together=True)
    assert found.high[0] == found.high[1] == on_picture(rows).high.max()


@given(st.integers(0, 1000), st.sampled_from([0.01, 0.2, 5.0]))
def test_half_of_the_weight_is_in_the_fewest_patches(seed, spread):
    row = np.random.default_rng(seed).dirichlet(np.full(PATCHES, spread)).astype(np.float32)
    inside = on_picture(row).half().ravel()
    total = row.sum(dtype=float)
    assert row[inside].sum(dtype=float) >= total / 2 - 1e-6
    assert row[inside].min() >= row[~inside].max()
    assert np.sort(row[inside])[1:].sum(dtype=float) < total / 2 + 1e-6


@every_style
@every_ground
def test_a_row_of_zeros_is_the_picture_without_light(style, colours):
    shown = pixels(paint(noise(), on_picture(np.zeros(257)), colours=colours, style=style))
    assert np.ptp(shown, axis=-1).max() == 0


# Pictures


@every_ground
@every_style
@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, 5), (5, 2), (15, 15), (0, 15), (15, 0)])
def test_a_weight_changes_the_cell_of_its_patch_alone(row, column, style, colours):
    weights = np.zeros((SIDE, SIDE))
    weights[row, column] = 0.7
    how = {"colours": colours, "style": style, "side": PIXELS}
    image = PICTURES["blue"]
    dark = pixels(paint(image, on_picture(np.zeros((SIDE, SIDE))), **how))
    shown = opened(overlay_png(image, weights, **how))
    changed = (shown != dark).any(axis=-1)
    assert block(changed, row, column).all()
    assert changed.sum() == BLOCK * BLOCK


@every_ground
def test_spotlight_is_the_picture_at_full_weight_and_grey_at_none(colours):
    row = np.zeros(PATCHES)
    row[::2] = 0.01
    shown = pixels(paint(noise(), on_picture(row), colours=colours, side=PIXELS))
    plain = pixels(noise().resize((PIXELS, PIXELS), Image.Resampling.BICUBIC))
    assert np.array_equal(block(shown, 4, 6), block(plain, 4, 6))
    assert np.ptp(block(shown, 4, 7), axis=-1).max() == 0


@every_ground
@every_picture
def test_with_a_tint_more_weight_is_more_ink_on_any_picture(image, colours):
    """In every cell: darker on a light ground, lighter on a dark one, than with less weight."""
    sign = -1 if colours.mode == "light" else 1
    levels = []
    for weight in (0.0, 0.1, 0.3, 0.6, 1.0):
        row = np.full(PATCHES, weight)
        row[:3] = 1.0  # holds the scale
        shown = pixels(paint(image, on_picture(row), colours=colours, style="tint", side=PIXELS))
        levels.append(sign * (shown @ (0.2126, 0.7152, 0.0722))[BLOCK:].mean())
    assert (np.diff(levels) > 0).all()
    assert levels[-1] - levels[0] > 45


@every_ground
@every_picture
@every_style
@pytest.mark.parametrize("patch", [0, 15, 37, 240, 255])
def test_the_chosen_patch_is_outlined_on_any_picture(patch, style, image, colours):
    how = {"colours": colours, "style": style, "side": PIXELS}
    rows = on_picture(random_row())
    shown = pixels(paint(image, rows, patch=patch, **how))
    row, column = divmod(patch, SIDE)
    ring = (shown == rgb(colours.text)).all(axis=-1)
    halo = (shown == rgb(colours.background)).all(axis=-1)
    top, left = row * BLOCK, column * BLOCK
    near = np.zeros_like(ring)
    near[max(0, top - 3) : top + BLOCK + 3, max(0, left - 3) : left + BLOCK + 3] = True
    bare = pixels(paint(image, rows, **how))
    assert not (shown != bare).any(axis=-1)[~near].any()
    # All four sides, within the picture even at its edges.
    across = np.flatnonzero((ring & near)[top + BLOCK // 2]) - left
    down = np.flatnonzero((ring & near)[:, left + BLOCK // 2]) - top
    for line in (across, down):
        assert line.min() < 3
        assert line.max() > BLOCK - 4
    assert (halo & near).sum() > 2 * BLOCK


@pytest.mark.parametrize("patch", [0, 255])
def test_an_outline_of_one_pixel_is_whole_at_the_edges(patch):
    rows = on_picture(random_row())
    shown = pixels(paint(PICTURES["grey"], rows, colours=LIGHT, patch=patch, side=SIDE * 8))
    ring = (shown == rgb(LIGHT.text)).all(axis=-1)
    edge = 0 if patch == 0 else -1
    assert ring[edge].sum() >= 7
    assert ring[:, edge].sum() >= 7


@every_ground
def test_the_line_around_half_of_the_weight_has_the_heads_colour(colours):
    row = np.zeros((SIDE, SIDE))
    row[4:7, 8:10] = 0.1
    how = {"colours": colours, "side": PIXELS}
    rows = on_picture(row)
    inside = np.kron(rows.half()[0], np.ones((BLOCK, BLOCK))).astype(bool)
    shown = pixels(paint(PICTURES["black"], rows, head=2, **how))
    line = (shown == rgb(colours.head(2))).all(axis=-1)
    assert line.any()
    # Every point of the line lies between a patch inside and one outside.
    edge = np.zeros_like(inside)
    for step in (-1, 1):
        for axis in (0, 1):
            edge |= np.roll(inside, step, axis) != inside
    assert (edge[line]).mean() > 0.9
    without = pixels(paint(PICTURES["black"], rows, **how))
    assert not (without == rgb(colours.head(2))).all(axis=-1).any()


def test_the_grounds_and_the_styles_differ():
    row = random_row()
    files = {
        overlay_png(noise(), row, colours=colours, style=style)
        for colours in (LIGHT, DARK)
        for style in STYLES
    }
    assert len(files) == 4


def test_what_is_drawn_has_the_size_asked_for():
    for side in (16, 224, 672):
        assert opened(overlay_png(noise(), random_row(), colours=LIGHT, side=side)).shape == (
            side, side, 3,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"patch": -1}, "patch=-1: must be from 0 to 255"),
        ({"patch": 256}, "patch=256: must be from 0 to 255"),
        ({"side": 100}, "side=100: must be a multiple of 16"),
        ({"side": 0}, "side=0: must be a multiple of 16"),
        ({"style": "rainbow"}, "style='rainbow': is not offered. spotlight, tint"),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes, says):
    with pytest.raises(ConfigError, match=says):
        overlay_png(noise(), random_row(), **{"colours": LIGHT, **changes})
