"""q and k of one batch item, as the forward makes them, and what they take."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from mha_core import cost
from mha_core.attention import MultiHeadAttention, split, swap_time_and_heads
from mha_core.blockwise.long_maps import LongMaps
from mha_core.budget import default_limit
from mha_core.config import MHAConfig
from mha_core.errors import BudgetError, ConfigError

# A masked key with less than this added keeps no weight in any dtype: exp(-1e4) is 0.
_GONE = -1e4
# Of the blocks being computed, and of pictures of 64 heads.
_WORKING = 128 * 2**20


def project(module: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """(1, time, d_model) -> q and k, (h, time, d_k) each, float32 (float64 stays), on the device.

    Steps 1 to 3 of the forward, for one batch item.
    """
    found = []
    with torch.no_grad():
        for layer in (module.W_q, module.W_k):
            made = swap_time_and_heads(split(layer(x), module.heads))[0]
            found.append(made if made.dtype is torch.float64 else made.float())
    return found[0].contiguous(), found[1].contiguous()


def maps_of(config: MHAConfig, module: MultiHeadAttention, x: Tensor, item: int) -> LongMaps:
    """The maps of a batch item of a run that is not to be traced.

    Args:
        x: (batch, time, d_model).

    Raises:
        ConfigError: no such batch item; or a fill that leaves weight on masked keys, which block
            by block has no place.
    """
    if not 0 <= item < x.shape[0]:
        raise ConfigError("batch item", item, f"must be from 0 to {x.shape[0] - 1}")
    check_fill(config)
    q, k = project(module, x[item : item + 1])
    return LongMaps(q, k, config.scale, config.causal)


def check_fill(config: MHAConfig) -> None:
    """Refuses a fill that leaves weight on masked keys.

    Raises:
        ConfigError: naming those that do not.
    """
    if config.causal and config.fill > _GONE:
        raise ConfigError(
            "fill", config.fill, "leaves weight on masked keys, which long maps leave out",
            works="These work: -inf, -1e9, -1e4",
        )  # fmt: skip


def estimate(config: MHAConfig) -> int:
    """Bytes at the peak: weights, x of all items, what is projected, and the blocks."""
    one = cost.itemsize(config) * config.time * config.d_model
    wide = max(4, cost.itemsize(config)) * config.time * config.d_model
    weights = cost.parameters(config) * cost.itemsize(config)
    return weights + config.batch * one + 2 * one + 3 * wide + _WORKING


def check_long(config: MHAConfig, *, limit: int | None = None) -> int:
    """The estimate, if it is within `limit` bytes (default: half of the free memory).

    Raises:
        BudgetError: with the estimate, the limit and the largest time that fits.
        ConfigError: see `check_fill`.
    """
    check_fill(config)
    limit = default_limit(config.device) if limit is None else limit
    needed = estimate(config)
    if needed > limit:
        low, high = 0, config.time
        while low < high:
            middle = math.ceil((low + high) / 2)
            fits = estimate(replace(config, time=middle)) <= limit
            low, high = (middle, high) if fits else (low, middle - 1)
        raise BudgetError(needed=needed, limit=limit, largest_time=low, time=config.time)
    return needed
