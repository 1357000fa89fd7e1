"""One head's map: exact values under the pointer, tokens on the axes, masked cells absent."""

from __future__ import annotations

import html
import urllib.parse
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from mha_core.figures.text import MONO, labels
from mha_core.figures.typed import typed
from mha_core.maps import Pooled, Scaled
from mha_core.palette import Palette, colorscale

Json = dict[str, Any]
_ALL_LABELS = 40  # cells up to which each has its label


def focus_figure(pooled: Pooled, scaled: Scaled, head: int, **how: Any) -> go.Figure:
    """One head's map as a Plotly figure; arguments as `focus_spec`."""
    return go.Figure(focus_spec(pooled, scaled, head, **how))


def focus_spec(
    pooled: Pooled,
    scaled: Scaled,
    head: int,
    *,
    colours: Palette,
    tokens: Sequence[str] | None = None,
    width: int = 520,
    name: str = "weight",
    beside: tuple[str, NDArray[np.float32]] | None = None,
) -> Json:
    """One head's map: data and layout as Plotly takes them; unvalidated, as `flow_spec`.

    Args:
        pooled, scaled: as `maps.scaled` gives them, all heads.
        head: the one drawn.
        colours: of the ground.
        tokens: one a position; positions are labelled by number when None.
        width: of the figure, in pixels.
        name: of the value, in the hover.
        beside: a second value of every cell, and its name, for the hover.
    """
    cells = pooled.values.shape[-1]
    names = cell_labels(pooled, tokens)
    ticks = names
    if pooled.factor > 1 and cells > _ALL_LABELS:  # of a range a tick shows the start
        ticks = [name.split("–")[0] for name in names]
    shown, margin = _axis_labels(ticks)
    side = width - margin - 78
    span = [-0.5, cells - 0.5]
    return {
        "data": [
            *map_traces(
                scaled.values[head],
                colours,
                low=float(scaled.low[head]),
                high=float(scaled.high[head]),
                diverging=scaled.diverging,
                hover=_hover(pooled, name, beside),
                beside=None if beside is None else beside[1],
                colorbar=_colorbar(scaled, colours),
                gap=2 if cells <= 16 else 1 if cells <= 32 else 0,
            ),
            # Plotly draws an axis only where a trace is on it.
            {"type": "scatter", "x": [None], "y": [None], "xaxis": "x2", "yaxis": "y2"},
        ],
        "layout": {
            "width": width,
            "height": side + margin + 30,
            "margin": {"l": margin, "r": 78, "t": 8, "b": margin + 22},
            "xaxis": _hidden_axis(names, span),
            "yaxis": _hidden_axis(names, span[::-1]),
            "xaxis2": _shown_axis(ticks, shown, span, "x", colours, "key"),
            "yaxis2": _shown_axis(ticks, shown, span[::-1], "y", colours, "query"),
            "images": [hatch_image(colours, cells)] if np.isnan(scaled.values[head]).any() else [],
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": colours.text, "size": 13},
            "hoverlabel": {"font": {"family": MONO, "size": 13}},
            "showlegend": False,
            "dragmode": False,
        },
    }


def map_traces(
    values: NDArray[np.float32],
    colours: Palette,
    *,
    low: float,
    high: float,
    diverging: bool,
    hover: str,
    beside: NDArray[np.float32] | None = None,
    colorbar: Json | None = None,
    gap: int = 0,
    axes: tuple[str, str] = ("x", "y"),
) -> list[Json]:
    """A heatmap of what is there and, under it, one that says "masked" where nothing is."""
    masked = np.isnan(values)
    anchors = colours.diverging if diverging else colours.sequential
    where = {"xaxis": axes[0], "yaxis": axes[1]}
    there: Json = {
        "type": "heatmap",
        "z": typed(values),
        "zmin": low,
        "zmax": high,
        "colorscale": colorscale(anchors),
        "hoverongaps": False,
        "hovertemplate": hover,
        "xgap": gap,
        "ygap": gap,
        "showscale": colorbar is not None,
        "colorbar": colorbar or {},
        **where,
    }
    if beside is not None:
        there["customdata"] = typed(beside)
    if not masked.any():
        return [there]
    gone: Json = {
        "type": "heatmap",
        "z": typed(np.where(masked, np.float32(0), np.float32(np.nan))),
        "colorscale": [[0, "rgba(0,0,0,0)"], [1, "rgba(0,0,0,0)"]],
        "showscale": False,
        "hoverongaps": False,
        "hovertemplate": "query %{y} → key %{x}<br>masked<extra></extra>",
        **where,
    }
    return [gone, there]


