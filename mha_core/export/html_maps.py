"""The panels of the HTML page as Plotly figures."""

from __future__ import annotations

import html
import textwrap
from base64 import b64encode
from functools import cache
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from mha_core.export.labels import clip
from mha_core.export.panels import Panel, tick_stride
from mha_core.palette import Palette, colorscale

_SIDES = {1: 460, 2: 340, 3: 280, 4: 240}  # pixels of a map, by maps in a row
_GAP, _CAPTION, _BAR, _AXIS = 26, 34, 130, 26
_LETTER = 6.4  # width of a tick label's letter
_LABEL_LETTERS = 14
_MOST_SQUARES = 32  # cells a side up to which a gap shows between them
_UNSEEN = "rgba(0,0,0,0)"


def figure(part: Panel, labels: list[str] | None, colours: Palette) -> Any:
    """The heads side by side, zoomed together, with one colour bar where they share a scale.

    Args:
        part: what to show.
        labels: one a position, None for its number; they show as typed, never as markup.
        colours: the ground.
    """
    count = len(part.heads)
    across = min(count, 4)
    rows = -(-count // across)
    side = _SIDES[across]
    shown = [clip(label, _LABEL_LETTERS) for label in labels] if labels else None
    room = 12 + _LETTER * max(map(len, shown or [str(part.pooled.time)]))
    turned = shown is not None and room > side / len(shown)
    left, below = _AXIS + room, _AXIS + (room if turned else 18)
    wide = across * side + (across - 1) * _GAP
    high = rows * side + (rows - 1) * (_GAP + _CAPTION)
    drawn = make_subplots(
        rows=rows, cols=across, shared_xaxes="all", shared_yaxes="all",
        horizontal_spacing=_GAP / wide, vertical_spacing=(_GAP + _CAPTION) / high,
    )  # fmt: skip
    names = _names(part, labels)
    for place in range(count):
        row, column = divmod(place, across)
        for trace in _traces(part, place, names, colours, side):
            drawn.add_trace(trace, row=row + 1, col=column + 1)
        _caption(drawn, part, place, colours)
    ticks = _ticks(part, shown, colours)
    for row in range(rows):
        for column in range(across):
            place = row * across + column
            at = {"row": row + 1, "col": column + 1}
            lowest = place < count <= place + across
            drawn.update_xaxes(**_axis(ticks, names, "key", lowest), **at)
            drawn.update_xaxes(tickangle=-90 if turned else 0, visible=place < count, **at)
            drawn.update_yaxes(**_axis(ticks, names, "query", column == 0), **at)
            drawn.update_yaxes(autorange="reversed", visible=place < count, **at)
    return drawn.update_layout(
        width=left + wide + _BAR,
        height=_CAPTION + high + below,
        margin={"l": left, "r": _BAR, "t": _CAPTION, "b": below},
        paper_bgcolor=colours.background,
        plot_bgcolor=colours.background,
        font={"color": colours.text, "family": "system-ui, DejaVu Sans, sans-serif"},
        hoverlabel={
            "font": {"family": "ui-monospace, DejaVu Sans Mono, monospace", "color": colours.text},
            "bgcolor": colours.surface,
            "bordercolor": colours.line,
        },
    )


def _plain(text: str) -> str:
    """Text as Plotly shows it: it reads a small HTML of its own."""
    return html.escape(text, quote=False)


def _names(part: Panel, labels: list[str] | None) -> list[str]:
    """What hovering calls each row and column: its position, and its token or last position."""
    if labels is not None:
        return [f"{place} · {_plain(label)}" for place, label in enumerate(labels)]
    factor, time = part.pooled.factor, part.pooled.time
    if factor == 1:
        return [str(place) for place in range(time)]
    return [f"{start}–{min(start + factor, time) - 1}" for start in range(0, time, factor)]


def _ticks(part: Panel, shown: list[str] | None, colours: Palette) -> dict[str, Any]:
    time = part.pooled.time
    places = range(0, time, tick_stride(time, 20 if shown else 7, bool(shown)))
    return {
        "tickmode": "array",
        "tickvals": [place // part.pooled.factor for place in places],
        "ticktext": [_plain(shown[place]) if shown else str(place) for place in places],
        "tickfont": {"color": colours.muted, "size": 11},
    }


def _axis(ticks: dict[str, Any], names: list[str], title: str, outer: bool) -> dict[str, Any]:
    """Categories, whatever a token looks like: a number or date would be placed by its value."""
    return ticks | {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": names,
        "showticklabels": outer,
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "title": {
            "text": title if outer else "",
            "font": ticks["tickfont"],
            "standoff": 6,
        },
    }


def _caption(drawn: Any, part: Panel, place: int, colours: Palette) -> None:
    index = part.heads[place]
    # After 16 heads the colours repeat, and the mark is hollow.
    mark = "■" if index // len(colours.heads) % 2 == 0 else "□"
    name = f'<span style="color:{colours.head(index)}">{mark}</span> <b>head {index}</b>'
    number = "" if place == 0 else str(place + 1)
    at = {"xref": f"x{number} domain", "yref": f"y{number} domain", "y": 1, "showarrow": False}
    at |= {"yanchor": "bottom"}
    drawn.add_annotation(text=name, x=0, xanchor="left", font={"size": 13}, **at)
    said = {"size": 11, "color": colours.muted}
    drawn.add_annotation(text=part.captions[place], x=1, xanchor="right", font=said, **at)
    if part.masked is not None and part.masked[place].any():
        drawn.add_layout_image(
            source=_hatch(colours.hatch), layer="below", sizing="stretch",
            xref=at["xref"], yref=at["yref"], x=0, y=1, sizex=1, sizey=1,
        )  # fmt: skip


@cache
def _hatch(colour: str) -> str:
    """A hatched square as a data URI: Plotly has no pattern for heatmaps."""
    lines = "".join(f"M{x} 240L{x + 240} 0" for x in range(-240, 240, 6))
    picture = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 240 240">'
        f'<path d="{lines}" stroke="{colour}" fill="none"/></svg>'
    )
    return f"data:image/svg+xml;base64,{b64encode(picture.encode()).decode()}"


def _traces(
    part: Panel, place: int, names: list[str], colours: Palette, side: int
) -> list[go.Heatmap]:
    """The map; where cells are masked also its ground, and a colourless map that says so."""
    shown, exact = part.colours.values[place], part.exact[place]
    same = np.array_equal(shown, exact, equal_nan=True)
    gap = 1 if len(names) <= _MOST_SQUARES else 0
    heatmap = go.Heatmap(
        z=shown,
        x=names,
        y=names,
        customdata=None if same else exact,
        zmin=float(part.colours.low[place]),
        zmax=float(part.colours.high[place]),
        colorscale=colorscale(part.anchors(colours)),
        showscale=place == 0 and not np.ptp(part.colours.high),
        colorbar=_bar(part, colours, side),
        hoverongaps=False,
        xgap=gap,
        ygap=gap,
        hovertemplate=_hover(part, place, f"%{{{'z' if same else 'customdata'}:.9~g}}"),
    )
    faults = np.isnan(shown) if part.masked is None else np.isnan(shown) & ~part.masked[place]
    layers = [heatmap]
    if faults.any():
        layers.append(_layer(part, place, names, faults, colours.bad, "not a number"))
    if part.masked is not None and part.masked[place].any():
        if gap:  # else the hatching shows through the gaps
            ground = _layer(part, place, names, ~part.masked[place], colours.background, None)
            layers.insert(0, ground)
        layers.append(_layer(part, place, names, part.masked[place], _UNSEEN, "masked"))
    return layers


def _layer(
    part: Panel, place: int, names: list[str], cells: Any, colour: str, said: str | None
) -> go.Heatmap:
    """Some cells in one colour, saying one thing when hovered, or nothing."""
    hover = {"hoverinfo": "skip"} if said is None else {"hovertemplate": _hover(part, place, said)}
    return go.Heatmap(
        z=np.where(cells, np.float32(0), np.float32(np.nan)),
        x=names,
        y=names,
        zmin=0,
        zmax=1,
        colorscale=[[0, colour], [1, colour]],
        showscale=False,
        hoverongaps=False,
        **hover,
    )


def _hover(part: Panel, place: int, said: str) -> str:
    pooled = f"{part.pooled.how} " if part.pooled.factor > 1 else ""
    word = f"{pooled}{'score' if part.colours.diverging else 'weight'} "
    value = said if not said.startswith("%") else f"{word}<b>{said}</b>"
    return f"head {part.heads[place]}<br>query %{{y}}<br>key %{{x}}<br>{value}<extra></extra>"


def _bar(part: Panel, colours: Palette, side: int) -> dict[str, Any]:
    title = part.colours.title + (" (clipped)" if part.colours.clipped else "")
    text = "<br>".join(textwrap.wrap(title, 16))
    return {
        "title": {"text": text, "side": "top", "font": {"size": 11}},
        "thickness": 12,
        "lenmode": "pixels",
        "len": side,
        "y": 1,
        "yanchor": "top",
        "outlinewidth": 0,
        "tickfont": {"color": colours.muted, "size": 11},
    }
