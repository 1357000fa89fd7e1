"""Two runs side by side: their settings, one head's maps on one scale, and the difference."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from mha_core.config import MHAConfig
from mha_core.maps import HeadMaps, Pooled, Pooling, Scaled, pool, scaled_together

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class MapPair:
    """One head's map in two runs.

    Attributes:
        pooled: of A and of B.
        shared: both on one scale, A first; apart where their sizes differ.
        difference: B − A on a scale centred at 0; None where the maps differ in size.
        largest: largest |B − A| of the exact maps; None likewise.
    """

    pooled: tuple[Pooled, Pooled]
    shared: tuple[Scaled, Scaled]
    difference: Scaled | None
    largest: float | None


def changed_fields(a: MHAConfig, b: MHAConfig) -> dict[str, tuple[object, object]]:
    """Field -> (value in A, value in B), for the fields that differ."""
    pairs = {field.name: (getattr(a, field.name), getattr(b, field.name)) for field in fields(a)}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def map_pair(a: HeadMaps, b: HeadMaps, *, limit: int, how: Pooling = "max") -> MapPair:
    """Compares one head of two runs; `a` and `b` hold one head each, of the same step.

    In a difference of weights a masked key counts as the 0 it is; a cell masked in both stays
    absent.
    """
    pooled = (pool(a, limit, how), pool(b, limit, how))
    shared = scaled_together([p.values for p in pooled], weights=a.is_weights)
    pair = (shared[0], shared[1])
    if a.values.shape != b.values.shape:
        return MapPair(pooled, pair, None, None)
    exact = _subtract(_filled(a), _filled(b), a.is_weights)
    largest = float(np.nanmax(np.abs(exact))) if np.isfinite(exact).any() else 0.0
    small = _subtract(pooled[0].values, pooled[1].values, a.is_weights)
    high = float(np.nanmax(np.abs(small))) if np.isfinite(small).any() else 0.0
    ends = np.full(len(small), high or 1.0, dtype=np.float32)
    difference = Scaled(small, -ends, ends, "B − A", clipped=False, diverging=True)
    return MapPair(pooled, pair, difference, largest)


def _filled(maps: HeadMaps) -> Floats:
    values: Floats = maps.values.numpy()
    if maps.visible is not None:
        values = np.where(maps.visible.numpy(), values, np.float32(np.nan))
    return values


def _subtract(a: Floats, b: Floats, weights: bool) -> Floats:
    gone = np.isnan(a) & np.isnan(b)
    if weights:
        a, b = np.nan_to_num(a), np.nan_to_num(b)
    with np.errstate(invalid="ignore"):
        difference: Floats = np.where(gone, np.float32(np.nan), b - a)
    return difference
