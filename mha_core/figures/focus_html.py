"""One map in HTML: a picture, labels around it, a colour bar, and the values for a hover.

A picture is painted in a few milliseconds whatever the map; the page's script reads the values
that come with it (`data-z`, base64 of float32) when the pointer moves.
"""

from __future__ import annotations

import base64
import html
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mha_core.figures.raster import data_uri, map_png
from mha_core.figures.text import number
from mha_core.maps import Scaled
from mha_core.palette import Palette

_ALL_LABELS = 40  # cells up to which each has its label
_TICKS = 8  # labels along a longer axis

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Hover:
    """What the hover says of a cell.

    Attributes:
        labels: one a row and column.
        name: of the value: "weight", "max weight", "score".
        beside: name and values of a second number, e.g. × uniform.
        ranges: the labels are ranges of positions, "0–5", of which a tick shows the start.
        faults: (rows, columns), True where NaN is no masked cell but a number gone wrong.
    """

    labels: list[str]
    name: str
    beside: tuple[str, Floats] | None = None
    ranges: bool = False
    faults: NDArray[np.bool_] | None = None


def map_html(
    scaled: Scaled, head: int, hover: Hover, *, colours: Palette, alt: str, bar: bool = True
) -> str:
    """One head's map; `head` is its row in `scaled`. Labels must have been escaped."""
    values = scaled.values[head]
    picture = data_uri(
        map_png(scaled.unit()[head], colours, diverging=scaled.diverging, faults=hover.faults)
    )
    described: dict[str, object] = {"labels": hover.labels, "name": hover.name}
    if hover.faults is not None:
        described["faults"] = np.flatnonzero(hover.faults).tolist()
    extra = ""
    if hover.beside is not None:
        described["beside"] = hover.beside[0]
        extra = f' data-b="{_packed(hover.beside[1])}"'
    names = [label.split("–")[0] for label in hover.labels] if hover.ranges else hover.labels
    shown, across = _labels(names)
    return (
        f'<div class="map{" with-bar" if bar else ""}">'
        f'<div class="axis-title y">query</div><div class="ylab" style="width:{across}px">'
        f"{_marks(names, shown, 'top')}</div>"
        f'<div class="pic{" some" if np.isnan(values).any() else ""}" role="img" tabindex="0" '
        f'aria-label="{html.escape(alt)}" '
        f'data-hover="{html.escape(json.dumps(described))}" data-z="{_packed(values)}"{extra}>'
        f'<img src="{picture}" alt=""><i class="cell"></i></div>'
        + (_bar(scaled, head, colours) if bar else "")
        + f'<div class="xlab{" turned" if across > 40 else ""}" style="height:{max(22, across)}px">'
        f'{_marks(names, shown, "left")}</div><div class="axis-title x">key</div></div>'
    )


def _packed(values: Floats) -> str:
    data = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return base64.b64encode(data).decode("ascii")


def _labels(labels: list[str]) -> tuple[list[int], int]:
    """Which labels are written, and the pixels the longest needs."""
    count = len(labels)
    every = 1 if count <= _ALL_LABELS else -(-count // _TICKS)
    shown = list(range(0, count, every))
    longest = max(len(html.unescape(labels[i])) for i in shown)
    return shown, 14 + 8 * longest


def _marks(labels: list[str], shown: list[int], side: str) -> str:
    count = len(labels)
    size = ' class="small"' if len(shown) > 24 else ""
    return "".join(
        f'<span{size} style="{side}:{100 * (i + 0.5) / count:.2f}%">{labels[i]}</span>'
        for i in shown
    )


def _bar(scaled: Scaled, head: int, colours: Palette) -> str:
    """The colour bar: what it measures, and where it begins and ends."""
    anchors = colours.diverging if scaled.diverging else colours.sequential
    stops = ", ".join(anchors)
    low, high = float(scaled.low[head]), float(scaled.high[head])
    marks = [(0.0, high), (0.5, (low + high) / 2), (1.0, low)]
    text = "".join(
        f'<span style="top:{100 * at:.0f}%">{number(value, 2)}</span>' for at, value in marks
    )
    title = scaled.title + (", top 5 % clipped" if scaled.clipped else "")
    return (
        f'<div class="bar"><div class="grad" style="background:linear-gradient(to top,{stops})">'
        f'</div><div class="ends">{text}</div><div class="what">{html.escape(title)}</div></div>'
    )
