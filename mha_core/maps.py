"""Attention maps as they are looked at: which cells are there, pooled, scaled, and summarised.

A map has a row for every query and a column for every key. All maps here are (h, time, time) of
one batch item, float32 on the CPU, whatever ran them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from mha_core.errors import ConfigError
from mha_core.trace import Trace

Pooling = Literal["max", "mean"]
Floats = NDArray[np.float32]

# The scales offered for weights; scores have one, centred at 0.
SCALES = ("weight", "× uniform", "log", "per head")

# Where the largest values are few, the scale ends below them, so that the rest is not all dark.
_TOP = 0.95
# All dark: half of the cells within this share of the scale's end, or nearly all within this
# share of the whole scale.
_DARK, _NARROW = 0.1, 0.25


@dataclass(frozen=True)
class HeadMaps:
    """The maps of one step and batch item.

    Attributes:
        step: "scores", "scale", "mask", "softmax" or "dropout".
        values: float32 (h, time, time).
        visible: boolean (h, time, time), False where masked; None where nothing is.
    """

    step: str
    values: Tensor
    visible: Tensor | None

    @property
    def is_weights(self) -> bool:
        return self.step in ("softmax", "dropout")

    def head(self, index: int) -> HeadMaps:
        """One head alone, as maps of h = 1."""
        seen = None if self.visible is None else self.visible[index : index + 1]
        return HeadMaps(self.step, self.values[index : index + 1], seen)


@dataclass(frozen=True)
class Pooled:
    """Maps small enough to send.

    Attributes:
        values: float32 (h, rows, columns), NaN where every cell pooled is masked.
        factor: cells pooled along each axis; 1 means exact.
        how: "max" or "mean" over the visible cells.
        time: queries and keys before pooling.
    """

    values: Floats
    factor: int
    how: Pooling
    time: int

    def centres(self) -> NDArray[np.float64]:
        """Position of every row or column: the middle of what it pools."""
        starts = np.arange(self.values.shape[-1]) * self.factor
        ends = np.minimum(starts + self.factor, self.time)
        return (starts + ends - 1) / 2


@dataclass(frozen=True)
class Scaled:
    """Values on a colour scale.

    Attributes:
        values: what is coloured; NaN where masked.
        low, high: ends of the scale, one pair a head (equal where the scale is shared).
        title: what the colour bar says.
        clipped: values beyond `high` exist.
        diverging: centred at 0.
    """

    values: Floats
    low: Floats
    high: Floats
    title: str
    clipped: bool
    diverging: bool

    def unit(self) -> Floats:
        """Place on the scale, 0 to 1; NaN where masked."""
        span = np.maximum(self.high - self.low, np.float32(1e-30))[:, None, None]
        place: Floats = np.clip((self.values - self.low[:, None, None]) / span, 0.0, 1.0)
        return place


def head_maps(trace: Trace, step: str = "softmax", item: int = 0) -> HeadMaps:
    """The maps of a step for one batch item.

    Cells are masked from the mask on. With a finite fill, a masked key that keeps a weight
    above 0 is shown: it leaks.

    Raises:
        ConfigError: no such batch item, or the step did not run or was not kept.
    """
    tensor = trace.tensor(step)
    if not 0 <= item < tensor.shape[0]:
        raise ConfigError("batch item", item, f"must be from 0 to {tensor.shape[0] - 1}")
    values = tensor[item].detach().float().cpu()
    visible = None
    if trace.visible is not None and step not in ("scores", "scale"):
        visible = trace.visible.broadcast_to(tensor.shape)[item].cpu()
        if trace.config.fill != -np.inf and step != "mask":
            visible = visible | (values > 0)
    return HeadMaps(step, values, visible)


def pool(maps: HeadMaps, limit: int, how: Pooling = "max") -> Pooled:
    """At most `limit` rows and columns, each the max or mean over the visible cells it covers."""
    time = maps.values.shape[-1]
    factor = -(-time // limit)
    values, visible = maps.values, maps.visible
    if factor > 1:
        if how == "max":
            filled = values if visible is None else values.masked_fill(~visible, -torch.inf)
            values = _max(filled, factor)
            present = None if visible is None else _any(visible, factor)
        else:
            count = torch.ones_like(values) if visible is None else visible.float()
            total = values if visible is None else values.masked_fill(~visible, 0.0)
            cells = _sum(count, factor)
            values = _sum(total, factor) / cells
            present = None if visible is None else cells > 0
        visible = present
    if visible is not None:
        values = values.masked_fill(~visible, torch.nan)
    return Pooled(values.numpy(), factor, how, time)


def _sum(values: Tensor, factor: int) -> Tensor:
    pooled = F.avg_pool2d(values[None], factor, ceil_mode=True, divisor_override=1)
    return pooled[0]


def _any(visible: Tensor, factor: int) -> Tensor:
    return _max(visible, factor)


def _max(values: Tensor, factor: int) -> Tensor:
    """Along the queries first, whose rows lie in memory one after the other: three times as fast as
    torch's max_pool2d."""
    for axis in (-2, -1):
        whole = values.shape[axis] // factor * factor
        parts = [values.narrow(axis, 0, whole).unflatten(axis, (-1, factor)).amax(axis)]
        if whole < values.shape[axis]:
            rest = values.narrow(axis, whole, values.shape[axis] - whole)
            parts.append(rest.amax(axis, keepdim=True))
        values = torch.cat(parts, axis)
    return values


