"""What is no picture, is broken or is too large is refused in words, with size and limit."""

from __future__ import annotations

import io
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from mha_core import ConfigError
from mha_core.models import vision_image
from mha_core.models.vision_image import LONGEST, prepare


def random_picture(width, height):
    values = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


def saved(image, kind):
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def refusal(data):
    """What is said of a file that is refused; None where it is read, to the right shape."""
    try:
        shape = prepare(data).pixels.shape
    except ConfigError as error:
        return str(error)
    assert shape == (1, 3, 224, 224)
    return None


def png_header(width, height):
    """The beginning of a PNG that claims a size, and nothing in it."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(
            ">I", zlib.crc32(name + data)
        )  # fmt: skip

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("width", "height", "says"),
    [
        (20_001, 10, r"20,001 x 10 pixels.*at most 20,000 pixels along a side"),
        (10, 20_001, r"10 x 20,001 pixels.*at most 20,000 pixels along a side"),
        (8_001, 8_000, r"has 64,008,000 pixels and must have at most 64,000,000"),
        (13_000, 13_000, r"has 169,000,000 pixels and must have at most 64,000,000"),
        (19_999, 19_999, r"399,960,001 pixels.*at most 64,000,000 pixels"),
        (2**31 - 1, 2**31 - 1, r"image=.*pixels"),
    ],
)
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_with_its_size_and_the_limit(width, height, says):
    with pytest.raises(ConfigError, match=says):
        prepare(png_header(width, height))


def test_a_bomb_is_refused_where_warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigError, match=r"169000000|169,000,000"):
            prepare(png_header(13_000, 13_000))


@pytest.mark.parametrize("size", [(0, 0), (0, 5), (LONGEST + 1, 1), (1, LONGEST + 1)])
def test_images_in_memory_have_the_same_limits(size):
    with pytest.raises(ConfigError, match="pixels"):
        prepare(Image.new("L", size))


def test_a_file_too_large_is_refused_with_its_size_and_the_limit():
    with pytest.raises(ConfigError, match=r"32\.0 MiB.*at most 32\.0 MiB"):
        prepare(bytes(vision_image.MOST_BYTES + 1))


KINDS = ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF"]


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("kind", KINDS)
def test_every_format_is_read_and_refused_when_cut_off(kind):
    data = saved(random_picture(70, 50), kind)
    assert prepare(data).box == (0, 32, 224, 160)
    for share in (0.001, 0.1, 0.5, 0.9):
        with pytest.raises(ConfigError, match=r"image=.*(broken|not a picture)"):
            prepare(data[: int(len(data) * share)])


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused_and_never_fails_otherwise(kind):
    data = saved(random_picture(40, 30), kind)
    random = np.random.default_rng(3)
    for _ in range(40):
        damaged = bytearray(data)
        for place in random.integers(0, min(len(data), 400), 4):
            damaged[place] = random.integers(0, 256)
        # Anything raised that is not a ConfigError about the image fails the test.
        said = refusal(bytes(damaged))
        assert said is None or said.startswith("image=")


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"%!PS-Adobe-3.0 EPSF-3.0\n", b"<svg></svg>"])
def test_what_is_not_a_picture_is_refused(data):
    with pytest.raises(ConfigError, match=r"is not a picture.*A whole file in PNG, JPEG"):
        prepare(data)


@pytest.mark.parametrize("value", [None, "cat.png", 7])
def test_neither_image_nor_bytes_is_refused(value):
    with pytest.raises(ConfigError, match="must be an image or the bytes of a file"):
        prepare(value)
