"""Line charts as files: PNG, SVG and PDF by matplotlib, HTML by Plotly; the tables as CSV."""

from __future__ import annotations

import html
import io
import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from mha_core.charts import Chart, Series, alt_text, colour, legend, marks_within, x_axis, y_axis
from mha_core.export.figure import DPI, drawing
from mha_core.figures.chart import chart_figure
from mha_core.palette import Mode, Palette, palette

_WIDTH, _HEIGHT, _HEAD, _LEGEND = 4.6, 3.1, 0.75, 0.22  # inches: a panel's, and a legend's row
_LINES: dict[str, Any] = {"line": "-", "points": "-", "dash": (0, (5, 4)), "dot": (0, (1, 2))}

FILES: dict[str, tuple[str, str]] = {
    "png": ("image/png", "figure, 200 dots an inch"),
    "svg": ("image/svg+xml", "figure, text as text"),
    "pdf": ("application/pdf", "figure, for papers"),
    "html": ("text/html", "figure to point at, opens offline"),
    "csv": ("text/csv", "every number, one row a point"),
}


def build(
    form: str, charts: Sequence[Chart], table: pd.DataFrame, *, title: str, mode: Mode = "light"
) -> bytes:
    """The bytes of a file.

    Args:
        form: one of `FILES`.
        charts: the panels of a figure.
        table: the numbers of a CSV; as many digits as read back to the same number.
        title: what was run, in words.
        mode: ground of the figure.
    """
    if form == "csv":
        return table.to_csv(index=False, lineterminator="\n").encode()
    if form == "html":
        return _html(charts, title, mode)
    page = io.BytesIO()
    # No dates and versions: the same numbers give the same bytes.
    about: dict[str, Any] = {
        "png": {"Software": None, "Title": title, "Description": alt_text(charts)},
        "svg": {"Date": None, "Title": title, "Description": alt_text(charts)},
        "pdf": {"CreationDate": None, "Title": title, "Subject": alt_text(charts)},
    }[form]
    with drawing():
        draw(charts, title, mode).savefig(page, format=form, dpi=DPI, metadata=about)
    data = page.getvalue()
    if form == "svg":
        label = html.escape(alt_text(charts))
        data = data.replace(b"<svg ", f'<svg role="img" aria-label="{label}" '.encode(), 1)
    return data


def _html(charts: Sequence[Chart], title: str, mode: Mode) -> bytes:
    figure = chart_figure(charts, mode=mode)
    body = figure.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False})
    name, alt = html.escape(title), html.escape(alt_text(charts))
    ground = palette(mode)
    style = f"background:{ground.background};color:{ground.text};font-family:sans-serif;margin:24px"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>'
        f'<body style="{style}"><p>{name}</p><div role="img" aria-label="{alt}">{body}</div>'
        "</body></html>"
    ).encode()


def draw(charts: Sequence[Chart], title: str, mode: Mode) -> Figure:
    """The panels, two in a row, under their title; within `drawing()`."""
    colours = palette(mode)
    columns = min(2, len(charts))
    rows = math.ceil(len(charts) / columns)
    entries = legend(charts)
    legend_rows = math.ceil(len(entries) / (2 * columns))
    width = columns * _WIDTH
    lines = textwrap.wrap(title, int(width * 15))
    head = _HEAD + 0.17 * (len(lines) - 1)
    height = head + rows * _HEIGHT + legend_rows * _LEGEND + 0.2
    figure = Figure(figsize=(width, height), facecolor=colours.background)
    figure.text(
        0.3 / width, 1 - 0.3 / height, "\n".join(lines),
        fontsize=9, va="top", color=colours.text, linespacing=1.4,
    )  # fmt: skip
    for place, chart in enumerate(charts):
        row, column = divmod(place, columns)
        left, top = column * _WIDTH + 0.85, head + row * _HEIGHT + 0.2
        wide, high = _WIDTH - 1.1, _HEIGHT - 0.85
        axes = figure.add_axes(
            (left / width, 1 - (top + high) / height, wide / width, high / height)
        )
        _panel(axes, chart, colours)
    handles = [_handle(series, colours) for series in entries]
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.2 / width, 0.08 / height),
        ncols=2 * columns, fontsize=7.5, frameon=False, labelcolor=colours.text,
    )  # fmt: skip
    return figure


def _handle(series: Series, colours: Palette) -> Line2D:
    ink = colour(series.colour, colours)
    marker = "o" if series.style == "points" else ""
    return Line2D(
        [], [], color=ink, linestyle=_LINES[series.style], marker=marker, markersize=3.5,
        linewidth=1.4, label=series.name,
    )  # fmt: skip


def _panel(axes: Axes, chart: Chart, colours: Palette) -> None:
    axes.set_facecolor(colours.background)
    axes.set_title(chart.title, loc="left", fontsize=9, color=colours.text)
    axes.set_xlabel(chart.x_title, fontsize=8, color=colours.muted)
    x, y = x_axis(chart), y_axis(chart)
    axes.set_xscale("log" if chart.log_x else "linear")
    axes.set_yscale("log" if chart.log_y else "linear")
    for which, axis in ((axes.xaxis, x), (axes.yaxis, y)):
        which.set_ticks(list(axis.ticks), list(axis.words))
        which.set_minor_locator(NullLocator())
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)
    axes.tick_params(length=0, labelsize=7, labelcolor=colours.muted)
    axes.grid(axis="y", color=colours.line, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(colours.line)
    if chart.empty and not any(series.y for series in chart.series):
        axes.text(
            0.5, 0.5, chart.empty, transform=axes.transAxes, ha="center", fontsize=8,
            color=colours.muted,
        )  # fmt: skip
    for mark in marks_within(chart, x):
        axes.axvline(mark.x, color=colours.muted, linewidth=0.8, linestyle=(0, (2, 3)))
        middle = math.sqrt(x.low * x.high) if chart.log_x else (x.low + x.high) / 2
        right = mark.x > middle
        axes.annotate(
            mark.text, (mark.x, 0.02), xycoords=("data", "axes fraction"),
            xytext=(-3 if right else 3, 0), textcoords="offset points",
            ha="right" if right else "left", fontsize=7, color=colours.muted,
        )  # fmt: skip
    for series in chart.series:
        _line(axes, series, colours)


def _line(axes: Axes, series: Series, colours: Palette) -> None:
    ink = colour(series.colour, colours)
    spread = None
    points = series.style == "points" or series.low is not None
    if series.low is not None and series.high is not None:
        value = np.array(series.y)
        spread = np.array([value - np.array(series.low), np.array(series.high) - value])
    axes.errorbar(
        series.x, series.y, yerr=spread, color=ink, linestyle=_LINES[series.style],
        marker="o" if points or len(series.x) == 1 else "", markersize=3.5,
        linewidth=0.9 if points else 1.5, elinewidth=0.8, capsize=2,
    )  # fmt: skip
