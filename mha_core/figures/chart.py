"""Line charts in Plotly: panels side by side, or one below the other where there is no room."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from mha_core.charts import (
    Chart,
    Series,
    alt_text,
    colour,
    legend,
    marks_within,
    written,
    x_axis,
    y_axis,
)
from mha_core.figures.text import MONO
from mha_core.palette import Mode, Palette, mix, palette, rgb

HEIGHT = 300  # of one panel, its title and axis included
_TITLE, _BELOW, _LEFT, _GAP = 34, 46, 74, 24
_DASHES = {"dash": "6px,5px", "dot": "2px,4px"}


def chart_spec(
    charts: Sequence[Chart], *, width: int, colours: Palette, columns: int = 0
) -> dict[str, Any]:
    """Traces and layout, without a legend: see `legend_html`.

    Args:
        charts: one panel each.
        width: of all, in pixels.
        colours: of the ground.
        columns: panels in a row; two where each has 300 pixels when 0.
    """
    columns = columns or max(1, min(len(charts), 2, width // 300))
    rows = math.ceil(len(charts) / columns)
    height = rows * HEIGHT
    traces: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "width": width,
        "height": height,
        "margin": {"l": 0, "r": 0, "t": 0, "b": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "font": {"color": colours.text, "family": "'Source Sans', sans-serif", "size": 13},
        "hoverlabel": {
            "font": {"family": MONO, "size": 13, "color": colours.text},
            "bgcolor": colours.surface,
            "bordercolor": colours.muted,
        },
        "annotations": [],
        "shapes": [],
    }
    for place, chart in enumerate(charts):
        row, column = divmod(place, columns)
        x = [
            (column * width / columns + _LEFT) / width,
            ((column + 1) * width / columns - _GAP) / width,
        ]
        top = 1 - (row * HEIGHT + _TITLE) / height
        y = [1 - ((row + 1) * HEIGHT - _BELOW) / height, top]
        _panel(chart, place + 1, (x, y), traces, layout, colours)
    return {"data": traces, "layout": layout}


def chart_figure(charts: Sequence[Chart], *, width: int = 1000, mode: Mode = "light") -> go.Figure:
    """The same as a figure of its own, with a legend: for notebooks and files."""
    colours = palette(mode)
    spec = chart_spec(charts, width=width, colours=colours)
    seen: set[str] = set()
    for trace in spec["data"]:
        if trace["mode"] != "text":
            trace["showlegend"] = trace["name"] not in seen
            trace["legendgroup"] = trace["name"]
            seen.add(trace["name"])
    below = 26 * math.ceil(len(seen) / max(1, width // 220)) + 20
    height = spec["layout"]["height"]
    for axis in (key for key in spec["layout"] if key.startswith("yaxis")):
        # The panels keep their pixels above the legend.
        spec["layout"][axis]["domain"] = [
            1 - (1 - end) * height / (height + below) for end in spec["layout"][axis]["domain"]
        ]
    for note in spec["layout"]["annotations"]:
        if note["yref"] == "paper":
            note["y"] = 1 - (1 - note["y"]) * height / (height + below)
    spec["layout"] |= {
        "height": height + below,
        "paper_bgcolor": colours.background,
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 0, "yanchor": "bottom"},
        "meta": {"alt": alt_text(charts)},
    }
    return go.Figure(spec)


def legend_html(charts: Sequence[Chart], colours: Palette) -> str:
    """The legend as HTML: it wraps where a figure's own would be cut."""
    entries = "".join(
        f'<span class="entry {series.style}" style="--c:{colour(series.colour, colours)}">'
        f"<i></i>{html.escape(series.name)}</span>"
        for series in legend(charts)
    )
    return f'<div class="chart-legend">{entries}</div>'


