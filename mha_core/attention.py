"""Multi-head attention, the one implementation: everything shown or exported comes from here.

Shapes: batch, time, d_model; h heads of width d_k = d_model / h. Tq and Tk are the numbers of
queries and keys where they differ; in the module both are time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mha_core import masks
from mha_core.config import check_dropout, check_fill, check_flag, check_scale
from mha_core.errors import ConfigError
from mha_core.sizes import check_widths

# Called with (step id, tensor) at every step; what it returns goes on to the next step.
Observe = Callable[[str, Tensor], Tensor]


def _unobserved(_step: str, tensor: Tensor) -> Tensor:
    return tensor


def split(x: Tensor, heads: int) -> Tensor:
    """(batch, time, d_model) -> (batch, time, h, d_k). A view: no byte moves."""
    batch, time, d_model = x.shape
    return x.view(batch, time, heads, d_model // heads)


def swap_time_and_heads(x: Tensor) -> Tensor:
    """(batch, time, h, d_k) <-> (batch, h, time, d_k). A view with two strides exchanged."""
    return x.transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    """(batch, time, h, d_k) -> (batch, time, d_model).

    After a transpose the heads of one position do not lie side by side in memory, so `view`
    alone raises; `contiguous()` copies them there first.
    """
    batch, time, heads, d_k = x.shape
    return x.contiguous().view(batch, time, heads * d_k)


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    fill: float = -math.inf,
    generator: torch.Generator | None = None,
    observe: Observe | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / sqrt(d_k) + mask) v for every head (Vaswani et al. 2017, equation 1).

    Args:
        q: (batch, h, Tq, d_k).
        k: (batch, h, Tk, d_k).
        v: (batch, h, Tk, d_v); d_v may differ from d_k.
        mask: broadcastable to (batch, h, Tq, Tk). Boolean, True = may attend (as
            `F.scaled_dot_product_attention`; the opposite of `nn.MultiheadAttention`, see
            `masks.flip`), or floating point, added to the scaled scores.
        causal: query i sees keys 0..i, aligned upper-left where Tq differs from Tk.
        scale: factor on the scores; None divides by sqrt(d_k).
        dropout: probability of dropping a weight, after softmax.
        fill: see `masks.Fill`.
        generator: randomness of the dropout; torch's global one when None.
        observe: called at the steps scores, scale, mask, softmax, dropout, weighted_values.

    Returns:
        output (batch, h, Tq, d_v) and weights (batch, h, Tq, Tk), the weights before dropout.
        A query with no visible key has weights and output 0.

    Raises:
        ConfigError: shapes that do not fit together, naming both, or a value out of range.
    """
    _check_qkv(q, k, v)
    check_dropout(dropout)
    check_scale(scale)
    check_fill(fill, q.dtype)
    see = observe or _unobserved
    d_k = q.shape[-1]
    # (batch, h, Tq, d_k) x (batch, h, d_k, Tk) -> (batch, h, Tq, Tk)
    scores = see("scores", q @ k.transpose(-2, -1))
    scores = see("scale", scores / math.sqrt(d_k) if scale is None else scores * scale)
    # The full mask: every boolean joined before it meets the scores.
    allowed = masks.causal(q.shape[-2], k.shape[-2], device=q.device) if causal else None
    full = masks.combine(allowed, mask)
    filling = masks.Fill(fill)
    if full is not None:
        masks.check_shape(full, scores.shape)
        scores = see("mask", filling.apply(scores, full))
    # Causal alone leaves every query its first key; only a mask can leave a row without any.
    weights = see("softmax", filling.softmax(scores, None if mask is None else full))
    del scores  # as large as the weights, and done with
    dropped = weights
    if dropout > 0.0:
        dropped = see("dropout", _drop(weights, dropout, generator))
    # (batch, h, Tq, Tk) x (batch, h, Tk, d_v) -> (batch, h, Tq, d_v)
    output = see("weighted_values", dropped @ v)
    return output, weights


def _drop(weights: Tensor, dropout: float, generator: torch.Generator | None) -> Tensor:
    """Zeroes a share of the weights and scales the rest up, as F.dropout does.

    F.dropout takes no generator, and sessions that share the global one disturb each other.
    """
    keep = torch.empty_like(weights).bernoulli_(1.0 - dropout, generator=generator)
    return weights * keep / (1.0 - dropout)


