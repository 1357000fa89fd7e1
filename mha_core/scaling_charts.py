"""Costs over one size as charts and as a table: formulas as lines, what was measured as points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch

from mha_core import cost
from mha_core.charts import Chart, Mark, Series, Style, Unit
from mha_core.measure import Sample, machine
from mha_core.scaling import ATTENTION, GROUPS, Cost, Measured, crossing, measured_crossing
from mha_core.spread import Spread
from mha_core.steps import STEPS

_COLOURS = {
    "projections": "d_model",
    "Q @ Kᵀ and weights @ V": "time",
    "scale, mask, softmax": "batch",
    "merge": "h",
}
_STYLES: tuple[Style, ...] = ("line", "dash", "dot")  # of the steps of one group

AXIS_NAMES = {"time": "time", "d_model": "d_model", "heads": "h", "batch": "batch"}


def _lines(detail: bool) -> dict[str, tuple[tuple[str, ...], str, Style]]:
    """Line -> the steps that it sums, its colour and style."""
    if not detail:
        return {name: (steps, _COLOURS[name], "line") for name, steps in GROUPS.items()}
    found: dict[str, tuple[tuple[str, ...], str, Style]] = {
        "1 W_q(x), W_k(x), W_v(x)": (GROUPS["projections"][:3], _COLOURS["projections"], "line")
    }
    for name, steps in GROUPS.items():
        for place, step in enumerate(steps[3:] if name == "projections" else steps):
            style = _STYLES[1] if step == "output" else _STYLES[place % 3]
            label = f"{STEPS[step].number} {STEPS[step].operation.split('.view')[0]}"
            found[label] = ((step,), "d_k" if step == "dropout" else _COLOURS[name], style)
    return found


def charts(
    axis: str, formulas: Sequence[Cost], measured: Sequence[Measured], *, detail: bool = False
) -> list[Chart]:
    """FLOPs, bytes, seconds, and the peak of materialised weights against fused attention.

    Args:
        axis: the size that grows.
        formulas, measured: in its order; there may be nothing measured yet.
        detail: a line a step, else a line for each of `scaling.GROUPS`.
    """
    flops, moved, took = [], [], []
    for name, (steps, ink, style) in _lines(detail).items():
        flops += _summed(axis, name, steps, ink, style, formulas, measured, "flops")
        moved += _summed(axis, name, steps, ink, style, formulas, measured, "allocated")
        if not any(one.allocated[step] for one in formulas for step in steps):  # it does not run
            continue
        times = [one.seconds(steps) for one in measured]
        took += _timed(axis, name, ink, style, times, measured)
    took += _timed(axis, "all steps", "text", "line", [one.seconds() for one in measured], measured)
    # In the legend whether or not there is anything yet, so that it never moves what is below.
    took.append(Series(COUNTED, (), (), "muted", "points"))
    reach = _x(axis, formulas)
    panels = [
        _chart("FLOPs", axis, "FLOPs", flops, _flops_marks(axis, formulas)),
        _chart("Memory allocated", axis, "bytes", moved, _bytes_marks(axis, formulas)),
        _chart(
            "Time of one forward", axis, "seconds", took, _time_marks(axis, measured),
            empty="not measured yet",
        ),
        _chart("Peak memory of attention alone", axis, "bytes", _peaks(axis, formulas, measured)),
    ]  # fmt: skip
    return [replace(panel, reach=reach) for panel in panels]


def _chart(
    title: str,
    axis: str,
    unit: Unit,
    series: Sequence[Series],
    marks: Sequence[Mark] = (),
    empty: str = "",
) -> Chart:
    # Points in front of all lines, and behind them in the legend.
    ordered = sorted(series, key=lambda one: one.name == COUNTED)
    return Chart(title, AXIS_NAMES[axis], unit, tuple(ordered), tuple(marks), empty=empty)


def _x(axis: str, costs: Sequence[Cost]) -> tuple[float, ...]:
    return tuple(float(getattr(one.config, axis)) for one in costs)


def _positive(
    name: str, x: Sequence[float], y: Sequence[float | None], ink: str, style: Style
) -> list[Series]:
    """One series of what a logarithmic axis can show; none where there is nothing."""
    kept = [(a, float(b)) for a, b in zip(x, y, strict=True) if b]
    if not kept:
        return []
    xs, ys = zip(*kept, strict=True)
    return [Series(name, xs, ys, ink, style)]


def _summed(
    axis: str,
    name: str,
    steps: Sequence[str],
    ink: str,
    style: Style,
    formulas: Sequence[Cost],
    measured: Sequence[Cost],
    what: str,
) -> list[Series]:
    """A formula's line, and the points that were counted on it."""

    def total(one: Cost) -> float:
        counts: Mapping[str, int] = getattr(one, what)
        return float(sum(counts.get(step, 0) for step in steps))

    lines = _positive(name, _x(axis, formulas), [total(one) for one in formulas], ink, style)
    points = [total(one) for one in measured]
    return lines + _positive(COUNTED, _x(axis, measured), points, ink, "points")


