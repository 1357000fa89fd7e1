"""What the export tests share: odd sizes, traces, and labels that break careless writers."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from mha_core import MHAConfig, Trace, trace_forward

BATCH, TIME, HEADS, D_K = 2, 7, 5, 3

# Formulas, markup, mathematics, quoting, a formula hidden behind a space, and a repeated word.
ODD = ("=1+1", "<b>x</b>", "$\\frac{1}$", 'say "a,b"', "-2", "the", "the")


def config(**changes: Any) -> MHAConfig:
    sizes = {"batch": BATCH, "time": TIME, "d_model": HEADS * D_K, "heads": HEADS}
    return MHAConfig(**(sizes | {"causal": True} | changes))


@cache
def traced(**changes: Any) -> Trace:
    """Made once for each configuration; no test changes a trace."""
    return trace_forward(config(**changes), profile=False)


@cache
def overflowing() -> Trace:
    """float16 at position 3 of item 0 is so large that scores overflow and weights are NaN."""
    x = torch.ones(BATCH, TIME, HEADS * D_K, dtype=torch.float16)
    x[0, 3] = 30_000.0
    return trace_forward(config(dtype="float16"), x=x, profile=False)
