"""Maps block by block against the whole map: seconds, and peak memory.

Every memory figure is of a fresh process that does one thing: `python -m benchmarks.blockwise JOB`.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor

from mha_core import maps
from mha_core.blockwise import LongMaps, overview
from mha_core.head_stats import head_stats
from mha_core.maps import HeadMaps, Pooled

ROOT = Path(__file__).parent.parent
HEADS, D_K, LIMIT = 8, 64, 96
SHORT, LONG = 4096, 32_768
FASTER, MEMORY = 2.0, 1 / 8  # block-wise against full, at SHORT
PEAK_MB = 2 * 2**30 / 1e6  # over the start, at LONG

_CLEAR = Path("/proc/self/clear_refs")


def _operands(time_: int) -> tuple[Tensor, Tensor]:
    """q and k, (h, time, d_k), standard normal."""
    drawn = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, HEADS, time_, D_K, generator=drawn)
    return q, k


def full(q: Tensor, k: Tensor, causal: bool, *, stats: bool = False) -> Pooled:
    """Scores, softmax, pool: every weight held at once."""
    scores = q @ k.mT * D_K**-0.5
    visible = None
    if causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril().expand_as(scores)
        scores = scores.masked_fill(~visible, -torch.inf)
    found = HeadMaps("softmax", scores.softmax(-1), visible)
    del scores
    if stats:
        head_stats(found)
    return maps.pool(found, LIMIT)


def full_and_statistics(q: Tensor, k: Tensor, causal: bool) -> Pooled:
    """As `full`, and the statistics that block-wise maps come with."""
    return full(q, k, causal, stats=True)


def pictures(q: Tensor, k: Tensor, causal: bool) -> Pooled:
    """Block by block, what `full` gives."""
    return overview(LongMaps(q, k, causal=causal), LIMIT, stats=False).pooled


def blocks(q: Tensor, k: Tensor, causal: bool) -> Pooled:
    """Block by block, with all that an overview has: statistics, and weights × uniform."""
    return overview(LongMaps(q, k, causal=causal), LIMIT).pooled


_WAYS: dict[str, Callable[[Tensor, Tensor, bool], Pooled]] = {
    "full": full,
    "block-wise": pictures,
    "full and statistics": full_and_statistics,
    "block-wise and statistics": blocks,
}


def _flops(time_: int, causal: bool) -> int:
    """Of the scores: 2 · h · d_k a cell; causal ones above the diagonal are not needed."""
    cells = time_ * (time_ + 1) // 2 if causal else time_**2
    return 2 * HEADS * D_K * cells


def _peak_gflops(size: int = 4096, runs: int = 5) -> float:
    """The machine's own: the fastest of several large float32 products."""
    a, b = torch.randn(2, size, size)
    times = []
    for _ in range(runs + 1):
        start = time.perf_counter()
        torch.mm(a, b)
        times.append(time.perf_counter() - start)
    return 2 * size**3 / min(times) / 1e9


# --- one job in a fresh process -------------------------------------------------------------------


def _reset_peak() -> str:
    """Starts the count of the peak anew, where the system can; how the peak is read."""
    try:
        _CLEAR.write_text("5", encoding="ascii")
    except OSError:
        return "ru_maxrss, which cannot be reset"
    return "VmHWM, reset at the start"


def _peak() -> int:
    """Bytes: the most that was resident since the reset, or ever."""
    status = Path("/proc/self/status")
    if status.exists():
        [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _job(way: str, time_: int, causal: bool) -> dict[str, Any]:
    """Peak memory over the start and seconds of one map; q and k are part of both sides' memory.

    At the start all is imported, and a map of 256 positions was made: what torch sets up when first
    used belongs to neither.
    """
    run = _WAYS[way]
    run(*_operands(256), causal)
    start = psutil.Process().memory_info().rss
    how = _reset_peak()
    q, k = _operands(time_)
    began = time.perf_counter()
    run(q, k, causal)
    seconds = time.perf_counter() - began
    peak = _peak() - start
    found = {"s": round(seconds, 2), "peak MB": round(peak / 1e6, 1), "peak is": how}
    if time_ == LONG:
        best = _peak_gflops()  # after the peak was read
        reached = _flops(time_, causal) / seconds / 1e9
        found |= {
            "GFLOP/s": round(reached, 1),
            "matmul GFLOP/s": round(best, 1),
            "share": round(reached / best, 3),
        }
    return found


def _fresh(way: str, time_: int, causal: bool) -> dict[str, Any]:
    """A job in a process of its own."""
    job = json.dumps([way, time_, causal])
    command = [sys.executable, "-m", "benchmarks.blockwise", job]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- all of them ----------------------------------------------------------------------------------


def _against(causal: bool, pairs: int, processes: int) -> dict[str, Any]:
    """Block-wise against full at SHORT: medians of runs in turn, and fresh processes in turn."""
    q, k = _operands(SHORT)
    times: dict[str, list[float]] = {way: [] for way in _WAYS}
    for pair in range(pairs + 1):
        made = {}
        for way, run in _WAYS.items():
            start = time.perf_counter()
            made[way] = run(q, k, causal).values
            if pair:  # the first warms both up
                times[way].append(time.perf_counter() - start)
        assert np.allclose(made["full"], made["block-wise"], rtol=0, atol=1e-6, equal_nan=True)
    peaks: dict[str, list[float]] = {"full": [], "block-wise": [], "block-wise and statistics": []}
    how = ""
    for _ in range(processes):
        for way, sizes in peaks.items():
            found = _fresh(way, SHORT, causal)
            sizes.append(found["peak MB"])
            how = found["peak is"]
    seconds = {way: statistics.median(each) for way, each in times.items()}
    memory = {way: statistics.median(each) for way, each in peaks.items()}
    return {
        "s": {way: round(each, 3) for way, each in seconds.items()},
        "all s": {way: [round(one, 3) for one in each] for way, each in times.items()},
        "faster": round(seconds["full"] / seconds["block-wise"], 2),
        "faster with statistics": round(
            seconds["full and statistics"] / seconds["block-wise and statistics"], 2
        ),
        "faster, at least": FASTER,
        "peak MB": memory,
        "all peak MB": peaks,
        "peak is": how,
        "memory": round(memory["block-wise"] / memory["full"], 4),
        "memory, at most": MEMORY,
    }


def measure(pairs: int = 7, processes: int = 3, long: int = 1) -> dict[str, Any]:
    """All figures of block-wise maps, causal and not.

    Args:
        pairs: runs of each way at 4,096, in turn.
        processes: fresh processes of each way, for the peak.
        long: fresh processes at 32,768; the median by seconds is told.
    """
    masks = {"not causal": False, "causal": True}
    results: dict[str, Any] = {
        f"time {SHORT:,}": {
            label: _against(causal, pairs, processes) for label, causal in masks.items()
        }
    }
    results[f"time {LONG:,}"] = {
        label: sorted(
            (_fresh("block-wise and statistics", LONG, causal) for _ in range(long)),
            key=lambda one: one["s"],
        )[long // 2]
        | {"peak MB, at most": round(PEAK_MB)}
        for label, causal in masks.items()
    }
    return results


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    print(json.dumps(_job(*json.loads(sys.argv[1]))))
