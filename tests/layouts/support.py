"""What these tests share: odd sizes, random states, and a module's output with its weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mha_core import MultiHeadAttention
from mha_core.layouts import LAYOUTS, Found, build, find_layers, read_state, to_bytes, write
from tests.core.support import HEADS, randn, seeded

ROLES = ("W_q", "W_k", "W_v", "W_o")


def through_a_file(state: dict[str, Tensor], form: str = "safetensors") -> dict[str, Tensor]:
    return read_state(to_bytes(state, form), f"weights.{form}")


def only(state: dict[str, Tensor]) -> Found:
    """The one layer of a state."""
    found = find_layers(state)
    assert len(found) == 1
    return found[0]


def choices(layout: str, order: str = "stacked", orientation: str = "linear") -> dict[str, str]:
    """The answers that a layout asks for, and no others."""
    answers = {}
    if len(LAYOUTS[layout].orders) > 1:
        answers["order"] = order
    if len(LAYOUTS[layout].orientations) > 1:
        answers["orientation"] = orientation
    return answers


def layer(layout: str, *, prefix: str = "", **changes: Any) -> dict[str, Tensor]:
    """A seeded layer of the odd sizes under a layout's names."""
    return write(seeded(**changes), layout, prefix=prefix, **choices(layout))


def read(state: dict[str, Tensor], heads: int = HEADS, **answers: Any) -> MultiHeadAttention:
    """The one layer of a state, through a file."""
    state = through_a_file(state)
    return build(state, only(state), heads=heads, **answers)


def run(module: MultiHeadAttention, x: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Output and weights."""
    seen: dict[str, Tensor] = {}

    def observe(step: str, tensor: Tensor) -> Tensor:
        seen[step] = tensor
        return tensor

    with torch.no_grad():
        return module(x, observe=observe, **options), seen["softmax"]


def randomize(module: nn.Module, seed: int = 7) -> nn.Module:
    """Every parameter drawn anew, biases too: torch and transformers begin with zeros there."""
    with torch.no_grad():
        for place, parameter in enumerate(module.parameters()):
            parameter.copy_(randn(*parameter.shape, seed=seed + place) / 3)
    return module


def same(one: MultiHeadAttention, other: MultiHeadAttention) -> bool:
    """The same parameters, dtypes and bits."""
    ones, others = one.state_dict(), other.state_dict()
    return ones.keys() == others.keys() and all(equal(ones[name], others[name]) for name in ones)


def equal(one: Tensor, other: Tensor) -> bool:
    """Bit for bit: a zero has a sign."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
