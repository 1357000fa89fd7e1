"""Measuring on this machine: times of things in turn, and the memory the allocator really gave."""

from __future__ import annotations

import statistics
import threading
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch._C._autograd import _disable_profiler_legacy, _enable_profiler_legacy
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

# Told between measurements: the share done, from 0 to 1, and what comes next. It may raise to end.
Report = Callable[[float, str], None]

# torch keeps one highest mark of a device's memory for the whole process.
_ONE = threading.Lock()
_PLAIN = _ExperimentalConfig()


def unreported(_done: float, _what: str) -> None:
    """A report to nobody."""


@dataclass(frozen=True)
class Sample:
    """Repeated measurements: median, and the quartiles as their spread."""

    median: float
    low: float
    high: float
    count: int


def sample(values: Sequence[float]) -> Sample:
    """The median and quartiles of one value or more."""
    if len(values) == 1:
        return Sample(values[0], values[0], values[0], 1)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Sample(median, low, high, len(values))


def machine(device: str) -> str:
    """The device and, of a CPU, the threads that torch uses: "cpu, 2 threads"."""
    if device == "cuda":
        return f"cuda, {torch.cuda.get_device_name()}"
    if device != "cpu":
        return device
    threads = torch.get_num_threads()
    return f"cpu, {threads} thread{'' if threads == 1 else 's'}"


def wait(device: str) -> None:
    """Until the device has done all it was given; a CPU has by then."""
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()


def seconds(call: Callable[[], object], device: str) -> float:
    """Seconds of one call, from its start until its result is there."""
    wait(device)
    start = clock.perf_counter()
    result = call()
    wait(device)
    took = clock.perf_counter() - start
    del result  # freed outside the measured time
    return took


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    *,
    device: str,
    budget: float,
    rounds: tuple[int, int] = (3, 51),
    report: Report = unreported,
) -> dict[str, list[float]]:
    """Seconds of several calls, measured in turn: what slows the machine meets them all alike.

    Args:
        calls: what to time; each is called once before, unmeasured.
        device: "cpu", "cuda" or "mps".
        budget: seconds after which no new round begins, once there are the fewest.
        rounds: the fewest and the most. Each begins with another call than the one before.
        report: told before each round.

    Returns:
        Name -> one time a round, in the order of the rounds.
    """
    names = list(calls)
    with torch.no_grad():
        for call in calls.values():
            call()
        wait(device)
        times: dict[str, list[float]] = {name: [] for name in names}
        start = clock.perf_counter()
        for done in range(rounds[1]):
            spent = (clock.perf_counter() - start) / budget if budget > 0 else 1.0
            if done >= rounds[0] and spent >= 1.0:
                break
            report(min(1.0, max(spent, done / rounds[1])), f"round {done + 1}")
            turn = done % len(names)
            for name in names[turn:] + names[:turn]:
                times[name].append(seconds(calls[name], device))
    return times


def peak_bytes(call: Callable[[], object], device: str) -> int:
    """The most bytes that memory in use grew by during a call, as the device's allocator saw it.

    On the CPU every allocation and release of this thread is read from torch's recorder, so that
    what a kernel takes for itself counts too; on CUDA it is the allocator's own highest mark, in
    its blocks of 512 bytes.

    Raises:
        NotImplementedError: the device has no such mark (MPS).
    """
    with torch.no_grad():
        if device == "cpu":
            return max(_running(_allocations(call)))
    if device == "cuda":
        with _ONE, torch.no_grad():
            wait(device)
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            call()
            wait(device)
            return torch.cuda.max_memory_allocated() - before
    raise NotImplementedError(f"torch keeps no highest mark of memory on {device}")


def allocated_bytes(call: Callable[[], object]) -> int:
    """The sum of all that the CPU's allocator gave during a call."""
    with torch.no_grad():
        return sum(size for size in _allocations(call) if size > 0)


def _allocations(call: Callable[[], object]) -> list[int]:
    """Bytes of every allocation, and of every release as a negative number, in order."""
    # torch.profiler would tell the same, but it starts a tracer for the whole process, which wants
    # the thread that loaded torch; this records the calling thread alone.
    _enable_profiler_legacy(
        ProfilerConfig(ProfilerState.CPU, False, True, False, False, False, _PLAIN)
    )
    try:
        result = call()
    finally:
        events = [event for thread in _disable_profiler_legacy() for event in thread]
    del result  # what it returns was in use to the end
    sizes = [event.cpu_memory_usage() for event in events if str(event.kind()) == "memory_alloc"]
    return [int(size) for size in sizes]


def _running(sizes: Sequence[int]) -> list[int]:
    """Bytes in use after each allocation and release."""
    total, seen = 0, [0]
    for size in sizes:
        total += size
        seen.append(total)
    return seen
