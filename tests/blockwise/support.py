"""The oracle: whole maps, made, pooled and summed up the plain way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from mha_core import maps
from mha_core.blockwise import LongMaps, pictures
from mha_core.head_stats import HeadStats, head_stats
from mha_core.maps import HeadMaps, Pooled

FIGURES = ("entropy", "effective_keys", "distance", "first", "self", "previous")
STEPS = ("scores", "scale", "mask", "softmax")
# Of pooled values and, relative, of statistics.
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}


def visible(long: LongMaps) -> Tensor:
    """(time, time), True where a query sees a key."""
    seen = torch.ones(long.time, long.time, dtype=torch.bool)
    if long.keep is not None:
        seen = seen & long.keep
    return seen.tril() if long.causal else seen


def whole(long: LongMaps, step: str) -> HeadMaps:
    """The maps of a step, held whole, by torch's own softmax."""
    scores = long.q @ long.k.transpose(-2, -1)
    if step != "scores":
        scores = scores * (long.d_k**-0.5 if long.scale is None else long.scale)
    seen = visible(long)
    there = None if seen.all() or step in ("scores", "scale") else seen.expand_as(scores)
    if there is None:
        return HeadMaps(step, scores.softmax(-1) if step == "softmax" else scores, None)
    scores = scores.masked_fill(~there, -torch.inf)
    if step == "mask":
        return HeadMaps(step, scores, there)
    dead = ~there.any(-1, keepdim=True)
    weights = scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
    return HeadMaps(step, weights, there)


def pooled(long: LongMaps, limit: int, how: maps.Pooling, step: str) -> Pooled:
    return maps.pool(whole(long, step), limit, how)


def stats(long: LongMaps) -> HeadStats:
    return head_stats(whole(long, "softmax"))


def same(ours: np.ndarray | Tensor, theirs: np.ndarray | Tensor) -> float:
    """The largest difference; what is absent must be absent in both."""
    a, b = (np.asarray(one, dtype=np.float64) for one in (ours, theirs))
    assert a.shape == b.shape
    assert (np.isnan(a) == np.isnan(b)).all()
    return float(np.abs(np.nan_to_num(a) - np.nan_to_num(b)).max(initial=0.0))


@st.composite
def long_maps(draw: st.DrawFn, dtype: torch.dtype | None = None, most: int = 90) -> LongMaps:
    """Maps of every kind of mask; sizes that no block and no pixel divides; scores of any size."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    heads, time, d_k = (draw(st.integers(1, n)) for n in (3, most, 9))
    dtype = draw(st.sampled_from(list(TOLERANCE))) if dtype is None else dtype
    spread = draw(st.sampled_from([1.0, 4.0] if dtype is torch.float32 else [1.0, 30.0, 300.0]))
    q, k = (torch.randn(heads, time, d_k, generator=generator, dtype=dtype) for _ in "qk")
    keep = None
    kind = draw(st.sampled_from(["none", "padding", "holes", "square", "nothing"]))
    if kind == "padding":
        keep = torch.arange(time) < draw(st.integers(0, time))
    elif kind == "holes":
        keep = torch.rand(time, generator=generator) > 0.4
    elif kind == "square":
        keep = torch.rand(time, time, generator=generator) > 0.5
        keep[draw(st.integers(0, time - 1))] = False  # a query that sees no key
    elif kind == "nothing":
        keep = torch.zeros(time, dtype=torch.bool)
    scale = draw(st.sampled_from([None, 0.25]))
    return LongMaps(q * spread**0.5, k * spread**0.5, scale, draw(st.booleans()), keep)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of so few cells that every map of a test needs many."""
    monkeypatch.setattr(pictures, "_ROWS", 7)
    monkeypatch.setattr(pictures, "_CELLS", 160)
