"""The C++ forward against the Python one: the same module, input and threads, in turn."""

from __future__ import annotations

import gc
import statistics
import subprocess
import time
from typing import Any

import torch

from mha_core import MHAConfig
from mha_core.inputs import build_module, random_input
from mha_core.libtorch import build

# From one at which the interpreter's share is large to one at which the products are all.
SIZES: dict[str, MHAConfig] = {
    "(2, 8, 64), h 8": MHAConfig(batch=2, time=8, d_model=64, heads=8),
    "(2, 128, 256), h 8": MHAConfig(batch=2, time=128, d_model=256, heads=8),
    "(2, 512, 512), h 8": MHAConfig(batch=2, time=512, d_model=512, heads=8),
}
WARM = 5


class Forward:
    """The C++ program, which times a forward whenever it is asked."""

    def __init__(self, config: MHAConfig) -> None:
        sizes = {"batch": config.batch, "time": config.time, "d-model": config.d_model,
                 "heads": config.heads, "threads": torch.get_num_threads()}  # fmt: skip
        options = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
        self._process = subprocess.Popen(
            [build.program(), "time", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def milliseconds(self) -> float:
        """Of one forward."""
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        pipes.stdin.write("\n")
        pipes.stdin.flush()
        return float(pipes.stdout.readline())

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def measure(pairs: int = 101) -> dict[str, Any]:
    """For every size the medians, and the median of the ratios C++ / Python, pair by pair."""
    return {label: _compare(config, pairs) for label, config in SIZES.items()}


def _compare(config: MHAConfig, pairs: int) -> dict[str, Any]:
    module, x = build_module(config), random_input(config)
    forward = Forward(config)

    def python() -> float:
        with torch.no_grad():
            start = time.perf_counter()
            module(x)
            return 1e3 * (time.perf_counter() - start)

    times: dict[str, list[float]] = {"C++": [], "Python": []}
    gc.disable()  # as timeit does
    for pair in range(pairs + WARM):
        took = {}
        # Turn about which goes first.
        for name in ("C++", "Python") if pair % 2 else ("Python", "C++"):
            took[name] = forward.milliseconds() if name == "C++" else python()
        if pair >= WARM:
            for name, value in took.items():
                times[name].append(value)
    gc.enable()
    forward.close()
    ratios = [one / other for one, other in zip(times["C++"], times["Python"], strict=True)]
    return {
        "C++ ms": round(statistics.median(times["C++"]), 3),
        "Python ms": round(statistics.median(times["Python"]), 3),
        "ratio": round(statistics.median(ratios), 3),
        "runs": pairs,
    }


if __name__ == "__main__":
    for size, found in measure().items():
        print(size, found)
