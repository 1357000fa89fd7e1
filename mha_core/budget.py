"""Memory before a run: an estimate of the peak, a limit, and a refusal that names both."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import psutil
import torch

from mha_core import cost
from mha_core.config import MHAConfig
from mha_core.errors import BudgetError
from mha_core.steps import MAP_STEPS, STEPS

# Steps whose tensor is a view, and the step whose memory keeping it keeps.
_VIEWS = {f"{name}_{n}": f"project_{n}" for name in ("split", "transpose") for n in "qkv"}
_VIEWS["transpose_back"] = "weighted_values"


@dataclass(frozen=True)
class Estimate:
    """Bytes a traced forward needs.

    Attributes:
        parameters: the weights.
        forward: the most that tensors of the forward hold at once, kept or not.
        kept: what the trace goes on holding.
    """

    parameters: int
    forward: int
    kept: int

    @property
    def peak(self) -> int:
        return self.parameters + self.forward + self.kept


def estimate(config: MHAConfig, keep: Collection[str] | None = None) -> Estimate:
    """What `trace_forward(config, keep=keep)` needs at its peak, at most.

    The forward's own peak falls in the scores: x, q, k, v and two maps at once (the one read and
    the one written), the two copies that a batched matmul makes of q and k, and the mask.
    Under dropout a third map is alive, and the random draw is a fourth.
    """
    activation = cost.activation_bytes(config)
    score = cost.map_bytes(config)
    # Boolean and its negation; a finite fill is also written out as numbers.
    mask_size = 2 if config.fill == -math.inf else 2 + 2 * cost.itemsize(config)
    mask = mask_size * config.time**2 if config.causal else 0
    maps = 4 if config.dropout > 0.0 else 2
    forward = 6 * activation + maps * score + mask
    names = {_VIEWS.get(name, name) for name in (STEPS if keep is None else keep)}
    if not config.causal:
        names.discard("mask")
    if config.dropout == 0.0:
        names.discard("dropout")
    kept = sum(score if name in MAP_STEPS else activation for name in names)
    return Estimate(cost.parameters(config) * cost.itemsize(config), forward, kept)


def available_bytes(device: str) -> int:
    """Free memory of the device."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0]
    # MPS shares the machine's memory.
    return psutil.virtual_memory().available


def default_limit(device: str) -> int:
    """Half of the free memory of the device."""
    return available_bytes(device) // 2


def check(
    config: MHAConfig, keep: Collection[str] | None = None, *, limit: int | None = None
) -> Estimate:
    """The estimate, if it is within `limit` bytes (default: half of the free memory).

    Raises:
        BudgetError: with the estimate, the limit and the largest time that fits.
    """
    limit = default_limit(config.device) if limit is None else limit
    needed = estimate(config, keep)
    if needed.peak > limit:
        raise BudgetError(
            needed=needed.peak,
            limit=limit,
            largest_time=largest_time(config, keep, limit=limit),
            time=config.time,
        )
    return needed


def largest_time(config: MHAConfig, keep: Collection[str] | None = None, *, limit: int) -> int:
    """The largest time whose estimate is within `limit`; 0 if none is."""
    low, high = 0, config.time
    while low < high:
        middle = (low + high + 1) // 2
        fits = estimate(replace(config, time=middle), keep).peak <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    return low