COUNTED = "counted or measured"


def _timed(
    axis: str,
    name: str,
    ink: str,
    style: Style,
    times: Sequence[Sample],
    measured: Sequence[Measured],
) -> list[Series]:
    kept = [(x, one) for x, one in zip(_x(axis, measured), times, strict=True) if one.median > 0]
    return [
        Series(
            name,
            tuple(x for x, _ in kept),
            tuple(one.median for _, one in kept),
            ink,
            style,
            tuple(one.low for _, one in kept),
            tuple(one.high for _, one in kept),
        )
    ]


def _peaks(axis: str, formulas: Sequence[Cost], measured: Sequence[Measured]) -> list[Series]:
    found = []
    whole: tuple[str, Style] = ("text", "dash")  # a line like no other of the page
    fused: tuple[str, Style] = ("d_k", "line")
    for name, what, (ink, style) in (
        ("materialised weights", "materialised", whole),
        ("F.scaled_dot_product_attention: output alone", "fused", fused),
    ):
        values = [getattr(one, what) for one in formulas]
        found += _positive(name, _x(axis, formulas), values, ink, style)
        taken = [getattr(one, what) for one in measured]
        found += _positive(COUNTED, _x(axis, measured), taken, ink, "points")
    return found


def _flops_marks(axis: str, formulas: Sequence[Cost]) -> list[Mark]:
    if axis == "time":
        return [Mark(cost.crossover_time(formulas[0].config), "equal: 2·d_model")]
    if axis == "d_model":
        return [Mark(formulas[0].config.time / 2, "equal: time/2")]
    return []


def _bytes_marks(axis: str, formulas: Sequence[Cost]) -> list[Mark]:
    if axis == "time":
        return [Mark(formulas[0].config.d_k, "one map = one activation: d_k")]
    return []


def _time_marks(axis: str, measured: Sequence[Measured]) -> list[Mark]:
    place = crossing_of(axis, measured)
    return [] if place is None else [Mark(place, f"measured: equal at {place:,.0f}")]


def crossing_of(axis: str, measured: Sequence[Measured]) -> float | None:
    """Where the measured times of attention and of the projections cross, either way."""
    place = measured_crossing(measured, axis)
    xs = _x(axis, measured)
    if place is not None and place > xs[0]:
        return place
    projections = [one.seconds(GROUPS["projections"]).median for one in measured]
    attention = [one.seconds(ATTENTION).median for one in measured]
    back = crossing(xs, attention, projections) if len(measured) > 1 else None
    return back if back is not None and back > xs[0] else None