def _panel(
    chart: Chart,
    number: int,
    domain: tuple[list[float], list[float]],
    traces: list[dict[str, Any]],
    layout: dict[str, Any],
    colours: Palette,
) -> None:
    """Adds one panel: its axes, its lines, its title and marks."""
    suffix = "" if number == 1 else str(number)
    across = layout["width"] * (domain[0][1] - domain[0][0])
    x, y = x_axis(chart, most=max(2, int(across // 62))), y_axis(chart)
    line = {"color": colours.muted, "size": 13}
    for name, axis, log, where, other in (
        ("xaxis", x, chart.log_x, domain[0], "y"),
        ("yaxis", y, chart.log_y, domain[1], "x"),
    ):
        ends = [axis.low, axis.high]
        layout[f"{name}{suffix}"] = {
            "type": "log" if log else "linear",
            "range": [math.log10(end) for end in ends] if log else ends,
            "domain": where,
            "anchor": f"{other}{suffix}",
            "tickmode": "array",
            "tickvals": list(axis.ticks),
            "ticktext": list(axis.words),
            "tickfont": line,
            "gridcolor": colours.line,
            "zeroline": False,
            "showline": name == "xaxis",
            "linecolor": colours.line,
            "fixedrange": True,
            # Else Plotly measures every label against its neighbours, and none of ours overlap.
            "ticklabeloverflow": "allow",
        }
    layout[f"xaxis{suffix}"]["title"] = {"text": chart.x_title, "font": line, "standoff": 6}
    layout[f"xaxis{suffix}"]["showgrid"] = False
    layout["annotations"].append(
        _note(html.escape(chart.title), domain[0][0], domain[1][1], "left", colours.text, 14)
        | {"yshift": 8}
    )
    if chart.empty and not any(series.y for series in chart.series):
        left, up = (sum(ends) / 2 for ends in domain)
        note = _note(html.escape(chart.empty), left, up, "center", colours.muted, 13)
        layout["annotations"].append(
            note | {"yanchor": "middle", "bgcolor": colours.background, "borderpad": 6}
        )
    for mark in marks_within(chart, x):
        at = math.log10(mark.x) if chart.log_x else mark.x
        layout["shapes"].append(
            {
                "type": "line", "xref": f"x{suffix}", "yref": f"y{suffix} domain",
                "x0": mark.x, "x1": mark.x, "y0": 0, "y1": 1, "layer": "below",
                "line": {"color": colours.muted, "width": 1, "dash": "2px,3px"},
            }
        )  # fmt: skip
        right = mark.x > math.sqrt(x.low * x.high) if chart.log_x else mark.x > (x.low + x.high) / 2
        layout["annotations"].append(
            {
                "xref": f"x{suffix}", "yref": f"y{suffix} domain", "x": at, "y": 1,
                "xanchor": "right" if right else "left", "yanchor": "top", "showarrow": False,
                "text": html.escape(mark.text), "xshift": -4 if right else 4,
                "font": {"size": 13, "color": colours.muted}, "borderpad": 1,
                "bgcolor": f"rgba{(*rgb(colours.background), 0.75)}",
            }
        )  # fmt: skip
    # Every trace costs Plotly time, also one without a point; without any a panel has no axes.
    there = [series for series in chart.series if series.x] or chart.series[:1]
    traces += [_trace(series, chart, suffix, colours) for series in there]


def _note(text: str, x: float, y: float, align: str, ink: str, size: int) -> dict[str, Any]:
    """Words placed on the paper."""
    return {
        "xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": align, "yanchor": "bottom",
        "text": text, "showarrow": False, "font": {"size": size, "color": ink},
    }  # fmt: skip


def _trace(series: Series, chart: Chart, suffix: str, colours: Palette) -> dict[str, Any]:
    ink = colour(series.colour, colours)
    points = series.style == "points" or series.low is not None
    line: dict[str, Any] = {"color": ink, "width": 1.2 if points else 2}
    if series.style in _DASHES:
        line["dash"] = _DASHES[series.style]
    told = [written(value, chart.unit) for value in series.y]
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": series.name,
        "mode": "lines+markers" if points or len(series.x) == 1 else "lines",
        "x": list(series.x),
        "y": list(series.y),
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
        "line": line,
        "cliponaxis": False,
    }
    if points or len(series.x) == 1:
        ring = {"color": ink, "width": 1.5}
        trace["marker"] = {"size": 7, "color": mix(ink, colours.background, 0.15), "line": ring}
    if series.low is not None and series.high is not None:
        told = [
            f"{text}<br>middle half {written(low, chart.unit)} to {written(high, chart.unit)}"
            for text, low, high in zip(told, series.low, series.high, strict=True)
        ]
        trace["error_y"] = {
            "type": "data", "symmetric": False, "color": ink, "thickness": 1.2, "width": 3,
            "array": [h - v for h, v in zip(series.high, series.y, strict=True)],
            "arrayminus": [v - w for v, w in zip(series.y, series.low, strict=True)],
        }  # fmt: skip
    trace["text"] = told
    name = html.escape(series.name)
    trace["hovertemplate"] = (
        f"{name}<br>{html.escape(chart.x_title)} %{{x:,}}<br><b>%{{text}}</b><extra></extra>"
    )
    return trace
