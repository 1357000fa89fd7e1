"""Pictures of every kind become what the model takes."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from mha_core.models.vision import sample_image
from mha_core.models.vision_image import LONGEST, prepare

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def colours(prepared):
    """(224, 224, 3), 0 to 255: what was normalised, taken back."""
    values = prepared.pixels[0].permute(1, 2, 0).double().numpy()
    return (values * STD + MEAN) * 255


def random_picture(width, height, seed=0):
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def saved(image, kind, **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def test_a_picture_of_the_models_size_is_normalised_and_nothing_else():
    image = random_picture(224, 224)
    found = prepare(image)
    assert found.pixels.shape == (1, 3, 224, 224)
    assert found.box == (0, 0, 224, 224)
    assert np.abs(colours(found) - np.asarray(image)).max() < 1e-3


def test_a_larger_picture_is_averaged_over_areas():
    image = random_picture(448, 448)
    means = np.asarray(image, dtype=float).reshape(224, 2, 224, 2, 3).mean(axis=(1, 3))
    # Rounded along rows, and again along columns.
    assert np.abs(colours(prepare(image)) - means).max() <= 1.01


@pytest.mark.parametrize(
    ("size", "box"),
    [
        ((448, 224), (0, 56, 224, 112)),
        ((224, 448), (56, 0, 112, 224)),
        ((100, 50), (0, 56, 224, 112)),
        ((1, 1), (0, 0, 224, 224)),
        ((LONGEST, 1), (0, 111, 224, 1)),
        ((1, LONGEST), (111, 0, 1, 224)),
        ((640, 427), (0, 37, 224, 149)),  # an odd rest: the larger half is below
    ],
)
def test_the_longest_side_fills_the_square_and_the_rest_is_black(size, box):
    found = prepare(Image.new("RGB", size, (255, 255, 255)))
    assert found.box == box
    left, top, width, height = box
    inside = np.zeros((224, 224), dtype=bool)
    inside[top : top + height, left : left + width] = True
    shown = colours(found)
    assert np.abs(shown[inside] - 255).max() < 1e-3
    assert np.abs(shown[~inside]).max(initial=0) < 1e-3


def test_people_see_the_square_that_the_model_sees():
    found = prepare(sample_image().crop((0, 0, 672, 400)))
    assert found.picture.size == (672, 672)
    assert found.picture.mode == "RGB"
    small = np.asarray(found.picture.resize((224, 224), Image.Resampling.BOX), dtype=float)
    assert np.abs(small - colours(found)).mean() < 2


# (237, 28, 36) and what each mode can hold of it, with the loss of its conversion.
RED = (237, 28, 36)
GREY = round(0.299 * 237 + 0.587 * 28 + 0.114 * 36)
MODES = {
    "1": ((255, 255, 255), 0),
    "L": ((GREY,) * 3, 1),
    "LA": ((GREY,) * 3, 1),
    "P": (RED, 8),
    "PA": (RED, 8),
    "RGB": (RED, 0),
    "RGBA": (RED, 0),
    "RGBX": (RED, 0),
    "CMYK": (RED, 1),
    "YCbCr": (RED, 3),
    "HSV": (RED, 3),
}


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_keeps_its_colour(mode):
    image = Image.new("RGB", (30, 20), RED)
    if mode == "1":
        image = Image.new("1", (30, 20), 1)
    elif mode == "PA":
        image = image.convert("P").convert("PA")
    else:
        image = image.convert(mode)
    assert image.mode == mode
    wanted, loss = MODES[mode]
    middle = colours(prepare(image))[112, 112]
    assert np.abs(middle - wanted).max() <= loss + 1e-3


@pytest.mark.parametrize("mode", ["LA", "La", "PA", "RGBA", "RGBa"])
def test_what_is_transparent_is_white(mode):
    image = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
    if mode in ("La", "PA"):
        image = image.convert("LA").convert("La") if mode == "La" else Image.new("PA", (16, 16))
    else:
        image = image.convert(mode)
    assert image.mode == mode
    assert colours(prepare(image)).min() > 254.99


def test_half_transparent_is_half_white():
    image = Image.new("RGBA", (8, 8), (200, 0, 100, 128))
    wanted = np.array([200, 0, 100]) * 128 / 255 + 255 * 127 / 255
    assert np.abs(colours(prepare(image))[0, 0] - wanted).max() < 1.5


def test_the_transparent_colour_of_a_palette_is_white():
    image = Image.new("P", (16, 16), 1)
    image.putpalette([10, 10, 10, 0, 128, 0])
    image.paste(0, (0, 0, 8, 16))
    found = colours(prepare(saved(image, "PNG", transparency=0)))
    assert found[100, 20].min() > 254.99
    assert np.abs(found[100, 200] - (0, 128, 0)).max() < 1e-3


@pytest.mark.parametrize("kind", ["I;16", "I;16B", "I;16L"])
def test_16_bits_of_grey_become_8(kind):
    order = ">u2" if kind == "I;16B" else "<u2"
    values = np.array([[0, 257 * 100], [257 * 200, 65535]]).astype(order)
    image = Image.frombytes(kind, (2, 2), values.tobytes())
    found = colours(prepare(image))
    corners = [found[0, 0, 0], found[0, -1, 0], found[-1, 0, 0], found[-1, -1, 0]]
    assert np.abs(np.subtract(corners, (0, 100, 200, 255))).max() < 1


def test_a_16_bit_file_is_read():
    image = Image.fromarray(np.full((5, 5), 257 * 80, dtype=np.uint16))
    assert abs(colours(prepare(saved(image, "PNG")))[9, 9, 0] - 80) < 1


@pytest.mark.parametrize(("mode", "kind"), [("F", np.float32), ("I", np.int32)])
def test_what_has_no_range_is_stretched(mode, kind):
    image = Image.fromarray(np.array([[-3, 7], [2, 7]], dtype=kind))
    assert image.mode == mode
    found = colours(prepare(image))[..., 0]
    assert np.abs(np.subtract([found[0, 0], found[-1, 0], found[-1, -1]], (0, 128, 255))).max() < 1


def test_floats_that_are_no_numbers_are_its_ends():
    image = Image.fromarray(np.array([[np.nan, np.inf], [-np.inf, 1], [0, 2]], dtype=np.float32))
    found = colours(prepare(image))
    assert np.isfinite(found).all()
    even = Image.fromarray(np.full((3, 3), np.nan, dtype=np.float32))
    assert np.ptp(colours(prepare(even))) < 1e-3


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_photograph_is_turned_as_it_says(orientation):
    """Red is upper left once turned, green upper right, whatever way it is stored."""
    upright = Image.new("RGB", (64, 32))
    upright.paste((255, 0, 0), (0, 0, 16, 16))
    upright.paste((0, 255, 0), (48, 0, 64, 16))
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM, 5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = upright.transpose(turns[orientation]) if orientation > 1 else upright
    exif = Image.Exif()
    exif[0x0112] = orientation
    found = prepare(saved(stored, "PNG", exif=exif))
    assert found.box == (0, 56, 224, 112)
    shown = colours(found)
    assert np.abs(shown[60, 4] - (255, 0, 0)).max() < 1
    assert np.abs(shown[60, 219] - (0, 255, 0)).max() < 1


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_an_animation_the_first_frame_is_taken(kind):
    frames = [Image.new("RGB", (20, 20), c) for c in ("red", "lime", "blue")]
    data = saved(frames[0], kind, save_all=True, append_images=frames[1:])
    assert np.abs(colours(prepare(data))[100, 100] - (255, 0, 0)).max() < 6
    with Image.open(io.BytesIO(data)) as opened:
        opened.seek(2)
        assert np.abs(colours(prepare(opened))[100, 100] - (255, 0, 0)).max() < 6
        assert opened.tell() == 2


def test_what_comes_in_is_left_as_it_was():
    image = random_picture(50, 40)
    before = image.tobytes()
    prepare(image).picture.paste((0, 0, 0), (0, 0, 672, 672))
    assert image.tobytes() == before


def test_the_sample_is_a_square_with_colours_of_every_kind():
    image = sample_image()
    assert image.mode == "RGB"
    assert image.size == (672, 672)
    assert len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) > 50
