"""Why scores are divided by √d_k: their spread, and the entropy of the weights, over d_k.

For queries and keys of independent standard normal numbers a score is a sum of d_k products, each
of variance 1: its standard deviation is √d_k (Vaswani et al. 2017, footnote 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.attention import attend
from mha_core.inputs import generator
from mha_core.trace import Trace

D_KS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_QUERIES = 256
_SCORES = 1 << 14  # scores that a spread is taken over, at least


@dataclass(frozen=True)
class Spread:
    """Scores and weights at one d_k.

    Attributes:
        d_k: width of a head.
        keys: that each query sees; the entropy is at most ln(keys).
        raw, scaled: standard deviation of the scores, as they are and over √d_k.
        raw_entropy, scaled_entropy: mean entropy of the weights of each, in nats.
    """

    d_k: int
    keys: int
    raw: float
    scaled: float
    raw_entropy: float
    scaled_entropy: float


def spreads(keys: int = 64, *, seed: int = 0, d_ks: Sequence[int] = D_KS) -> list[Spread]:
    """Draws standard normal q and k for each d_k, and attends with and without the scale.

    Args:
        keys: time of the drawn sequences, from 1.
        seed: of the draws.
        d_ks: widths of a head.
    """
    return [_spread(d_k, keys, seed) for d_k in d_ks]


def _spread(d_k: int, keys: int, seed: int) -> Spread:
    rng = generator(seed, f"spread/{d_k}")
    batch = math.ceil(_SCORES / keys**2)
    q, k = (torch.randn(batch, 1, keys, d_k, generator=rng) for _ in "qk")
    raw, raw_entropy = _attended(q, k, 1.0)
    scaled, scaled_entropy = _attended(q, k, None)
    return Spread(d_k, keys, raw, scaled, raw_entropy, scaled_entropy)


def _attended(q: Tensor, k: Tensor, scale: float | None) -> tuple[float, float]:
    """Standard deviation of the scaled scores, and mean entropy of the weights in nats."""
    seen: dict[str, Tensor] = {}

    def keep(name: str, tensor: Tensor) -> Tensor:
        seen[name] = tensor
        return tensor

    attend(q, k, k, scale=scale, observe=keep)
    return float(seen["scale"].std()), entropy(seen["softmax"])


def entropy(weights: Tensor) -> float:
    """Mean entropy of rows over the last axis, in nats."""
    return float(torch.special.entr(weights.double()).sum(-1).mean())


def of_trace(trace: Trace) -> Spread:
    """The same of a run's own scores, without its mask: the projections set their spread.

    Of the first batch item, its first `_QUERIES` queries.
    """
    scores, scaled = (trace.tensor(name)[0, :, :_QUERIES].double() for name in ("scores", "scale"))
    return Spread(
        d_k=trace.config.d_k,
        keys=trace.config.time,
        raw=float(scores.std(correction=0)),
        scaled=float(scaled.std(correction=0)),
        raw_entropy=entropy(scores.softmax(-1)),
        scaled_entropy=entropy(scaled.softmax(-1)),
    )
