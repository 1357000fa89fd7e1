"""The factor on the scores: what it does to their spread, to entropy and to saturation, over d_k.

For q and k of independent standard normal numbers a score q·k has variance d_k (Vaswani et al.
2017, footnote 4): without 1/sqrt(d_k) softmax saturates as d_k grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.inputs import generator
from mha_core.sizes import is_integer, nearest_integer

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SCALES = ("1/√d_k", "none", "1/√d_model")
SATURATED = 0.9  # a row of whose weight one key has more
_QUERIES, _DRAWS = 64, 4  # 16,384 scores at 64 keys: below what torch shares among threads


@dataclass(frozen=True)
class Saturation:
    """What a factor did to scores and weights.

    Attributes:
        d_k: width of a head.
        scale: of SCALES.
        factor: the number.
        std: standard deviation of the scaled scores.
        entropy: of a row of weights, mean, in nats; log(keys) is an even spread.
        effective_keys: exp(entropy), mean over the rows.
        largest: largest weight of a row, mean.
        saturated: share of rows in which one key has more than 0.9.
        passes: Σ w (1 − w) of a row, mean: the trace of softmax's Jacobian. Where it is 0 no
            gradient passes.
        keys: in a row.
    """

    d_k: int
    scale: str
    factor: float
    std: float
    entropy: float
    effective_keys: float
    largest: float
    saturated: float
    passes: float
    keys: int


def factor(scale: str, d_k: int, heads: int) -> float:
    """The number a scale means; d_model = h · d_k.

    Raises:
        ConfigError: no such scale.
    """
    if scale not in SCALES:
        raise ConfigError("scale", scale, "is not offered", works=", ".join(SCALES))
    return {
        "1/√d_k": 1 / math.sqrt(d_k), "none": 1.0, "1/√d_model": 1 / math.sqrt(heads * d_k)
    }[scale]  # fmt: skip


def sampled(heads: int, *, keys: int = 64, seed: int = 0) -> list[Saturation]:
    """Draws q and k for every width in WIDTHS and applies the three factors to the same scores.

    Args:
        heads: h, which makes d_model = h · d_k.
        keys: Tk, from 2 to 1024.
        seed: of the draws; each width has a stream of its own.

    Raises:
        ConfigError: keys out of range.
    """
    if not is_integer(keys, 2, 1024):
        nearest = nearest_integer(keys, 2, 1024)
        raise ConfigError(
            "keys", keys, "must be from 2 to 1024", works=f"Nearest that works: {nearest}"
        )
    found = []
    for d_k in WIDTHS:
        rng = generator(seed, f"saturation {d_k}")
        q = torch.randn(_DRAWS, _QUERIES, d_k, generator=rng)
        k = torch.randn(_DRAWS, keys, d_k, generator=rng)
        scores = q @ k.transpose(-2, -1)
        found += [measured(scores, scale, d_k, heads) for scale in SCALES]
    return found


def measured(scores: Tensor, scale: str, d_k: int, heads: int) -> Saturation:
    """The statistics of unscaled scores (..., Tq, Tk) under one factor."""
    number = factor(scale, d_k, heads)
    scaled = scores.float() * number
    weights = scaled.softmax(-1)
    entropy = torch.special.entr(weights).sum(-1)
    largest = weights.amax(-1)
    return Saturation(
        d_k=d_k,
        scale=scale,
        factor=number,
        std=float(scaled.std(correction=0)),
        entropy=float(entropy.mean()),
        effective_keys=float(entropy.exp().mean()),
        largest=float(largest.mean()),
        saturated=float((largest > SATURATED).float().mean()),
        passes=float((weights * (1 - weights)).sum(-1).mean()),
        keys=scores.shape[-1],
    )
