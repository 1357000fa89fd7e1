"""Statistics of attention weights, one number a head."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.maps import HeadMaps


@dataclass(frozen=True)
class HeadStats:
    """One row of numbers a head, each the mean over the queries that see a key.

    Attributes:
        entropy: of the weights, in nats.
        effective_keys: exp(entropy): the number of equally weighted keys as spread out.
        distance: mean |query - key|, weighted, in positions.
        first, self, previous: share of the weight on key 0, on the query's own position, and
            on the one before it.
    """

    entropy: list[float]
    effective_keys: list[float]
    distance: list[float]
    first: list[float]
    self: list[float]
    previous: list[float]


def head_stats(maps: HeadMaps) -> HeadStats:
    """Statistics of weights (h, time, time)."""
    weights = maps.values
    if not maps.is_weights:
        raise ConfigError("step", maps.step, "must be weights: scores are not shares")
    time = weights.shape[-1]
    seen = weights.sum(-1) > 0
    rows = seen.sum(-1).clamp(min=1)
    place = torch.arange(time, dtype=weights.dtype)
    gap = (place[:, None] - place).abs()

    def mean(per_row: Tensor) -> list[float]:
        return [float(value) for value in (per_row * seen).sum(-1) / rows]

    per_row = torch.stack([_entropy(head) for head in weights])
    entropy = mean(per_row)
    before = torch.zeros_like(per_row)
    if time > 1:
        before[:, 1:] = weights.diagonal(-1, dim1=-2, dim2=-1)
    return HeadStats(
        entropy=entropy,
        effective_keys=mean(per_row.exp()),
        distance=mean(torch.einsum("hqk,qk->hq", weights, gap)),
        first=mean(weights[..., 0]),
        self=mean(weights.diagonal(dim1=-2, dim2=-1)),
        previous=mean(before),
    )


def _entropy(weights: Tensor) -> Tensor:
    """(time, time) -> (time,): entropy of each row, in nats, with 0 log 0 = 0.

    One head at a time: what stays in the processor's cache is three times as fast. So is this
    beside torch.special.entr.
    """
    logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log_()
    return -logs.mul_(weights).sum(-1)


def keys_text(keys: float) -> str:
    """A number of effective keys, the same wherever it stands: 2.40 keys, 12.3 keys, 4,096 keys."""
    shown = f"{keys:,.0f}" if keys >= 99.95 else f"{keys:.1f}" if keys >= 9.995 else f"{keys:.2f}"
    return f"{shown} {'key' if shown == '1.00' else 'keys'}"