def cell_labels(pooled: Pooled, tokens: Sequence[str] | None) -> list[str]:
    """One label a row or column of the map; a range of positions where cells are pooled."""
    if pooled.factor == 1:
        return labels(tokens, pooled.time)
    starts = np.arange(pooled.values.shape[-1]) * pooled.factor
    ends = np.minimum(starts + pooled.factor, pooled.time) - 1
    return [f"{a}–{b}" if a < b else str(a) for a, b in zip(starts, ends, strict=True)]


def _axis_labels(names: Sequence[str]) -> tuple[list[int], int]:
    """Which labels are written, and the pixels they need."""
    every = 1 if len(names) <= _ALL_LABELS else -(-len(names) // 12)
    shown = list(range(0, len(names), every))
    longest = max(len(html.unescape(names[i])) for i in shown)
    return shown, 34 + min(90, 8 * longest)


def _hidden_axis(names: Sequence[str], span: list[float]) -> Json:
    """Carries every label, so that the hover reads them, and draws none."""
    return {
        "range": span,
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "showticklabels": False,
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }


def _shown_axis(
    names: Sequence[str],
    shown: Sequence[int],
    span: list[float],
    which: str,
    colours: Palette,
    title: str,
) -> Json:
    longest = max(len(html.unescape(names[i])) for i in shown)
    return {
        "range": span,
        "overlaying": which,
        "anchor": "y2" if which == "x" else "x2",
        "side": "bottom" if which == "x" else "left",
        "tickmode": "array",
        "tickvals": list(shown),
        "ticktext": [names[i] for i in shown],
        "tickangle": -90 if which == "x" and longest > 3 else 0,
        "tickfont": {"size": 12 if len(shown) <= 24 else 10, "color": colours.text},
        "title": {"text": title, "font": {"size": 13, "color": colours.muted}, "standoff": 6},
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }


def _hover(pooled: Pooled, name: str, beside: tuple[str, NDArray[np.float32]] | None) -> str:
    """query → key, the value exactly as shown, and the other value."""
    what = name if pooled.factor == 1 else f"{pooled.how} {name}"
    more = "" if beside is None else f"<br>{beside[0]} %{{customdata:.4g}}"
    return f"query %{{y}} → key %{{x}}<br>{what} <b>%{{z:.4g}}</b>{more}<extra></extra>"


def _colorbar(scaled: Scaled, colours: Palette) -> Json:
    bar: Json = {
        "title": {
            "text": scaled.title,
            "side": "right",
            "font": {"size": 12, "color": colours.muted},
        },
        "thickness": 12,
        "len": 1,
        "outlinewidth": 0,
        "tickfont": {"size": 12, "color": colours.text},
        "xpad": 8,
        "nticks": 5,
    }
    if scaled.clipped:
        bar["title"]["text"] += " (top 5 % clipped)"
    return bar


def hatch_image(colours: Palette, cells: int, axes: tuple[str, str] = ("x", "y")) -> Json:
    """The neutral pattern behind the map, seen where a cell is masked."""
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" width="400" height="400"><defs>'
        '<pattern id="p" width="7" height="7" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="7" '
        f'stroke="{colours.hatch}" stroke-width="1.6"/></pattern></defs>'
        '<rect width="400" height="400" fill="url(#p)"/></svg>'
    )
    return {
        "source": f"data:image/svg+xml,{urllib.parse.quote(svg)}",
        "xref": axes[0],
        "yref": axes[1],
        "x": -0.5,
        "y": -0.5,
        "sizex": cells,
        "sizey": cells,
        "xanchor": "left",
        "yanchor": "top",
        "sizing": "stretch",
        "layer": "below",
    }
