"""Maps as small pictures: palette PNGs, one byte a pixel, masked cells transparent."""

from __future__ import annotations

import base64
import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mha_core.maps import Scaled
from mha_core.palette import Palette, ramp, rgb

_LEVELS = 64  # steps of colour: what the eye tells apart, and what compresses well
_CLEAR = 255  # palette index of a masked cell
_GAP = 254  # palette index of the hairline between cells
_FAULT = 253  # palette index of what should be a number and is none


def map_png(
    unit: NDArray[np.float32],
    colours: Palette,
    *,
    diverging: bool,
    faults: NDArray[np.bool_] | None = None,
) -> bytes:
    """One map as a PNG.

    Args:
        unit: (rows, columns), place on the colour scale from 0 to 1; NaN where masked.
        colours: of the ground.
        diverging: the scale centred at 0, else the sequential one.
        faults: (rows, columns), True where NaN does not mean masked.

    Returns:
        The file's bytes. Cells of a small map are blocks with a hairline between them.
    """
    masked = np.isnan(unit)
    codes = (np.nan_to_num(unit) * (_LEVELS - 1)).round().astype(np.uint8)
    codes[masked] = _CLEAR
    if faults is not None:
        codes[faults] = _FAULT
    side = max(codes.shape)
    if side <= 32:
        block = 192 // side
        codes = np.kron(codes, np.ones((block, block), dtype=np.uint8))
        gone = codes == _CLEAR
        codes[block::block, :] = _GAP
        codes[:, block::block] = _GAP
        codes[gone] = _CLEAR
        if faults is not None:
            _cross(codes, faults, block)
    picture = Image.fromarray(codes, mode="P")
    anchors = colours.diverging if diverging else colours.sequential
    table = np.zeros((256, 3), dtype=np.uint8)
    table[:_LEVELS] = ramp(anchors, _LEVELS)
    table[_GAP] = rgb(colours.background)
    table[_FAULT] = rgb(colours.bad)
    picture.putpalette(table.tobytes())
    out = io.BytesIO()
    picture.save(out, "PNG", transparency=_CLEAR, optimize=False, compress_level=3)
    return out.getvalue()


def _cross(codes: NDArray[np.uint8], faults: NDArray[np.bool_], block: int) -> None:
    """Crosses out what is no number: colour alone would not tell it from a high value."""
    rows, columns = np.nonzero(faults)
    along = np.arange(block // 4, block - block // 4)
    width = max(1, block // 12)
    for row, column in zip(rows, columns, strict=True):
        cell = codes[row * block : (row + 1) * block, column * block : (column + 1) * block]
        for shift in range(width):
            at = np.minimum(along + shift, block - 1)
            cell[along, at] = _GAP
            cell[along, block - 1 - at] = _GAP


def data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def tiles(scaled: Scaled, colours: Palette) -> list[str]:
    """One data URI a head."""
    return [data_uri(map_png(unit, colours, diverging=scaled.diverging)) for unit in scaled.unit()]
