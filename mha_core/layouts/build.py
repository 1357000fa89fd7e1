"""A layer of a file as our module: bit for bit, in its own dtype."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from mha_core.attention import MultiHeadAttention
from mha_core.devices import DTYPES
from mha_core.errors import ConfigError
from mha_core.layouts.listing import dtype_name, short
from mha_core.layouts.packing import unfuse
from mha_core.layouts.records import Found
from mha_core.layouts.registry import choose, layout_named
from mha_core.sizes import MAX_SIZE, divisors, is_integer, nearest_integer


def build(
    state: Mapping[str, Tensor],
    found: Found,
    *,
    heads: int,
    order: str | None = None,
    orientation: str | None = None,
) -> MultiHeadAttention:
    """The module with copies of the layer's weights, in eval mode, on the CPU.

    A bias that the file lacks is zero where another of the layer has one.

    Args:
        state: what `read_state` returned.
        found: one of `find_layers(state)`.
        heads: number of heads; divides found.d_model.
        order, orientation: answers to the questions in `found.asks`; None where not asked.

    Returns:
        (batch, time, d_model) -> (batch, time, d_model), d_model as found.

    Raises:
        ConfigError: a question without an answer, an answer that does not fit, a number that
            is not finite (naming its tensor and index), or a state without these tensors.
    """
    _check_heads(found.d_model, heads)
    layout = layout_named(found.layout)
    order = choose("order", order, layout.orders, f"layout {layout.name}")
    orientation = choose("orientation", orientation, layout.orientations, f"layout {layout.name}")
    d_model = found.d_model

    def take(name: str, *shape: int) -> Tensor:
        return _take(state, name, shape, DTYPES[found.dtype])

    def flat(name: str, rows: int) -> Tensor:
        """(rows, d_model), however it is stored."""
        if orientation == "conv1d":
            return take(name, d_model, rows).T
        return take(name, rows, d_model)

    if layout.fused:
        matrices = unfuse(flat(found.weights[0], 3 * d_model), heads, order or "stacked")
    else:
        matrices = [flat(name, d_model) for name in found.weights[:-1]]
    matrices.append(flat(found.weights[-1], d_model))

    biases: list[Tensor | None]
    if len(found.biases) == 2:
        first, last = found.biases
        together = take(first, 3 * d_model) if first else None
        three = unfuse(together, heads, order or "stacked") if together is not None else [None] * 3
        biases = [*three, take(last, d_model) if last else None]
    else:
        biases = [take(name, d_model) if name else None for name in found.biases]
    return _module(found, heads, matrices, biases)


def _module(
    found: Found, heads: int, matrices: list[Tensor], biases: list[Tensor | None]
) -> MultiHeadAttention:
    # On the meta device nn.Linear's own initialisation draws nothing from the global generator.
    module = MultiHeadAttention(
        found.d_model, heads, bias=found.bias, device="meta", dtype=DTYPES[found.dtype]
    ).to_empty(device="cpu")
    layers: list[nn.Linear] = [module.W_q, module.W_k, module.W_v, module.W_o]
    with torch.no_grad():
        for layer, matrix, bias in zip(layers, matrices, biases, strict=True):
            layer.weight.copy_(matrix)
            if found.bias:
                layer.bias.zero_() if bias is None else layer.bias.copy_(bias)
    return module.eval()


def _take(
    state: Mapping[str, Tensor], name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> Tensor:
    tensor = state.get(name)
    if tensor is None or tuple(tensor.shape) != shape or tensor.dtype != dtype:
        got = None if tensor is None else f"{tuple(tensor.shape)} {dtype_name(tensor)}"
        expected = f"{shape} {str(dtype).removeprefix('torch.')}"
        raise ConfigError(short(name), got, f"must be {expected}, as it was found")
    wrong = ~torch.isfinite(tensor)
    if wrong.any():
        index = tuple(wrong.nonzero()[0].tolist())
        raise ConfigError(
            short(name),
            tensor[index].item(),
            f"must be finite; the first of {int(wrong.sum())} that are not is at {index}",
        )
    return tensor


def _check_heads(d_model: int, heads: int) -> None:
    """The width is the file's, so heads alone can be repaired."""
    if is_integer(heads, 1, MAX_SIZE) and d_model % heads == 0:
        return
    to = nearest_integer(heads, 1, MAX_SIZE)
    nearest = sorted(divisors(d_model), key=lambda count: (abs(count - to), count))
    raise ConfigError(
        "heads",
        heads,
        f"must be an integer that divides the file's d_model={d_model}",
        works=f"Nearest that work: {', '.join(map(str, nearest[:3]))}",
        repairs=[{"heads": count} for count in nearest[:3]],
    )
