"""Vision models of transformers on a picture: ViT, DINOv2 and others of patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import nn

from mha_core.errors import ConfigError
from mha_core.models.capture import capture
from mha_core.models.encoded import Encoded
from mha_core.models.layer import Captured
from mha_core.models.vision_image import decoded


@dataclass(frozen=True)
class ImageModel:
    """A vision model and what prepares its pictures.

    Attributes:
        name: for people.
        model, processor: of transformers.
        layers, heads, d_model: as its configuration says.
    """

    name: str
    model: nn.Module
    processor: Any
    layers: int
    heads: int
    d_model: int

    def encode(self, image: Image.Image | bytes) -> Encoded:
        """One picture; its tokens are [CLS], registers if the model has some, and patches.

        Raises:
            ConfigError: a picture that cannot be read, or that the model does not take.
        """
        picture = decoded(image)
        try:
            pixels = self.processor(images=picture, return_tensors="pt")["pixel_values"]
            with torch.no_grad():
                time = self.model.embeddings(pixels).shape[1]  # type: ignore[operator]
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                "picture", f"{picture.width} × {picture.height}",
                f"is not taken by {self.name}: {said[:160]}",
            ) from error  # fmt: skip
        config: Any = self.model.config
        rows, columns = (int(side) // int(config.patch_size) for side in pixels.shape[-2:])
        before = time - rows * columns
        names = ["[CLS]", *(f"[REG {n}]" for n in range(1, before))][: max(0, before)]
        names += [f"patch {row},{column}" for row in range(rows) for column in range(columns)]
        special = (True,) * max(0, before) + (False,) * (rows * columns)
        return Encoded({"pixel_values": pixels}, (tuple(names),), (special,), (time,))

    def capture(self, encoded: Encoded, layer: int) -> Captured:
        """One layer, on this picture.

        Raises:
            ConfigError: no such layer; see `capture`.
        """
        return capture(self.model, encoded.inputs, layer, name=self.name)
