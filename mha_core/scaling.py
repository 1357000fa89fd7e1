"""What a forward costs as one size grows: in closed form, and measured on this machine."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from mha_core import budget, cost
from mha_core.aten import DispatchRecorder
from mha_core.attention import attend
from mha_core.config import MHAConfig
from mha_core.errors import ConfigError, human_bytes
from mha_core.inputs import build_module, generator, random_input
from mha_core.measure import Report, Sample, peak_bytes, sample, unreported
from mha_core.profiling import Run, lap
from mha_core.sizes import divisors
from mha_core.trace import trace_forward

AXES = ("time", "d_model", "heads", "batch")
_SMALLEST = {"time": 16, "d_model": 16, "batch": 1}
_LARGEST = {"time": 16_384, "d_model": 4096, "batch": 256}

# Steps that cost alike. Views cost nothing, and are in none.
GROUPS: dict[str, tuple[str, ...]] = {
    "projections": ("project_q", "project_k", "project_v", "output"),
    "Q @ Kᵀ and weights @ V": ("scores", "weighted_values"),
    "scale, mask, softmax": ("scale", "mask", "softmax", "dropout"),
    "merge": ("merge",),
}
ATTENTION = (*GROUPS["Q @ Kᵀ and weights @ V"], *GROUPS["scale, mask, softmax"])

_FORWARDS = 9  # about how many forwards' time one size takes to measure
_LAPS = (3, 15)  # the fewest and the most timed forwards of a size


@dataclass(frozen=True)
class Cost:
    """What a forward of one size costs.

    Attributes:
        config: the size.
        flops: step -> floating-point operations.
        allocated: step -> bytes of storage it creates.
        peak: the most bytes alive at once.
        materialised: peak bytes of `attend`, whose scores and weights are whole tensors.
        fused: the same of `F.scaled_dot_product_attention`; in closed form its output alone.
    """

    config: MHAConfig
    flops: Mapping[str, int]
    allocated: Mapping[str, int]
    peak: int
    materialised: int | None
    fused: int | None


@dataclass(frozen=True)
class Measured(Cost):
    """The same, counted and measured. Peaks of the two attentions are the allocator's.

    Attributes:
        laps: of each timed forward, step -> seconds.
        kernel: the operator that `F.scaled_dot_product_attention` became.
        difference: largest difference of its output from `attend`'s.
    """

    laps: tuple[Mapping[str, float], ...]
    kernel: str
    difference: float

    def seconds(self, steps: Sequence[str] | None = None) -> Sample:
        """What some steps took together; all when None."""
        return sample(
            [sum(one[name] for name in one if steps is None or name in steps) for one in self.laps]
        )


@dataclass(frozen=True)
class Ended:
    """Why a measurement ended before its last size."""

    config: MHAConfig
    reason: str


def sizes(config: MHAConfig, axis: str) -> list[int]:
    """Sizes along an axis, each about twice the one before, with the configuration's own.

    d_model stays a multiple of h; h takes divisors of d_model.

    Raises:
        ConfigError: no such axis.
    """
    own: int = getattr(config, axis) if axis in AXES else 0
    if axis == "heads":
        possible = [count for count in divisors(config.d_model) if count <= max(256, own)]
    elif axis in AXES:
        step = config.heads if axis == "d_model" else 1
        start = max(1, math.ceil(_SMALLEST[axis] / step))
        top = max(own, _LARGEST[axis])
        possible = [step * start * 2**n for n in range(32) if step * start * 2**n <= top]
    else:
        raise ConfigError("axis", axis, f"must be one of {', '.join(AXES)}")
    chosen = {own}
    last = 0
    for size in possible:
        if size >= 2 * last:
            chosen.add(size)
            last = size
    return sorted(chosen)


def along(config: MHAConfig, axis: str) -> list[MHAConfig]:
    """The configuration at each of `sizes`."""
    changes: list[dict[str, Any]] = [{axis: size} for size in sizes(config, axis)]
    return [replace(config, **change) for change in changes]


def closed(config: MHAConfig) -> Cost:
    """What it costs by the formulas of `cost`."""
    plain = _plain(config)
    return Cost(
        config=config,
        flops=cost.flops(config),
        allocated=cost.allocated(config),
        peak=cost.peak(config),
        materialised=cost.attend_peak(plain),
        fused=cost.activation_bytes(plain),
    )


def _plain(config: MHAConfig) -> MHAConfig:
    """Without what `F.scaled_dot_product_attention` has no kernel of its own for."""
    return replace(config, dropout=0.0, fill=-math.inf)


def measure(
    configs: Sequence[MHAConfig],
    *,
    allowed: float,
    limit: int | None = None,
    report: Report = unreported,
) -> Iterator[Measured | Ended]:
    """Runs each size in turn, with seeded weights and a seeded input, while there is room and time.

    Args:
        configs: what to run, the cheapest first.
        allowed: seconds in all.
        limit: bytes that a run may need; half of the device's free memory when None.
        report: told between forwards; it may raise, which ends the measurement.

    Yields:
        One `Measured` a size and, where not all could be run, why: last, an `Ended`.
    """
    start = clock.perf_counter()
    last: Measured | None = None
    for done, config in enumerate(configs):
        ended = _refused(config, limit)
        left = allowed - (clock.perf_counter() - start)
        if ended is None and last is not None and _FORWARDS * _predicted(last, config) > left:
            ended = f"would take longer than the {allowed:g} seconds allowed"
        if ended is not None:
            yield Ended(config, ended)
            return

        def tell(share: float, what: str, done: int = done) -> None:
            report((done + share) / len(configs), what)

        last = _one(config, max(0.0, left) / (len(configs) - done) / 2, tell)
        yield last


def _refused(config: MHAConfig, limit: int | None) -> str | None:
    """Why it does not fit the memory, if it does not."""
    limit = budget.default_limit(config.device) if limit is None else limit
    needed = budget.estimate(config, keep=()).peak
    if needed <= limit:
        return None
    return f"needs about {human_bytes(needed)}, over the limit of {human_bytes(limit)}"


def _predicted(last: Measured, config: MHAConfig) -> float:
    """Seconds that one forward will take, if it takes as long a FLOP or a byte as the last."""
    now = closed(config)
    flops = sum(now.flops.values()) / sum(last.flops.values())
    moved = sum(now.allocated.values()) / sum(last.allocated.values())
    return last.seconds().median * max(flops, moved)


def _one(config: MHAConfig, enough: float, report: Report) -> Measured:
    """One size: counted once, timed until it is `enough` seconds, then both attentions."""
    report(0.0, "counting")
    module, x = build_module(config), random_input(config)
    trace = trace_forward(config, module, x, keep=(), clock=False)
    run = Run(config, module, x, None)
    laps: list[dict[str, float]] = []
    spent = 0.0
    while len(laps) < _LAPS[1] and (len(laps) < _LAPS[0] or spent < enough):
        report(0.1 + 0.6 * len(laps) / _LAPS[1], "timing")
        laps.append(lap(run))
        spent += sum(laps[-1].values())
    report(0.8, "comparing peak memory")
    materialised, fused, kernel, difference = _attentions(_plain(config))
    return Measured(
        config=config,
        flops={step.id: step.flops or 0 for step in trace.steps},
        allocated={step.id: step.allocated or 0 for step in trace.steps},
        peak=trace.peak_bytes or 0,
        materialised=materialised,
        fused=fused,
        laps=tuple(laps),
        kernel=kernel,
        difference=difference,
    )


def _attentions(config: MHAConfig) -> tuple[int | None, int | None, str, float]:
    """Peaks of `attend` and of torch's fused one on the same q, k and v, its kernel, and how far
    apart they are. A peak is None where the device has no such measure."""
    shape = (config.batch, config.heads, config.time, config.d_k)
    rng = generator(config.seed, "qkv")
    q, k, v = (
        torch.randn(shape, generator=rng).to(config.device, config.torch_dtype) for _ in "qkv"
    )

    def whole() -> torch.Tensor:
        return attend(q, k, v, causal=config.causal, scale=config.scale)[0]

    def fused() -> torch.Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=config.causal, scale=config.scale)

    with torch.no_grad():
        ours = whole()
        with DispatchRecorder() as recorder:
            theirs = fused()
            names = [operator.name.removeprefix("aten.") for operator in recorder.take()]
        difference = float((ours.double() - theirs.double()).abs().max())
        del ours, theirs
    kernel = next((name for name in names if "attention" in name), ", ".join(names))
    try:
        peaks = peak_bytes(whole, config.device), peak_bytes(fused, config.device)
    except NotImplementedError:
        return None, None, kernel, difference
    return *peaks, kernel, difference


def crossing(x: Sequence[float], before: Sequence[float], after: Sequence[float]) -> float | None:
    """Where `after` overtakes `before`, on a straight line between sizes on log axes.

    Returns:
        The size; the first where it is ahead from there on, and None where it never is.
    """
    for n, (one, other) in enumerate(zip(before, after, strict=True)):
        if other <= one:
            continue
        if n == 0:
            return x[0]
        gap, last = math.log(other / one), math.log(before[n - 1] / after[n - 1])
        share = last / (last + gap)
        return math.exp((1 - share) * math.log(x[n - 1]) + share * math.log(x[n]))
    return None


def measured_crossing(measured: Sequence[Measured], axis: str) -> float | None:
    """The size at which attention (steps 4 to 6) takes longer than the projections (1 and 9)."""
    if len(measured) < 2:
        return None
    x = [float(getattr(one.config, axis)) for one in measured]
    projections = [one.seconds(GROUPS["projections"]).median for one in measured]
    attention = [one.seconds(ATTENTION).median for one in measured]
    return crossing(x, projections, attention)
