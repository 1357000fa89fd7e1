"""How long one flat matrix, h matrices and a fused one take, over h, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from mha_core import budget
from mha_core.aten import DispatchRecorder
from mha_core.attention import MultiHeadAttention
from mha_core.charts import Chart, Mark, Series, short_seconds
from mha_core.errors import ConfigError, human_bytes
from mha_core.measure import Report, Sample, interleaved, machine, sample, unreported
from mha_core.projections import LABELS, Facts, built, called, linears
from mha_core.sizes import check_heads, divisors


@dataclass(frozen=True)
class Timing:
    """Times at one number of heads.

    Attributes:
        heads: h.
        seconds: way -> seconds of making q, k and v.
        ratio: way -> its time over the flat matrix's in the same round.
        kernels: way -> operators that write memory.
    """

    heads: int
    seconds: dict[str, Sample]
    ratio: dict[str, Sample]
    kernels: dict[str, int]

    def verdict(self, name: str) -> str:
        """ "slower", "faster" or "the same", than the flat matrix: by the middle half of rounds."""
        ratio = self.ratio[name]
        return "slower" if ratio.low > 1.0 else "faster" if ratio.high < 1.0 else "the same"


def head_counts(d_model: int, heads: int, most: int = 9) -> list[int]:
    """Numbers of heads to measure at: 1, `heads`, and divisors that about double, up to 64.

    Raises:
        ConfigError: heads does not divide d_model.
    """
    check_heads(d_model, heads)
    possible = [count for count in divisors(d_model) if count <= max(64, heads)]
    chosen = {1, heads}
    last = 1
    for count in possible:
        if count >= 2 * last:
            chosen.add(count)
            last = count
    ordered = sorted(chosen)
    while len(ordered) > most:  # the farthest above what is asked for
        ordered.remove(next(count for count in reversed(ordered) if count != heads))
    return ordered


def check_budget(module: MultiHeadAttention, x: Tensor, *, limit: int | None = None) -> None:
    """Refuses a measurement that does not fit the memory.

    Raises:
        ConfigError: naming what it needs and the limit.
    """
    device = x.device.type
    limit = budget.default_limit(device) if limit is None else limit
    weights = 3 * module.d_model**2 * x.element_size()
    # A copy of the weights for each way; of one way at a time, the heads apart and stacked.
    needed = len(LABELS) * weights + 6 * x.nbytes
    if needed > limit:
        raise ConfigError(
            "d_model",
            module.d_model,
            f"measuring needs about {human_bytes(needed)}, over the limit of {human_bytes(limit)}",
            works="Smaller batch, time or d_model work",
        )


def time_over_heads(
    module: MultiHeadAttention,
    x: Tensor,
    counts: Sequence[int],
    *,
    allowed: float,
    report: Report = unreported,
) -> Iterator[Timing]:
    """Times of all ways to project the same weights, for each number of heads in turn.

    Args:
        module: its W_q, W_k and W_v, cut into as many heads as asked for.
        x: (batch, time, d_model).
        counts: numbers of heads; each divides d_model.
        allowed: seconds in all, shared evenly.
        report: told before each round; it may raise, which ends the measurement.
    """
    for done, heads in enumerate(counts):
        runs = {name: called(name, built(name, linears(module), heads)) for name in LABELS}

        def tell(share: float, _round: str, done: int = done, heads: int = heads) -> None:
            report((done + share) / len(counts), f"h = {heads}")

        times = interleaved(
            {name: _bound(run, x) for name, run in runs.items()},
            device=x.device.type,
            budget=allowed / len(counts),
            rounds=(5, 201),
            report=tell,
        )
        yield Timing(
            heads=heads,
            seconds={name: sample(took) for name, took in times.items()},
            ratio={
                name: sample([a / b for a, b in zip(took, times["flat"], strict=True)])
                for name, took in times.items()
            },
            kernels={name: _kernels(run, x) for name, run in runs.items()},
        )


def _bound(run: Callable[[Tensor], object], x: Tensor) -> Callable[[], object]:
    return lambda: run(x)


def _kernels(run: Callable[[Tensor], object], x: Tensor) -> int:
    with torch.no_grad(), DispatchRecorder() as recorder:
        run(x[:1, :1])
        return sum(1 for operator in recorder.take() if operator.allocated)


def frame(timings: Sequence[Timing], device: str) -> pd.DataFrame:
    """A row for each number of heads and way, in seconds; the ratios are to the flat matrix."""
    rows: list[dict[str, Any]] = []
    for timing in timings:
        for name, label in LABELS.items():
            took, ratio = timing.seconds[name], timing.ratio[name]
            rows.append(
                {
                    "heads": timing.heads,
                    "projection": label,
                    "kernels": timing.kernels[name],
                    "rounds": took.count,
                    "median seconds": took.median,
                    "lower quartile seconds": took.low,
                    "upper quartile seconds": took.high,
                    "median ratio": ratio.median,
                    "lower quartile ratio": ratio.low,
                    "upper quartile ratio": ratio.high,
                    "device": machine(device),
                    "torch": torch.__version__,
                }
            )
    return pd.DataFrame(rows)


def export_frame(facts: Sequence[Facts], timings: Sequence[Timing], device: str) -> pd.DataFrame:
    """The table of a file: the times once there are some, and before them the facts."""
    if timings:
        return frame(timings, device)
    return pd.DataFrame(
        {
            "projection": LABELS[one.name],
            "weight shape (out, in)": str(one.shape),
            "weights": one.matrices,
            "parameter tensors": one.tensors,
            "numbers": one.parameters,
            "kernels": one.kernels,
            "largest difference": one.difference,
            "largest difference in float64": one.exact,
        }
        for one in facts
    )


_COLOURS = {"separate": "h", "apart": "batch", "fused": "d_k"}


def ratio_chart(timings: Sequence[Timing], heads: int, counts: Sequence[int]) -> Chart:
    """Time of each way over the flat matrix's, over h; `heads` is marked among `counts`."""
    x = tuple(float(one.heads) for one in timings)
    series = [Series(LABELS["flat"], x, (1.0,) * len(x), "muted", "dash")]
    for name, ink in _COLOURS.items():
        ratios = [one.ratio[name] for one in timings]
        series.append(
            Series(
                LABELS[name], x,
                tuple(one.median for one in ratios), ink, "points",
                tuple(one.low for one in ratios), tuple(one.high for one in ratios),
            )
        )  # fmt: skip
    return Chart(
        "Time of q, k, v; the flat matrix = 1", "h", "ratio", tuple(series),
        (Mark(heads, f"h = {heads}"),), empty="not measured yet",
        reach=tuple(map(float, counts)),
    )  # fmt: skip


def sentences(timing: Timing) -> list[str]:
    """What was measured at one h, whichever wins."""
    flat = timing.seconds["flat"]
    said = [
        f"At h = {timing.heads}, {LABELS['flat']} took {short_seconds(flat.median)} for q, k and v "
        f"(median of {flat.count} rounds in turn; middle half {short_seconds(flat.low)} to "
        f"{short_seconds(flat.high)})."
    ]
    for name in _COLOURS:
        ratio = timing.ratio[name]
        verdict = timing.verdict(name)
        end = "no clear difference" if verdict == "the same" else verdict
        said.append(
            f"{LABELS[name]}: {ratio.median:.2f} × that time "
            f"({ratio.low:.2f} to {ratio.high:.2f}): {end}."
        )
    return said
