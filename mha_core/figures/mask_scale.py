"""The factor on the scores over d_k: small charts as SVG, and their numbers as a table."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mha_core.figures.text import number
from mha_core.mask_lab.saturation import SATURATED, SCALES, Saturation
from mha_core.palette import Palette

COLUMNS = (
    "d_k", "scale", "factor", "std of scores", "entropy, nats", "effective keys", "largest weight",
    "saturated", "gradient passes",
)  # fmt: skip

_WIDE, _HIGH = 440.0, 230.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 12.0, 12.0, 40.0


@dataclass(frozen=True)
class _Chart:
    title: str
    of: Callable[[Saturation], float]
    log: bool
    top: float | None  # end of the axis; None follows the data


def _charts(keys: int) -> tuple[_Chart, ...]:
    return (
        _Chart("spread: standard deviation of the scores", lambda s: s.std, True, None),
        _Chart(f"entropy, nats (even: ln {keys} = {math.log(keys):.2f})", lambda s: s.entropy,
               False, math.log(keys)),
        _Chart(f"saturated: rows with one weight above {SATURATED}", lambda s: s.saturated,
               False, 1.0),
        _Chart("gradient through softmax: Σ w (1 − w)", lambda s: s.passes, False, 1.0),
    )  # fmt: skip


def colour_of(scale: str, colours: Palette) -> str:
    return colours.head(SCALES.index(scale))


def charts_html(found: Sequence[Saturation], colours: Palette, *, at: int) -> str:
    """Four charts and what their lines are; `at` is the page's d_k."""
    legend = "".join(
        f'<span><i style="background:{colour_of(scale, colours)}"></i>{scale}</span>'
        for scale in SCALES
    )
    charts = "".join(
        f"<figure><figcaption>{html.escape(chart.title)}</figcaption>"
        f"{_svg(chart, found, colours, at)}</figure>"
        for chart in _charts(found[0].keys)
    )
    return f'<div class="mk-legend">{legend}</div><div class="mk-charts">{charts}</div>'


def charts_svg(found: Sequence[Saturation], colours: Palette, *, at: int) -> str:
    """The four charts as one file."""
    parts = []
    for place, chart in enumerate(_charts(found[0].keys)):
        x, y = (place % 2) * (_WIDE + 20) + 16, (place // 2) * (_HIGH + 46) + 62
        parts.append(
            f'<text x="{x}" y="{y - 8}" font-size="12.5" fill="{colours.text}">'
            f"{html.escape(chart.title)}</text>"
            f'<g transform="translate({x},{y})">{_marks(chart, found, colours, at)}</g>'
        )
    legend = "".join(
        f'<rect x="{16 + 120 * n}" y="14" width="12" height="12" rx="2" '
        f'fill="{colour_of(scale, colours)}"/><text x="{34 + 120 * n}" y="24.5" font-size="13" '
        f'fill="{colours.text}">{scale}</text>'
        for n, scale in enumerate(SCALES)
    )
    wide, high = 2 * _WIDE + 52, 2 * (_HIGH + 46) + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" font-family="sans-serif" role="img">'
        f"<title>{_alt(found)}</title>"
        f'<rect width="100%" height="100%" fill="{colours.background}"/>{legend}{"".join(parts)}'
        "</svg>"
    )


def _alt(found: Sequence[Saturation]) -> str:
    widths = sorted({one.d_k for one in found})
    return (
        f"Spread, entropy, saturation and gradient over d_k from {widths[0]} to {widths[-1]}, for "
        f"the factors {', '.join(SCALES)}"
    )


def _svg(chart: _Chart, found: Sequence[Saturation], colours: Palette, at: int) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDE:.0f} {_HIGH:.0f}" role="img" '
        f'aria-label="{html.escape(chart.title)}, over d_k">'
        f"{_marks(chart, found, colours, at)}</svg>"
    )


