"""A weight matrix as pictures, one a head, in the colours of the heads.

A pixel is a number's size: the head's colour at the largest |w| of the matrix, the ground at 0.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from mha_core.figures.raster import data_uri
from mha_core.palette import Palette, rgb

_MOST = 128  # pixels a side


@dataclass(frozen=True)
class Pictures:
    """One picture a head of the matrix in x @ W: (d_model, d_k) each, as data addresses.

    Attributes:
        columns: of W; rows: of Wᵀ, the same turned.
        pooled: numbers that one pixel averages, along either axis at most.
    """

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    pooled: int


def pictures(weight: Tensor, heads: int, colours: Palette) -> Pictures:
    """The pictures of a square weight of `nn.Linear`.

    Args:
        weight: (out, in) = (d_model, d_model); rows i·d_k to (i+1)·d_k − 1 are head i's.
        heads: h.
        colours: of the ground.
    """
    size = weight.detach().abs().float().cpu()
    d_model = size.shape[1]
    each = max(1, min(size.shape[0] // heads, _MOST // heads))
    tall = min(d_model, _MOST)
    # (out, in) -> (h, each, tall): every head pooled by itself, so that no pixel mixes two.
    cut = size.view(heads, 1, size.shape[0] // heads, d_model)
    small = torch.cat([adaptive_avg_pool2d(part, (each, tall)) for part in cut]).numpy()
    unit = np.sqrt(small / (float(small.max()) or 1.0))  # as the eye sees lightness
    made = [_coloured(part, colours.head(head), colours) for head, part in enumerate(unit)]
    pooled = max(-(-d_model // tall), -(-size.shape[0] // heads // each))
    return Pictures(
        columns=tuple(data_uri(_file(picture.transpose(1, 0, 2))) for picture in made),
        rows=tuple(data_uri(_file(picture)) for picture in made),
        pooled=pooled,
    )


def _coloured(unit: NDArray[np.float32], colour: str, colours: Palette) -> NDArray[np.uint8]:
    """(rows, columns) of 0 to 1 -> (rows, columns, 3)."""
    ends = np.array([rgb(colours.background), rgb(colour)], dtype=float)
    mixed: NDArray[np.float64] = ends[0] + unit[..., None] * (ends[1] - ends[0])
    return mixed.round().astype(np.uint8)


def _file(picture: NDArray[np.uint8]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(out, "PNG", compress_level=3)
    return out.getvalue()
