"""Tq other than Tk: the two alignments of causal, and decoding with a key/value cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core import masks
from mha_core.attention import attend, split, swap_time_and_heads
from mha_core.errors import ConfigError
from mha_core.mask_lab.lab import Lab
from mha_core.sizes import is_integer, nearest_integer


@dataclass(frozen=True)
class Aligned:
    """One alignment of causal.

    Attributes:
        align: "upper_left" or "lower_right".
        keep: boolean (Tq, Tk), True = may attend.
        weights: (Tq, Tk) that torch's own attention gave where all scores are 0: an even spread
            over the visible keys.
        blind: queries that see no key.
        code: how torch is told of it.
    """

    align: masks.Align
    keep: Tensor
    weights: Tensor
    blind: list[int]
    code: str


def aligned(time_q: int, time_k: int) -> tuple[Aligned, Aligned]:
    """Upper-left and lower-right, each run through F.scaled_dot_product_attention."""
    q, k = torch.zeros(1, 1, time_q, 1), torch.zeros(1, 1, time_k, 1)
    identity = torch.eye(time_k)[None, None]
    upper = F.scaled_dot_product_attention(q, k, identity, is_causal=True)[0, 0]
    keep = masks.causal(time_q, time_k, align="lower_right")
    lower = F.scaled_dot_product_attention(q, k, identity, attn_mask=keep)[0, 0]
    return (
        _of("upper_left", masks.causal(time_q, time_k), upper, "is_causal=True"),
        _of(
            "lower_right", keep, lower,
            f"attn_mask=torch.nn.attention.bias.causal_lower_right({time_q}, {time_k})",
        ),
    )  # fmt: skip


def _of(align: masks.Align, keep: Tensor, weights: Tensor, argument: str) -> Aligned:
    blind = [int(query) for query in (~keep.any(-1)).nonzero().flatten()]
    return Aligned(
        align, keep, weights, blind, f"F.scaled_dot_product_attention(q, k, v, {argument})"
    )


@dataclass(frozen=True)
class CacheStep:
    """One call of the decoder: some new positions, attending to all that came before.

    Attributes:
        start, stop: the new positions.
        x, q, k, scores, output: shapes. k is the cache after the new keys were added.
        mask: shape of the mask; None where one query sees every key.
        cache_bytes: of keys and values together, as they lie in memory.
        difference: largest, of the outputs from the same positions of the full causal forward.
        upper_left: the same under `is_causal=True`, which aligns upper-left.
        projected: positions that went through W_q, W_k and W_v; without a cache it is `stop`.
    """

    start: int
    stop: int
    x: tuple[int, ...]
    q: tuple[int, ...]
    k: tuple[int, ...]
    scores: tuple[int, ...]
    mask: tuple[int, ...] | None
    output: tuple[int, ...]
    cache_bytes: int
    difference: float
    upper_left: float
    projected: int


def decode(lab: Lab, prompt: int, chunk: int = 1) -> list[CacheStep]:
    """The lab's input fed in pieces: the prompt at once, then `chunk` positions a call.

    Keys and values of earlier positions are kept, not computed again.

    Raises:
        ConfigError: prompt or chunk out of range.
    """
    for field, value in (("prompt", prompt), ("chunk", chunk)):
        if not is_integer(value, 1, lab.time):
            nearest = nearest_integer(value, 1, lab.time)
            raise ConfigError(
                field, value, f"must be from 1 to time={lab.time}",
                works=f"Nearest that works: {nearest}", repairs=[{field: nearest}],
            )  # fmt: skip
    with torch.no_grad():
        full = lab.finish(attend(*lab.qkv, causal=True)[0])
        keys = values = None
        steps = []
        start = 0
        while start < lab.time:
            stop = prompt if start == 0 else min(start + chunk, lab.time)
            q, k, v = _new(lab, start, stop)
            keys = k if keys is None else torch.cat([keys, k], dim=2)
            values = v if values is None else torch.cat([values, v], dim=2)
            steps.append(_step(lab, full, (q, keys, values), start, stop))
            start = stop
    return steps


def _new(lab: Lab, start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v of the new positions alone: (batch, h, stop - start, d_k)."""
    x, module = lab.x[:, start:stop], lab.module
    q, k, v = (
        swap_time_and_heads(split(layer(x), module.heads))
        for layer in (module.W_q, module.W_k, module.W_v)
    )
    return q, k, v


def _step(
    lab: Lab, full: Tensor, qkv: tuple[Tensor, Tensor, Tensor], start: int, stop: int
) -> CacheStep:
    q, k, v = qkv
    mask = None
    if stop - start > 1:
        mask = masks.causal(stop - start, stop, align="lower_right", device=q.device)
    heads, weights = attend(q, k, v, mask=mask)
    output = lab.finish(heads)
    wrong = lab.finish(attend(q, k, v, causal=True)[0])  # upper-left, as is_causal
    expected = full[:, start:stop]
    return CacheStep(
        start=start,
        stop=stop,
        x=(lab.batch, stop - start, lab.module.d_model),
        q=tuple(q.shape),
        k=tuple(k.shape),
        scores=tuple(weights.shape),
        mask=None if mask is None else tuple(mask.shape),
        output=tuple(output.shape),
        cache_bytes=k.untyped_storage().nbytes() + v.untyped_storage().nbytes(),
        difference=_largest(output, expected),
        upper_left=_largest(wrong, expected),
        projected=stop - start,
    )


def _largest(one: Tensor, other: Tensor) -> float:
    wide = torch.promote_types(one.dtype, torch.float32)
    return float((one.to(wide) - other.to(wide)).abs().max())
