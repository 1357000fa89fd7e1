"""The second and further runs of a forward: what torch dispatched, how much memory, how long."""

from __future__ import annotations

import itertools
import time as clock
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mha_core.aten import DispatchRecorder, Operator
from mha_core.attention import MultiHeadAttention, Observe
from mha_core.config import MHAConfig
from mha_core.inputs import generator
from mha_core.records import Step

# Seconds of a forward from which one lap is timed enough.
SLOW = 0.03


@dataclass(frozen=True)
class Run:
    """The same forward, as often as needed: dropout draws the same each time."""

    config: MHAConfig
    module: MultiHeadAttention
    x: Tensor
    mask: Tensor | None

    def __call__(self, observe: Observe) -> Tensor:
        rng = generator(self.config.seed, "dropout", self.x.device.type)
        with torch.no_grad():
            output: Tensor = self.module(
                self.x, causal=self.config.causal, mask=self.mask, generator=rng, observe=observe
            )
        return output


class _Clock:
    """Notes the time of every step of one forward."""

    def __init__(self, device: str) -> None:
        waits = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}
        self._wait = waits.get(device, lambda: None)
        self._marks: list[tuple[str, float]] = []

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        self._wait()
        self._marks.append((name, clock.perf_counter()))
        return tensor

    @property
    def lap(self) -> dict[str, float]:
        """Seconds each step took; the input takes none."""
        pairs = itertools.pairwise(self._marks)
        return {name: end - start for (_, start), (name, end) in pairs}


def profiled(run: Run, steps: list[Step]) -> tuple[list[Step], int, dict[str, float]]:
    """The steps with what was dispatched under each; peak bytes; seconds a step."""
    dispatched: dict[str, tuple[Operator, ...]] = {}
    timer = _Clock(run.x.device.type)
    with DispatchRecorder() as recorder:

        def take(name: str, tensor: Tensor) -> Tensor:
            dispatched[name] = recorder.take()
            return timer(name, tensor)

        run(take)
    described = [
        replace(
            step,
            operators=(operators := dispatched[step.id]),
            allocated=sum(operator.allocated for operator in operators),
            copied=sum(operator.copied for operator in operators),
            flops=sum(operator.flops for operator in operators),
        )
        for step in steps
    ]
    return described, recorder.peak, timer.lap


def clocked(
    run: Run, steps: list[Step], counted: dict[str, float] | None
) -> tuple[list[Step], float]:
    """The fastest of five forwards, or of as many as fill 30 milliseconds.

    What slows a forward down comes from outside; the fastest is nearest to its cost.

    Counting operators costs some microseconds each: much beside a small forward, nothing beside
    one of 30 milliseconds, whose time is then that of the counted run, `counted`.
    """
    laps = [] if counted is None else [counted]
    while not laps or (len(laps) < 5 and sum(map(total, laps)) < SLOW):
        timer = _Clock(run.x.device.type)
        run(timer)
        laps.append(timer.lap)
    fastest = min(laps, key=total)
    steps = [replace(step, milliseconds=1e3 * fastest.get(step.id, 0.0)) for step in steps]
    return steps, 1e3 * total(fastest)


def total(lap: dict[str, float]) -> float:
    return sum(lap.values())
