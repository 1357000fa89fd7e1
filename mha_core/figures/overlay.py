"""A row of attention over the picture it reads: where a head looks, patch by patch.

Two ways to show it. "spotlight" leaves the picture its light and its colours where the weight is
and takes them away elsewhere: it shows what a head looks at. "tint" turns the picture grey and
makes the weight the colour: it shows how much, on any picture. In both a line encloses the fewest
patches that hold half of the weight. A patch is one even cell, as it is one key to the model:
nothing is smoothed between patches.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageDraw

from mha_core.errors import ConfigError
from mha_core.palette import Palette, ramp, rgb

SIDE = 16  # patches along a side
PATCHES = SIDE * SIDE

Style = Literal["spotlight", "tint"]
STYLES: tuple[Style, ...] = ("spotlight", "tint")

Floats = NDArray[np.float32]
Pixels = NDArray[np.float32]

# A query's own patch often outshines all others: the scale ends at the third largest weight, but
# not below an eighth of the largest, so that what is next to nothing does not look like much.
_RANK, _FLOOR = 3, 8

# Black and white of the picture where the weight is 0, by ground and style. With a tint the ground
# is the lighter end (or the darker, on a dark one), so that more weight always reads as more ink.
_FADED = {
    ("light", "spotlight"): (0.66, 0.90), ("dark", "spotlight"): (0.06, 0.26),
    ("light", "tint"): (0.56, 1.0), ("dark", "tint"): (0.07, 0.46),
}  # fmt: skip
_SPOT = 1.4  # a middling weight gets less than half of its colours back: what is lit stands out
_COVER = 0.9  # of the ink at full weight; the drawing of the picture shows through


@dataclass(frozen=True)
class Rows:
    """Rows of weights as they lie on the picture, and their scale.

    Attributes:
        patches: float32 (rows, 16, 16).
        cls_share: (rows,), the weight on [CLS], which has no place on the picture; NaN where
            the rows came without it.
        high: (rows,), the weight at the end of the scale, which begins at 0.
        clipped: whether a weight is beyond it, (rows,).
    """

    patches: Floats
    cls_share: Floats
    high: Floats
    clipped: NDArray[np.bool_]

    def unit(self) -> Floats:
        """(rows, 16, 16), place on the scale, 0 to 1: the square root of the share of its end.

        One patch often has ten times the weight of those around it; a root keeps both visible.
        """
        share = self.patches / np.maximum(self.high, np.float32(1e-30))[:, None, None]
        place: Floats = np.sqrt(np.clip(share, 0.0, 1.0))
        return place

    def half(self) -> NDArray[np.bool_]:
        """(rows, 16, 16), the fewest patches that together hold half of the picture's weight."""
        flat = self.patches.reshape(len(self.patches), -1)
        order = np.argsort(-flat, axis=1, kind="stable")
        sums = np.cumsum(np.take_along_axis(flat, order, axis=1), axis=1, dtype=np.float64)
        before = sums - np.take_along_axis(flat, order, axis=1)
        inside = np.zeros(flat.shape, dtype=bool)
        np.put_along_axis(inside, order, before < sums[:, -1:] / 2, axis=1)
        return inside.reshape(self.patches.shape)


def on_picture(rows: ArrayLike, *, together: bool = False) -> Rows:
    """The weights of one query, or of one query in several heads, laid out as the patches lie.

    Args:
        rows: (257,) or (rows, 257) with [CLS] first; or without it (256,), (rows, 256),
            (16, 16) or (rows, 16, 16).
        together: one scale for all rows; else each has its own. [CLS] stretches neither.

    Raises:
        ConfigError: another shape, or a weight that is negative or no number.
    """
    values = np.asarray(rows, dtype=np.float32)
    shape = values.shape
    if shape[-2:] == (SIDE, SIDE):
        values = values.reshape(-1, PATCHES)
    elif values.ndim == 1:
        values = values[None]
    if values.ndim != 2 or values.shape[1] not in (PATCHES, PATCHES + 1) or not len(values):
        raise ConfigError(
            "row", shape, f"must be ({PATCHES + 1},) with [CLS] first, ({PATCHES},) or "
            f"({SIDE}, {SIDE}), or several of one of them",
        )  # fmt: skip
    if not (np.isfinite(values).all() and (values >= 0).all()):
        raise ConfigError("row", "weights", "must be numbers from 0 on")
    share = np.full(len(values), np.nan, dtype=np.float32)
    if values.shape[1] > PATCHES:
        share, values = values[:, 0], values[:, 1:]
    largest = values.max(axis=1)
    high = np.maximum(np.partition(values, -_RANK, axis=1)[:, -_RANK], largest / _FLOOR)
    if together:
        high = np.full_like(high, high.max())
    return Rows(values.reshape(-1, SIDE, SIDE), share, high, largest > high)