def _check_qkv(q: Tensor, k: Tensor, v: Tensor) -> None:
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != 4:
            raise ConfigError(name, tuple(tensor.shape), "must have 4 axes (batch, h, time, width)")
    if q.shape[:2] != k.shape[:2] or q.shape[-1] != k.shape[-1]:
        raise ConfigError(
            "k",
            tuple(k.shape),
            f"must have the batch, h and d_k of q={tuple(q.shape)}",
            works=f"Nearest that works: {(*q.shape[:2], k.shape[2], q.shape[-1])}",
        )
    if k.shape[:3] != v.shape[:3]:
        raise ConfigError(
            "v",
            tuple(v.shape),
            f"must have the batch, h and time of k={tuple(k.shape)}",
            works=f"Nearest that works: {(*k.shape[:3], v.shape[-1])}",
        )


class MultiHeadAttention(nn.Module):
    """Multi-head self-attention with one flat (d_model, d_model) matrix a projection.

    Head i owns columns i*d_k to (i+1)*d_k - 1 of the projected tensor: a view, not a matrix
    of its own.

    Args:
        d_model: width of input and output.
        heads: number of heads; divides d_model.
        bias: whether the four projections have a bias.
        dropout: probability of dropping a weight, in training only.
        scale: factor on the scores; None is 1/sqrt(d_k).
        fill: what a masked score becomes (`masks.Fill`).
        device, dtype: of the parameters.

    Raises:
        ConfigError: d_model not divisible by heads, or a value out of range.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        scale: float | None = None,
        fill: float = -math.inf,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_widths(d_model, heads)
        check_dropout(dropout)
        check_flag("bias", bias)
        check_scale(scale)
        check_fill(fill, dtype or torch.get_default_dtype())
        self.d_model, self.heads, self.d_k = d_model, heads, d_model // heads
        self.dropout, self.scale, self.fill = dropout, scale, fill
        self.W_q = nn.Linear(d_model, d_model, bias=bias, device=device, dtype=dtype)
        self.W_k = nn.Linear(d_model, d_model, bias=bias, device=device, dtype=dtype)
        self.W_v = nn.Linear(d_model, d_model, bias=bias, device=device, dtype=dtype)
        self.W_o = nn.Linear(d_model, d_model, bias=bias, device=device, dtype=dtype)

    def forward(
        self,
        x: Tensor,
        *,
        causal: bool = False,
        mask: Tensor | None = None,
        generator: torch.Generator | None = None,
        observe: Observe | None = None,
    ) -> Tensor:
        """(batch, time, d_model) -> (batch, time, d_model).

        Args:
            x: (batch, time, d_model).
            causal: each position sees itself and those before it.
            mask: as in `attend`.
            generator: randomness of the dropout.
            observe: called with (step id, tensor) at every step of `steps.STEPS`; what it
                returns goes on to the next step.

        Raises:
            ConfigError: x is not (batch, time, d_model), or an axis of it is empty.
        """
        self._check_input(x)
        see = observe or _unobserved
        x = see("input", x)

        # 1 project: one flat matrix each
        q = see("project_q", self.W_q(x))
        k = see("project_k", self.W_k(x))
        v = see("project_v", self.W_v(x))
        # 2 split: (batch, time, d_model) -> (batch, time, h, d_k)
        q = see("split_q", split(q, self.heads))
        k = see("split_k", split(k, self.heads))
        v = see("split_v", split(v, self.heads))
        # 3 transpose: (batch, time, h, d_k) -> (batch, h, time, d_k)
        q = see("transpose_q", swap_time_and_heads(q))
        k = see("transpose_k", swap_time_and_heads(k))
        v = see("transpose_v", swap_time_and_heads(v))
        # 4 scores, scale, mask; 5 softmax, dropout; 6 weighted values
        out, _weights = attend(
            q, k, v,
            mask=mask, causal=causal, scale=self.scale, fill=self.fill,
            dropout=self.dropout if self.training else 0.0,
            generator=generator, observe=observe,
        )  # fmt: skip
        # 7 transpose back: (batch, h, time, d_k) -> (batch, time, h, d_k)
        out = see("transpose_back", swap_time_and_heads(out))
        # 8 merge: (batch, time, h, d_k) -> (batch, time, d_model)
        out = see("merge", merge(out))
        # 9 output
        output: Tensor = see("output", self.W_o(out))
        return output

    def _check_input(self, x: Tensor) -> None:
        if x.dim() != 3 or x.shape[-1] != self.d_model:
            raise ConfigError(
                "x", tuple(x.shape), f"must be (batch, time, d_model) with d_model={self.d_model}"
            )
        if x.shape[0] == 0 or x.shape[1] == 0:
            raise ConfigError(
                "x", tuple(x.shape), "must have at least one batch item and one position"
            )
