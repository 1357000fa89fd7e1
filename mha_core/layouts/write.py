"""Our module under the names of any layout: the inverse of `build`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mha_core.attention import MultiHeadAttention
from mha_core.layouts.packing import fuse
from mha_core.layouts.registry import choose, layout_named


def write(
    module: MultiHeadAttention,
    layout: str,
    *,
    prefix: str = "",
    order: str | None = None,
    orientation: str | None = None,
) -> dict[str, Tensor]:
    """Copies of the module's weights, named and stored as `layout` does.

    A module without biases writes none.

    Args:
        module: ours; its dtype is kept.
        layout: key in `LAYOUTS`.
        prefix: put before every name, with its dot, e.g. "h.0.attn.".
        order: "stacked" or "interleaved", where the layout has both; else None.
        orientation: "linear" or "conv1d", where the layout has both; else None.

    Returns:
        Contiguous tensors on the CPU by name; no two share memory.

    Raises:
        ConfigError: an unknown layout, or a choice that is missing or not the layout's.
    """
    form = layout_named(layout)
    order = choose("order", order, form.orders, f"layout {layout}")
    orientation = choose("orientation", orientation, form.orientations, f"layout {layout}")
    layers: list[nn.Linear] = [module.W_q, module.W_k, module.W_v, module.W_o]
    matrices = _named(form.weights, [layer.weight for layer in layers], module.heads, order)
    if orientation == "conv1d":
        matrices = {name: matrix.T for name, matrix in matrices.items()}
    vectors: dict[str, Tensor] = {}
    if any(layer.bias is not None for layer in layers):
        biases = [_bias(layer) for layer in layers]
        vectors = _named(form.biases, biases, module.heads, order)
    return {prefix + name: _copy(tensor) for name, tensor in (matrices | vectors).items()}


def _named(
    names: Sequence[str], four: Sequence[Tensor], heads: int, order: str | None
) -> dict[str, Tensor]:
    if len(names) == 2:
        four = [fuse(four[:3], heads, order or "stacked"), four[3]]
    return dict(zip(names, four, strict=True))


def _bias(layer: nn.Linear) -> Tensor:
    """A bias of zeros changes nothing, and some layouts have one tensor for three of them."""
    bias: Tensor | None = layer.bias
    return layer.weight.new_zeros(layer.out_features) if bias is None else bias


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu").clone(memory_format=torch.contiguous_format)