def overlay_png(
    image: Image.Image,
    row: ArrayLike,
    *,
    colours: Palette,
    style: Style = "spotlight",
    patch: int | None = None,
    head: int | None = None,
    side: int = 672,
) -> bytes:
    """One head's attention over the picture, as a PNG of side x side pixels.

    Args:
        image: square, e.g. `Prepared.picture`; another is squeezed.
        row: the weights of one query, see `on_picture`, which also tells the share of [CLS].
        colours: of the ground.
        style: see this module.
        patch: the query's patch, 0 to 255, outlined; None for [CLS], which lies nowhere.
        head: gives the line around half of the weight its colour; None draws none.
        side: a multiple of 16.

    Raises:
        ConfigError: a row of another shape, no such patch, side or style.
    """
    out = io.BytesIO()
    picture = paint(
        image, on_picture(row), colours=colours, style=style, patch=patch, head=head, side=side
    )
    picture.save(out, "PNG", compress_level=6)
    return out.getvalue()


def paint(
    image: Image.Image,
    rows: Rows,
    index: int = 0,
    *,
    colours: Palette,
    style: Style = "spotlight",
    patch: int | None = None,
    head: int | None = None,
    side: int = 672,
) -> Image.Image:
    """The picture under row `index`: RGB, side x side; the rest as for `overlay_png`."""
    check_patch(patch)
    if side < SIDE or side % SIDE:
        raise ConfigError("side", side, f"must be a multiple of {SIDE}")
    if style not in STYLES:
        raise ConfigError("style", style, "is not offered", works=", ".join(STYLES))
    block = side // SIDE
    # (16, 16) -> (side, side, 1): a cell a patch
    place = np.kron(rows.unit()[index], np.ones((block, block), dtype=np.float32))[..., None]
    mixed = _mixed(_fitted(image, side), place, style, colours)
    picture = Image.fromarray((np.clip(mixed, 0, 1) * 255).round().astype(np.uint8))
    if head is not None:
        _enclose(picture, rows.half()[index], block, colours.head(head), colours.background)
    if patch is not None:
        cell = np.zeros((SIDE, SIDE), dtype=bool)
        cell[divmod(patch, SIDE)] = True
        _enclose(picture, cell, block, colours.text, colours.background, heavy=True)
    return picture


def check_patch(patch: int | None) -> None:
    """Raises ConfigError unless it is a patch's number or None."""
    if patch is not None and not 0 <= patch < PATCHES:
        raise ConfigError("patch", patch, f"must be from 0 to {PATCHES - 1}")


def _fitted(image: Image.Image, side: int) -> Image.Image:
    kind = Image.Resampling.BOX if image.width > side else Image.Resampling.BICUBIC
    return image.convert("RGB").resize((side, side), kind)


def _mixed(picture: Image.Image, place: Pixels, style: Style, colours: Palette) -> Pixels:
    """(side, side, 3), 0 to 1."""
    grey = np.asarray(picture.convert("L"), dtype=np.float32)[..., None] / 255
    black, white = _FADED[colours.mode, style]
    faded = black + (white - black) * grey
    if style == "spotlight":
        lit = np.asarray(picture, dtype=np.float32) / 255
        share = place**_SPOT
        return faded * (1 - share) + lit * share
    inks = ramp(colours.sequential, 256).astype(np.float32) / 255
    ink = inks[(place[..., 0] * 255).round().astype(np.intp)]
    # What the picture draws, lighter and darker than its middle, goes on under the ink.
    drawn = ink + (faded - (black + white) / 2)
    cover = _COVER * place**0.75
    mixed: Pixels = faded * (1 - cover) + drawn * cover
    return mixed


def _enclose(
    picture: Image.Image,
    cells: NDArray[np.bool_],
    block: int,
    colour: str,
    halo: str,
    *,
    heavy: bool = False,
) -> None:
    """A line around the cells, on a halo of the ground: it shows on any picture."""
    thin = max(1, round(block / (14 if heavy else 20)))
    draw = ImageDraw.Draw(picture)
    for width, ink in ((3 * thin, halo), (thin, colour)):
        for box in _edges(cells, block, width):
            draw.rectangle(box, fill=rgb(ink))


def _edges(
    cells: NDArray[np.bool_], block: int, width: int
) -> list[tuple[float, float, float, float]]:
    """The sides between a cell that is inside and one that is not, as bars of that width."""
    last = SIDE * block - 1
    low, high = -(width // 2), width - width // 2 - 1
    around = np.pad(cells, 1)
    bars = []
    for row, column in np.argwhere(around[1:] != around[:-1]):
        # Between rows: the bar is moved inside where it would leave the picture.
        y, x = row * block, (column - 1) * block
        y = min(max(y, -low), last - high)
        bars.append((x + low, y + low, x + block + high, y + high))
    for row, column in np.argwhere(around[:, 1:] != around[:, :-1]):
        y, x = (row - 1) * block, column * block
        x = min(max(x, -low), last - high)
        bars.append((x + low, y + low, x + high, y + block + high))
    return bars
