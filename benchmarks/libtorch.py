"""The C++ forward against the Python one: the same module, input and threads, in turn.

Each runs in a process of its own that does a forward whenever it is asked, and times it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
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
WARM = 10
_REST = 0.01  # seconds between two


class Forward:
    """A process that times a forward whenever it is asked."""

    def __init__(self, command: list[str], config: MHAConfig) -> None:
        sizes = {"batch": config.batch, "time": config.time, "d-model": config.d_model,
                 "heads": config.heads, "threads": torch.get_num_threads()}  # fmt: skip
        options = [part for name, size in sizes.items() for part in (f"--{name}", str(size))]
        # Threads that wait must sleep: else those of the one spin in the time of the other.
        self._process = subprocess.Popen(
            [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"OMP_WAIT_POLICY": "passive"},
        )  # fmt: skip

    def milliseconds(self) -> float:
        """Of one forward."""
        pipes = self._process
        assert pipes.stdin is not None
        assert pipes.stdout is not None
        time.sleep(_REST)
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
    forwards = {
        "C++": Forward([str(build.program()), "time"], config),
        "Python": Forward([sys.executable, "-m", "benchmarks.libtorch"], config),
    }
    times: dict[str, list[float]] = {name: [] for name in forwards}
    for pair in range(pairs + WARM):
        # Turn about which goes first.
        for name in sorted(forwards, reverse=pair % 2 == 1):
            took = forwards[name].milliseconds()
            if pair >= WARM:
                times[name].append(took)
    for forward in forwards.values():
        forward.close()
    ratios = [one / other for one, other in zip(times["C++"], times["Python"], strict=True)]
    return {
        "C++ ms": round(statistics.median(times["C++"]), 3),
        "Python ms": round(statistics.median(times["Python"]), 3),
        "ratio": round(statistics.median(ratios), 3),
        "runs": pairs,
    }


def _python(arguments: list[str]) -> None:
    """A forward for every line on standard input, as `mha_libtorch time` does."""
    sizes = dict(zip(arguments[::2], map(int, arguments[1::2]), strict=True))
    torch.set_num_threads(sizes["--threads"])
    config = MHAConfig(
        batch=sizes["--batch"], time=sizes["--time"], d_model=sizes["--d-model"],
        heads=sizes["--heads"],
    )  # fmt: skip
    module, x = build_module(config), random_input(config)
    with torch.no_grad():
        for _ in sys.stdin:
            start = time.perf_counter()
            module(x)
            print(1e3 * (time.perf_counter() - start), flush=True)


if __name__ == "__main__":
    _python(sys.argv[1:])