def relative_to_uniform(maps: HeadMaps) -> HeadMaps:
    """Weights times the number of keys their query may attend: 1 is an even spread."""
    if maps.visible is None:
        keys: Tensor | int = maps.values.shape[-1]
    else:
        keys = maps.visible.sum(-1, keepdim=True)
    return HeadMaps(maps.step, maps.values * keys, maps.visible)


def scaled(maps: HeadMaps, limit: int, how: Pooling = "max", scale: str = "weight") -> tuple[
    Pooled, Scaled
]:  # fmt: skip
    """Pools the maps and puts them on a scale that follows the data.

    Args:
        maps: weights, or scores (whose scale is always centred at 0).
        limit, how: see `pool`.
        scale: one of SCALES, for weights.

    Raises:
        ConfigError: if `scale` is not one of SCALES.
    """
    check_scale(scale)
    relative = maps.is_weights and scale == "× uniform"
    pooled = pool(relative_to_uniform(maps) if relative else maps, limit, how)
    return pooled, on_scale(pooled.values, scale if maps.is_weights else None)


def check_scale(scale: str) -> None:
    """Refuses a scale that is not offered.

    Raises:
        ConfigError: naming those that are.
    """
    if scale not in SCALES:
        raise ConfigError("scale", scale, "is not offered", works=", ".join(SCALES))


def on_scale(values: Floats, scale: str | None) -> Scaled:
    """Pooled values on a scale that follows them.

    Args:
        values: (h, rows, columns), NaN where masked; for "× uniform" relative already.
        scale: one of SCALES, for weights; None for scores, whose scale is centred at 0.

    Raises:
        ConfigError: if `scale` is not one of SCALES.
    """
    if scale is None:
        return _centred(values)
    check_scale(scale)
    if scale == "× uniform":
        return _from_zero(values, "weight × visible keys (1 = even)")
    if scale == "log":
        return _log(values)
    if scale == "per head":
        return _from_zero(values, "weight, each head on its own scale", True)
    return _from_zero(values, "weight")


def scaled_together(groups: list[Floats], *, weights: bool) -> list[Scaled]:
    """Maps of several runs on one scale: the ends that hold all of them."""
    together = np.concatenate([group.ravel() for group in groups])[None]
    scale = _from_zero(together, "weight") if weights else _centred(together)
    ends = [
        (np.full(len(group), scale.low[0]), np.full(len(group), scale.high[0])) for group in groups
    ]
    return [
        Scaled(group, low, high, scale.title, scale.clipped, scale.diverging)
        for group, (low, high) in zip(groups, ends, strict=True)
    ]


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _top(values: Floats, *, sides: int = 1) -> tuple[float, bool]:
    """End of a scale from 0, or from both sides of it, and whether larger values exist.

    The largest value, or the 95th percentile where outliers outshine it.
    """
    present = _finite(values)
    if not present.size:
        return 1.0, False
    sizes = np.abs(present)
    largest, most = float(sizes.max()), float(np.quantile(sizes, _TOP))
    low, middle, high = np.quantile(present, (1 - _TOP, 0.5, _TOP))
    outshone = present.size > 1000 and most < largest / 2
    dark = sides == 1 and middle < _DARK * largest
    narrow = high - low < _NARROW * sides * largest
    if outshone or (most < 0.8 * largest and (dark or narrow)):
        return (most, True) if most > 0 else (largest, False)
    return (largest or 1.0), False


def _from_zero(values: Floats, title: str, each: bool = False) -> Scaled:
    groups = list(values) if each else [values]
    tops = [_top(group) for group in groups]
    high = np.array([top for top, _ in tops] * (1 if each else len(values)), dtype=np.float32)
    clipped = any(clip for _, clip in tops)
    return Scaled(values, np.zeros_like(high), high, title, clipped, diverging=False)


def _log(values: Floats) -> Scaled:
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log10(values).astype(np.float32)
    present = _finite(logs)
    low, high = (
        (float(np.quantile(present, 0.02)), float(present.max())) if present.size else (-1.0, 0.0)
    )
    if high - low < 1e-6:  # an even spread has one value: put it at the top, not at the bottom
        low = high - 1.0
    logs = np.where(np.isneginf(logs), np.float32(low), logs)  # a weight of exactly 0
    ends = np.ones(len(values), dtype=np.float32)
    return Scaled(logs, ends * low, ends * high, "log₁₀ weight", False, diverging=False)


def _centred(values: Floats) -> Scaled:
    high, clipped = _top(values, sides=2)
    ends = np.full(len(values), high, dtype=np.float32)
    return Scaled(values, -ends, ends, "score", clipped, diverging=True)