def _marks(chart: _Chart, found: Sequence[Saturation], colours: Palette, at: int) -> str:
    widths = sorted({one.d_k for one in found})
    values = [chart.of(one) for one in found]
    low, high = _ends(chart, values)

    def x(d_k: float) -> float:
        first, last = math.log2(widths[0]), math.log2(widths[-1])
        place = (math.log2(d_k) - first) / (last - first)
        return _LEFT + place * (_WIDE - _LEFT - _RIGHT)

    def y(value: float) -> float:
        place = (
            (math.log10(max(value, low)) - math.log10(low)) / (math.log10(high) - math.log10(low))
            if chart.log
            else (value - low) / (high - low)
        )
        return _HIGH - _BOTTOM - place * (_HIGH - _TOP - _BOTTOM)

    text = f'font-size="11" fill="{colours.muted}"'
    ground = "".join(
        f'<path d="M{_LEFT} {y(tick):.1f}H{_WIDE - _RIGHT}" stroke="{colours.line}"/>'
        f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end" {text}>{number(tick, 3)}'
        "</text>"
        for tick in _ticks(chart, low, high)
    )
    ground += "".join(
        f'<text x="{x(d_k):.1f}" y="{_HIGH - _BOTTOM + 16}" text-anchor="middle" {text}>{d_k}'
        "</text>"
        for d_k in widths
    )
    ground += (
        f'<text x="{(_LEFT + _WIDE - _RIGHT) / 2:.0f}" y="{_HIGH - 6}" text-anchor="middle" '
        f"{text}>d_k</text>"
    )
    if widths[0] <= at <= widths[-1]:
        ground += (
            f'<path d="M{x(at):.1f} {_TOP}V{_HIGH - _BOTTOM}" stroke="{colours.muted}" '
            'stroke-dasharray="3 3"/>'
        )
    lines = "".join(_line(chart, found, scale, colours, x, y) for scale in reversed(SCALES))
    return ground + lines


def _line(
    chart: _Chart,
    found: Sequence[Saturation],
    scale: str,
    colours: Palette,
    x: Callable[[float], float],
    y: Callable[[float], float],
) -> str:
    points = [(one, x(one.d_k), y(chart.of(one))) for one in found if one.scale == scale]
    path = " ".join(f"{px:.1f},{py:.1f}" for _, px, py in points)
    fill = colour_of(scale, colours)
    dots = "".join(
        f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{fill}"><title>{scale}, d_k {one.d_k}: '
        f"{number(chart.of(one), 4)}</title></circle>"
        for one, px, py in points
    )
    return f'<polyline points="{path}" fill="none" stroke="{fill}" stroke-width="2"/>{dots}'


def _ends(chart: _Chart, values: Sequence[float]) -> tuple[float, float]:
    if not chart.log:
        return 0.0, chart.top or max(values)
    low = 10 ** math.floor(math.log10(max(min(values), 1e-6)))
    return low, 10 ** math.ceil(math.log10(max(*values, 10 * low)))


def _ticks(chart: _Chart, low: float, high: float) -> list[float]:
    if chart.log:
        first, last = round(math.log10(low)), round(math.log10(high))
        return [10.0**power for power in range(first, last + 1)]
    return [low + (high - low) * n / 4 for n in range(5)]


def scale_rows(found: Sequence[Saturation]) -> list[tuple[object, ...]]:
    """One row a width and factor under `COLUMNS`, numbers as they are."""
    return [
        (
            one.d_k, one.scale, one.factor, one.std, one.entropy, one.effective_keys, one.largest,
            one.saturated, one.passes,
        )
        for one in found
    ]  # fmt: skip


def scale_table(found: Sequence[Saturation], colours: Palette, *, label: str = "") -> str:
    """The numbers as HTML; `label` stands before them, for the run's own."""
    head = "".join(
        f"<th>{title}</th>" if title == "scale" else f'<th class="num">{title}</th>'
        for title in COLUMNS
    )
    body = "".join(
        f'<tr><td class="num">{one.d_k}</td><td style="white-space:nowrap">'
        f'<i class="mk-dot" style="background:{colour_of(one.scale, colours)}"></i>{one.scale}</td>'
        f'<td class="num">{one.factor:.4g}</td><td class="num">{one.std:.3f}</td>'
        f'<td class="num">{one.entropy:.3f}</td><td class="num">{one.effective_keys:.2f}</td>'
        f'<td class="num">{one.largest:.3f}</td><td class="num">{100 * one.saturated:.1f} %</td>'
        f'<td class="num">{one.passes:.3f}</td></tr>'
        for one in found
    )
    caption = f"<caption>{html.escape(label)}</caption>" if label else ""
    return (
        f'<div class="mk-scroll"><table class="mk-table">{caption}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
