"""Runs of a forward: what torch dispatched, how much memory, how long."""

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

_ENOUGH, _MUCH = 0.03, 1.0  # seconds of timing: enough for a fast forward, and for any


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


def counted(run: Run, observe: Observe) -> tuple[Tensor, dict[str, tuple[Operator, ...]], int]:
    """Runs the forward; returns its output, what was dispatched under each step, and peak bytes.

    What `observe` does with a step's tensor is not counted.
    """
    dispatched: dict[str, tuple[Operator, ...]] = {}
    with DispatchRecorder() as recorder:

        def take(name: str, tensor: Tensor) -> Tensor:
            dispatched[name] = recorder.take()
            with recorder.paused():
                return observe(name, tensor)

        output = run(take)
    return output, dispatched, recorder.peak


def described(steps: list[Step], dispatched: dict[str, tuple[Operator, ...]]) -> list[Step]:
    """The steps with the operators dispatched under them."""
    return [
        replace(
            step,
            operators=(operators := dispatched[step.id]),
            allocated=sum(operator.allocated for operator in operators),
            copied=sum(operator.copied for operator in operators),
            flops=sum(operator.flops for operator in operators),
        )
        for step in steps
    ]


def lap(run: Run) -> dict[str, float]:
    """Seconds that each step of one forward took; the input takes none."""
    timer = _Clock(run.x.device.type)
    run(timer)
    return timer.lap


def clocked(run: Run) -> tuple[dict[str, float], float]:
    """Milliseconds of every step, and of all, in the fastest of some forwards that do nothing else.

    Five forwards, or as many as fill 30 milliseconds, but two at least where they take no second.
    What slows a forward down comes from outside; the fastest is nearest to its cost.
    """
    laps: list[dict[str, float]] = []
    while len(laps) < 5:
        laps.append(lap(run))
        if sum(map(_total, laps)) > (_MUCH if len(laps) < 2 else _ENOUGH):
            break
    fastest = min(laps, key=_total)
    return {name: 1e3 * seconds for name, seconds in fastest.items()}, 1e3 * _total(fastest)


def _total(lap: dict[str, float]) -> float:
    return sum(lap.values())
