"""Masks: causal, padding, their combination, and the fill. Polarity is fixed here, once.

Everywhere in this package a boolean mask says what MAY be attended: **True in row i, column j
means query i attends to key j**, as in `F.scaled_dot_product_attention`.
`torch.nn.MultiheadAttention` means the opposite (True = ignore): `flip` converts, both ways.
A floating-point mask is added to the scaled scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mha_core.errors import ConfigError

Align = Literal["upper_left", "lower_right"]


def causal(
    time_q: int,
    time_k: int | None = None,
    *,
    align: Align = "upper_left",
    device: torch.device | str = "cpu",
) -> Tensor:
    """Each query sees its own position and those before it.

    Args:
        time_q: number of queries Tq.
        time_k: number of keys Tk; as many as queries when None.
        align: where Tq and Tk differ, "upper_left" pins query 0 to key 0 (torch's `is_causal`);
            "lower_right" pins the last query to the last key (decoding with a cache).

    Returns:
        Boolean (Tq, Tk), True = may attend.
    """
    time_k = time_q if time_k is None else time_k
    if align not in ("upper_left", "lower_right"):
        raise ConfigError("align", align, "must be 'upper_left' or 'lower_right'")
    diagonal = 0 if align == "upper_left" else time_k - time_q
    return torch.ones(time_q, time_k, dtype=torch.bool, device=device).tril(diagonal)


def padding(lengths: Sequence[int], time: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Each query sees the first `lengths[b]` keys of its batch item; the rest is padding.

    Masks keys, not queries: the rows of padded queries still sum to 1 and mean nothing.

    Returns:
        Boolean (batch, 1, 1, time), True = may attend.
    """
    for length in lengths:
        if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length <= time:
            raise ConfigError("lengths", length, f"must be an integer from 0 to time={time}")
    ends = torch.tensor(list(lengths), device=device)
    return (torch.arange(time, device=device) < ends[:, None])[:, None, None, :]


def flip(mask: Tensor) -> Tensor:
    """Converts a boolean mask between True = may attend and True = ignore, either way.

    `torch.nn.MultiheadAttention` takes True = ignore in `attn_mask` and `key_padding_mask`.

    Raises:
        ConfigError: if the mask is not boolean: an additive mask has no polarity.
    """
    if mask.dtype is not torch.bool:
        raise ConfigError("mask", str(mask.dtype), "must be boolean to be flipped")
    return ~mask


def combine(*masks: Tensor | None) -> Tensor | None:
    """One mask that applies all of them; None where none is set.

    Booleans are joined with AND before anything becomes a number, since two additive masks of
    `finfo.min` add up to -inf. With a floating-point mask among them the result is additive.
    """
    keep: Tensor | None = None
    bias: Tensor | None = None
    for mask in masks:
        if mask is None:
            continue
        if mask.dtype is torch.bool:
            keep = mask if keep is None else keep & mask
        elif mask.dtype.is_floating_point:
            bias = mask if bias is None else bias + mask
        else:
            raise ConfigError(
                "mask",
                str(mask.dtype),
                "must be boolean (True = may attend) or floating point (added to the scores)",
                works="Nearest that works: mask.bool()",
            )
    if bias is None or keep is None:
        return keep if bias is None else bias
    return bias.masked_fill(~keep, -torch.inf)


def check_shape(mask: Tensor, shape: Sequence[int]) -> None:
    """Refuses a mask that does not broadcast to `shape` = (batch, h, Tq, Tk)."""
    try:
        fits = torch.broadcast_shapes(mask.shape, shape) == torch.Size(shape)
    except RuntimeError:
        fits = False
    if not fits:
        wanted = tuple(shape)
        raise ConfigError(
            "mask",
            tuple(mask.shape),
            f"must broadcast to (batch, h, Tq, Tk) = {wanted}",
            works=f"These work: {wanted[-2:]}, {(wanted[0], 1, *wanted[-2:])}, "
            f"{(wanted[0], 1, 1, wanted[-1])}",
        )


def visible(mask: Tensor) -> Tensor:
    """Boolean, True where a key may be attended: a finite additive value does not hide it."""
    return mask if mask.dtype is torch.bool else mask != -torch.inf


@dataclass(frozen=True)
class Fill:
    """How a mask enters the scores.

    Attributes:
        value: -inf replaces a masked score. A finite value is added to it, as textbook code
            adds -1e9: a masked key then keeps a share of exp(value), and a row with no visible
            key becomes an even spread instead of zeros.
    """

    value: float = -torch.inf

    def apply(self, scores: Tensor, mask: Tensor) -> Tensor:
        """Masks `scores` (batch, h, Tq, Tk) with a boolean or additive `mask`."""
        if mask.dtype is not torch.bool:
            return scores + mask.to(scores.dtype)
        if self.value == -torch.inf:
            return scores.masked_fill(~mask, self.value)
        bias = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, self.value)
        lowest = torch.finfo(scores.dtype).min
        if self.value > lowest / 2:
            return scores + bias
        # So near the lowest value the sum itself can be -inf, and a row of only -inf is NaN.
        return (scores + bias).clamp_(min=lowest)

    def softmax(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        """Softmax over the keys; a row that sees no key gives zeros, in value and gradient.

        A row of only -inf would be NaN (0/0), and so would every gradient behind it. Such rows
        are found on a boolean mask, which is smaller than the scores; an additive one can also
        reach -inf by rounding, in its dtype or in the sum, so there the scores themselves tell.
        """
        if mask is None or (mask.dtype is torch.bool and self.value != -torch.inf):
            return scores.softmax(-1)
        if mask.dtype is torch.bool:
            dead = ~mask.any(-1, keepdim=True)
        else:
            dead = scores.detach().amax(-1, keepdim=True) == -torch.inf
        if not dead.any():
            return scores.softmax(-1)
        return scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