def table(axis: str, formulas: Sequence[Cost], measured: Sequence[Measured]) -> pd.DataFrame:
    """A row for each size and step, and one for all of them: closed form beside what was measured.

    Times are in seconds. What was not measured is empty.
    """
    taken = {one.config: one for one in measured}
    rows: list[dict[str, Any]] = []
    for one in formulas:
        config, other = one.config, taken.get(one.config)
        size = {"axis": axis, "batch": config.batch, "time": config.time}
        size |= {"d_model": config.d_model, "heads": config.heads, "dtype": config.dtype}
        about = {"device": machine(config.device), "torch": torch.__version__}
        for step in STEPS:
            row = {
                "step": step,
                "FLOPs": one.flops[step],
                "FLOPs counted": other and other.flops.get(step, 0),
                "bytes allocated": one.allocated[step],
                "bytes counted": other and other.allocated.get(step, 0),
            }
            rows.append(size | row | _seconds(other, (step,)) | about)
        row = {
            "step": "all",
            "FLOPs": sum(one.flops.values()),
            "FLOPs counted": other and sum(other.flops.values()),
            "bytes allocated": sum(one.allocated.values()),
            "bytes counted": other and sum(other.allocated.values()),
        }
        peaks = {
            "peak bytes": one.peak,
            "peak bytes counted": other and other.peak,
            "materialised attention peak": one.materialised,
            "materialised attention peak measured": other and other.materialised,
            "fused attention peak measured": other and other.fused,
            "fused kernel": other and other.kernel,
        }
        rows.append(size | row | peaks | _seconds(other, None) | about)
    counts = {name: "Int64" for name in rows[-1] if "bytes" in name or "FLOPs" in name}
    counts |= {name: "Int64" for name in rows[-1] if "peak" in name}
    return pd.DataFrame(rows).astype(counts)


def _seconds(measured: Measured | None, steps: Sequence[str] | None) -> dict[str, float | int]:
    names = ("median seconds", "lower quartile seconds", "upper quartile seconds", "forwards")
    if measured is None:
        return dict.fromkeys(names, math.nan) | {"forwards": 0}
    one = measured.seconds(steps)
    return dict(zip(names, (one.median, one.low, one.high, one.count), strict=True))


def spread_table(found: Sequence[Spread]) -> pd.DataFrame:
    """A row for each d_k; entropies in nats."""
    return pd.DataFrame(
        {
            "d_k": one.d_k,
            "keys": one.keys,
            "standard deviation": one.raw,
            "standard deviation scaled": one.scaled,
            "sqrt(d_k)": math.sqrt(one.d_k),
            "entropy": one.raw_entropy,
            "entropy scaled": one.scaled_entropy,
            "torch": torch.__version__,
        }
        for one in found
    )


def spread_charts(found: Sequence[Spread], own: Spread) -> list[Chart]:
    """Spread of the scores, and entropy of the weights, over d_k; `own` is the run in view."""
    x = tuple(float(one.d_k) for one in found)
    ceiling = math.log(found[0].keys)
    here = (float(own.d_k),)
    even = f"an even spread, ln {found[0].keys}"
    return [
        Chart(
            "Standard deviation of the scores", "d_k", "number",
            (
                Series("√d_k, and 1", x, tuple(math.sqrt(value) for value in x), "muted", "dash"),
                Series("√d_k, and 1", x, (1.0,) * len(x), "muted", "dash"),
                Series("q · k", x, tuple(one.raw for one in found), "h", "points"),
                Series("q · k / √d_k", x, tuple(one.scaled for one in found), "d_k", "points"),
                Series("this run's scaled scores", here, (own.scaled,), "text", "points"),
            ),
        ),
        Chart(
            "Entropy of the weights", "d_k", "nats",
            (
                Series(even, x, (ceiling,) * len(x), "muted", "dot"),
                Series("q · k", x, tuple(one.raw_entropy for one in found), "h", "points"),
                Series(
                    "q · k / √d_k", x, tuple(one.scaled_entropy for one in found), "d_k", "points"
                ),
            ),
            log_y=False,
        ),
    ]  # fmt: skip
