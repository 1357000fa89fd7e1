"""Three matrices in one, and back: along the first axis, so that biases go the same way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def unfuse(fused: Tensor, heads: int, order: str) -> list[Tensor]:
    """(3 d_model, ...) -> those of query, key and value, each (d_model, ...).

    Args:
        fused: matrix (3 d_model, d_model) or bias (3 d_model,).
        heads: h; divides d_model.
        order: "stacked", rows are [3, h, d_k]; or "interleaved", rows are [h, 3, d_k].
    """
    if order == "stacked":
        return list(fused.chunk(3))
    rest = fused.shape[1:]
    d_k = fused.shape[0] // (3 * heads)
    by_head = fused.reshape(heads, 3, d_k, *rest)
    # (h, d_k, ...) -> (d_model, ...)
    return [by_head[:, part].reshape(heads * d_k, *rest) for part in range(3)]


def fuse(parts: Sequence[Tensor], heads: int, order: str) -> Tensor:
    """The inverse of `unfuse`: three (d_model, ...) -> (3 d_model, ...)."""
    if order == "stacked":
        return torch.cat(list(parts))
    d_model, *rest = parts[0].shape
    # (d_model, ...) x 3 -> (h, 3, d_k, ...)
    by_head = torch.stack([part.reshape(heads, d_model // heads, *rest) for part in parts], dim=1)
    return by_head.reshape(3 * d_model, *rest)
