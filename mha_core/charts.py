"""Line charts as plain data: what Plotly draws on a page and matplotlib in a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mha_core.errors import human_bytes
from mha_core.palette import Palette

Unit = Literal["number", "bytes", "FLOPs", "seconds", "ratio", "nats"]
Style = Literal["line", "dash", "dot", "points"]


@dataclass(frozen=True)
class Series:
    """One line.

    Attributes:
        name: in the legend; series of one name, in several panels, share an entry.
        x, y: its points; y above 0 where the axis is logarithmic.
        colour: "text", "muted", "good", "bad", or a key of `Palette.tints`.
        style: "points" has a marker at each point, and a thin line.
        low, high: ends of a spread around y; such a line has markers whatever its style.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str
    style: Style = "line"
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Mark:
    """A vertical line where something happens."""

    x: float
    text: str


@dataclass(frozen=True)
class Chart:
    """One panel.

    Attributes:
        title: what it shows.
        x_title, unit: names of the axes; the unit also says how numbers of y are written.
        series: the lines, back to front.
        marks: vertical lines with a word each.
        log_x, log_y: logarithmic axes.
        empty: said in the middle where there is no line yet.
        reach: sizes that x covers beside those of its lines, so that panels agree.
    """

    title: str
    x_title: str
    unit: Unit
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    log_x: bool = True
    log_y: bool = True
    empty: str = ""
    reach: tuple[float, ...] = ()


@dataclass(frozen=True)
class Axis:
    """Ends of an axis, and its ticks as numbers and as text."""

    low: float
    high: float
    ticks: tuple[float, ...]
    words: tuple[str, ...]


def colour(name: str, colours: Palette) -> str:
    """The colour of a series on a ground."""
    tint = colours.tints.get(name)
    return tint if tint is not None else str(getattr(colours, name))


def written(value: float, unit: Unit) -> str:
    """A value with its unit, as a person reads it."""
    return _WRITTEN[unit](value)


def si(value: float, digits: int = 3) -> str:
    """1.5 M, 2 G, 640: powers of a thousand."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.{digits}g} {letter}"
    return f"{value:.{digits}g}"


def short_seconds(value: float) -> str:
    """20 µs, 1.5 ms, 2 s."""
    for size, letter in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value / 1e-9:.3g} ns"


def _bytes(value: float) -> str:
    return human_bytes(value).replace(".0 ", " ")


_WRITTEN: dict[Unit, Callable[[float], str]] = {
    "number": lambda value: f"{value:.4g}",
    "bytes": _bytes,
    "FLOPs": si,
    "seconds": short_seconds,
    "ratio": lambda value: f"{value:.3g} ×",
    "nats": lambda value: f"{value:.3g}",
}


def x_axis(chart: Chart, most: int = 8) -> Axis:
    """Of x: ticks at sizes that were computed, at most so many."""
    xs = sorted({x for series in chart.series for x in series.x} | set(chart.reach) or {1.0, 10.0})
    every = math.ceil(len(xs) / most)
    ticks = tuple(xs[::every])
    low, high = _room(xs[0], xs[-1], chart.log_x, 0.04)
    return Axis(
        low, high, ticks, tuple(f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks)
    )


def y_axis(chart: Chart, most: int = 6) -> Axis:
    """Of y: from all lines and spreads, with room; ticks at round numbers of the unit."""
    values = [
        value
        for series in chart.series
        for part in (series.y, series.low, series.high)
        for value in part or ()
        if not chart.log_y or value > 0
    ]
    if not values:
        return Axis(1.0, 10.0, (), ())
    if not chart.log_y:
        low, high = min(0.0, *values), max(values) or 1.0
        step = _round_step((high - low) / most)
        ticks = tuple(n * step for n in range(math.floor(low / step), math.ceil(high / step) + 1))
        return Axis(low, high * 1.08, ticks, tuple(written(tick, chart.unit) for tick in ticks))
    base = 2.0 if chart.unit == "bytes" else 10.0
    low, high = _room(min(values), max(values), True, 0.08)
    first, last = (math.log(end, base) for end in (low, high))
    powers = list(range(math.ceil(first), math.floor(last) + 1))
    if base == 10.0 and len(powers) < 3:  # between powers of ten: 1, 2 and 5
        fine = [
            m * 10.0**n for n in range(math.floor(first), math.ceil(last) + 1) for m in (1, 2, 5)
        ]
        ticks = tuple(value for value in fine if low <= value <= high)
    else:
        every = math.ceil(len(powers) / most)
        ticks = tuple(base**n for n in powers if n % every == 0)
    return Axis(low, high, ticks, tuple(written(tick, chart.unit) for tick in ticks))


def marks_within(chart: Chart, x: Axis) -> list[Mark]:
    """The marks that the axis reaches."""
    return [mark for mark in chart.marks if x.low <= mark.x <= x.high]


def _room(low: float, high: float, log: bool, share: float) -> tuple[float, float]:
    """The ends moved apart by a share of their distance."""
    if not log:
        gap = (high - low or 1.0) * share
        return low - gap, high + gap
    gap = (math.log(high / low) or math.log(4.0)) * share
    return low / math.exp(gap), high * math.exp(gap)


def _round_step(step: float) -> float:
    """The next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * (1 - 1e-9))


_MANY = ""  # no colour of its own


def legend(charts: Sequence[Chart]) -> list[Series]:
    """One series for each name, in the order they come; last, in grey, those of many colours."""
    found: dict[str, Series] = {}
    for series in (series for chart in charts for series in chart.series):
        first = found.setdefault(series.name, series)
        if first.colour != series.colour:
            found[series.name] = replace(first, colour=_MANY)
    many = [series for series in found.values() if series.colour == _MANY]
    one = [series for series in found.values() if series.colour != _MANY]
    return one + [replace(series, colour="muted") for series in many]


def alt_text(charts: Sequence[Chart]) -> str:
    """What the panels show, in words: every line with its first and last value."""
    said = []
    for chart in charts:
        lines = [
            f"{series.name} from {written(series.y[0], chart.unit)} at {series.x[0]:g} "
            f"to {written(series.y[-1], chart.unit)} at {series.x[-1]:g}"
            for series in chart.series
            if series.y
        ]
        marks = [f"{mark.text} at {mark.x:g}" for mark in chart.marks]
        content = "; ".join([*lines, *marks]) or chart.empty
        said.append(f"{chart.title} over {chart.x_title}: {content}.")
    return " ".join(said)
