"""Maps without some of their tokens: padding left out, special tokens hidden."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from mha_core.errors import ConfigError
from mha_core.maps import HeadMaps


def without_padding(maps: HeadMaps, length: int) -> HeadMaps:
    """Leaves out the queries from `length` on, and their keys: padding attends, and means nothing.

    Args:
        maps: (h, time, time).
        length: tokens that are not padding.
    """
    time = maps.values.shape[-1]
    if length >= time:
        return maps
    real = torch.arange(time) < length
    there = (real[:, None] & real).expand(maps.values.shape)
    visible = there if maps.visible is None else maps.visible & there
    return HeadMaps(maps.step, maps.values.masked_fill(~there, 0.0), visible)


def hide(maps: HeadMaps, keep: Sequence[int]) -> HeadMaps:
    """The maps of some tokens alone; of weights, every row again sums to 1 over them.

    Args:
        maps: (h, time, time).
        keep: positions to keep, in order.

    Returns:
        (h, len(keep), len(keep)). A row that had no weight on the tokens kept stays 0.

    Raises:
        ConfigError: nothing is kept.
    """
    if not keep:
        raise ConfigError("tokens", "none", "must be left: all of them are hidden")
    rows = torch.tensor(list(keep))
    values = maps.values[:, rows][:, :, rows]
    visible = None if maps.visible is None else maps.visible[:, rows][:, :, rows]
    if maps.is_weights:
        total = values.sum(-1, keepdim=True)
        values = torch.where(total > 0, values / total.clamp(min=torch.finfo(values.dtype).tiny), 0)
    return HeadMaps(maps.step, values, visible)
