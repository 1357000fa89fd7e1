"""Given weights as maps that can be drawn: what is masked in them is worked out from the values."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core.errors import ConfigError
from mha_core.head_stats import head_stats
from mha_core.maps import HeadMaps


def given_maps(weights: Tensor, item: int = 0) -> HeadMaps:
    """The maps of one batch item of given weights.

    A model returns weights without its mask. A cell whose weight is 0 in every head is taken as
    masked, since heads share a mask; a cell that is 0 in some of them underflowed there, and
    is shown as the 0 it is. NaN, which torch makes of a query that sees no key, is absent too.

    Args:
        weights: float32 (B, h, Tq, Tk).
        item: the batch item.

    Returns:
        Maps of (h, Tq, Tk), 0 where masked.

    Raises:
        ConfigError: no such batch item.
    """
    if not 0 <= item < weights.shape[0]:
        raise ConfigError("batch item", item, f"must be from 0 to {weights.shape[0] - 1}")
    one = weights[item]
    missing = one.isnan()
    values = one.masked_fill(missing, 0.0) if missing.any() else one
    visible = (values > 0).any(0) & ~missing
    return HeadMaps("softmax", values, None if visible.all() else visible)


def squared(maps: HeadMaps) -> HeadMaps:
    """(h, Tq, Tk) -> (h, time, time) of the longer axis; what is added is masked."""
    queries, keys = maps.values.shape[-2:]
    time = max(queries, keys)
    if queries == keys:
        return maps
    more = (0, time - keys, 0, time - queries)
    seen = torch.ones_like(maps.values, dtype=torch.bool) if maps.visible is None else maps.visible
    return HeadMaps(maps.step, F.pad(maps.values, more), F.pad(seen, more))


def effective_keys(maps: HeadMaps) -> list[float]:
    """exp(entropy) of each head, the mean over the queries that see a key; maps (h, Tq, Tk).

    Rows count as shares of what they sum to, so that dropout does not change what is a share.
    """
    totals = maps.values.sum(-1, keepdim=True)
    shares = maps.values / totals.masked_fill(totals == 0, 1.0)
    return head_stats(squared(HeadMaps("softmax", shares, maps.visible))).effective_keys
