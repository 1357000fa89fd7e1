"""Cost of recording a trace: the same module's forward, observed and not, in turn."""

from __future__ import annotations

import gc
import statistics
import time
from typing import Any

import torch

from mha_core import MHAConfig, trace_forward
from mha_core.inputs import build_module, random_input


def measure(pairs: int = 101) -> dict[str, Any]:
    """Median of the ratios, pair by pair, at (2, 512, 512), h 8, without profiling.

    The trace keeps no tensor: keeping them is memory's price, not recording's.
    """
    config = MHAConfig(batch=2, time=512, d_model=512, heads=8)
    module, x = build_module(config), random_input(config)

    def plain() -> None:
        with torch.no_grad():
            module(x)

    def traced() -> None:
        trace_forward(config, module, x, keep=(), profile=False)

    times: dict[str, list[float]] = {"plain": [], "traced": []}
    gc.disable()  # as timeit does
    for pair in range(pairs + 3):
        # Turn about which goes first: the second finds warmer caches.
        order = (plain, traced) if pair % 2 else (traced, plain)
        for run in order:
            start = time.perf_counter()
            run()
            if pair >= 3:
                times[run.__name__].append(time.perf_counter() - start)
    gc.enable()
    plain_ms, traced_ms = (1e3 * statistics.median(times[name]) for name in ("plain", "traced"))
    return {
        "plain ms": round(plain_ms, 2),
        "traced ms": round(traced_ms, 2),
        "ratio": round(
            statistics.median(t / p for p, t in zip(times["plain"], times["traced"], strict=True)),
            3,
        ),
        "runs": pairs,
    }
