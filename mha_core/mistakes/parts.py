"""What the mistakes and their repairs share: all of attention but the line that is wrong.

Masks are boolean, True = may attend. q, k and v are (batch, h, time, d_k) each.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mha_core.attention import MultiHeadAttention
from mha_core.proofs import as_multihead_attention

# What one forward gives: output (batch, time, d_model) and weights (batch, h, time, time).
Made = tuple[Tensor, Tensor]
Run = Callable[[MultiHeadAttention, Tensor], Made]
# Whether a forward is right, by a property that it must have.
Check = Callable[[Run, MultiHeadAttention, Tensor], bool]


def project(m: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(batch, time, d_model) -> q, k, v, each (batch, h, time, d_k)."""
    batch, time, _ = x.shape
    q, k, v = (
        linear(x).view(batch, time, m.heads, m.d_k).transpose(1, 2)
        for linear in (m.W_q, m.W_k, m.W_v)
    )
    return q, k, v


def score(q: Tensor, k: Tensor) -> Tensor:
    """Scaled scores (batch, h, time, time)."""
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


def join(m: MultiHeadAttention, out: Tensor) -> Tensor:
    """(batch, h, time, d_k) -> (batch, time, d_model), through W_o."""
    joined: Tensor = m.W_o(out.transpose(1, 2).flatten(2))
    return joined


def past(x: Tensor) -> Tensor:
    """The causal mask (time, time): a position sees itself and those before it."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()


def tokens(x: Tensor) -> Tensor:
    """(batch, time), True for a token: of the last item, the second half is padding."""
    batch, time, _ = x.shape
    there = torch.ones(batch, time, dtype=torch.bool)
    there[-1, (time + 1) // 2 :] = False
    return there


def emptied(x: Tensor) -> Tensor:
    """(batch, 1, 1, time), True for a token: the last item is all padding."""
    there = torch.ones(x.shape[0], 1, 1, x.shape[1], dtype=torch.bool)
    there[-1] = False
    return there


def interleaved(m: MultiHeadAttention) -> tuple[Tensor, Tensor | None]:
    """W_q, W_k and W_v as one weight (3 * d_model, d_model), each head's q, k, v rows in turn."""

    def fused(parts: list[Tensor]) -> Tensor:
        # three times (h, d_k, ...) -> (h, 3, d_k, ...)
        return torch.stack([p.unflatten(0, (m.heads, m.d_k)) for p in parts], dim=1).flatten(0, 2)

    linears = (m.W_q, m.W_k, m.W_v)
    weight = fused([linear.weight for linear in linears])
    return weight, None if m.W_q.bias is None else fused([linear.bias for linear in linears])


def theirs(m: MultiHeadAttention, *, batch_first: bool) -> nn.MultiheadAttention:
    """torch's own module with the weights of `m`, in evaluation."""
    module = as_multihead_attention(m)
    module.batch_first = batch_first
    return module


def close(a: Tensor, b: Tensor) -> bool:
    """Equal up to the rounding of a few sums, and no NaN."""
    epsilon = torch.finfo(torch.promote_types(a.dtype, b.dtype)).eps
    wide_a, wide_b = a.double(), b.double()
    size = max(1.0, float(wide_b.abs().max()))
    return a.shape == b.shape and bool(((wide_a - wide_b).abs() <= 200 * epsilon * size).all())
