"""Where the maps of a head grid stand, in pixels, and what is written around them."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mha_core.figures.focus import hatch_image
from mha_core.figures.text import MONO
from mha_core.head_stats import keys_text
from mha_core.palette import Palette

Json = dict[str, Any]

_WIDTH = 940  # of the figure: what a notebook shows without scrolling
_RIGHT = 120  # the colour bar and two lines of title, or Plotly widens the margin itself
_GAP, CAPTION = 16, 26  # between columns; above a map, for the head's name
_LARGEST, _THINNEST = 360, 12  # sides of a map
_READABLE = 9  # pixels a cell needs for its label
_RANGE = 70  # pixels that the first and last position need beside an axis's name
_LETTER = 6.2  # pixels of a letter of a label


@dataclass(frozen=True)
class Axis:
    """One axis of every map.

    Attributes:
        names: of each cell along it, escaped.
        time: positions before pooling.
        written: a cell is one position, so that its name may stand beside it.
    """

    names: list[str]
    time: int
    written: bool

    @property
    def label_width(self) -> float:
        return _LETTER * max(_letters(html.unescape(name)) for name in self.names)


def _letters(text: str) -> int:
    """How many letters wide a text is; those of East Asia, and most emoji, are two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


@dataclass(frozen=True)
class _Grid:
    """Sizes in pixels; a map is `across` wide and `down` high."""

    columns: int
    rows: int
    across: float
    down: float
    left: float
    top: float
    bottom: float
    pitch: float  # from a row of maps to the next

    @property
    def inner(self) -> tuple[float, float]:
        wide = self.columns * (self.across + _GAP) - _GAP
        return wide, (self.rows - 1) * self.pitch + self.down + CAPTION

    def column(self, place: int) -> list[float]:
        """Its domain, as shares of the inner figure."""
        wide, _ = self.inner
        x = place * (self.across + _GAP)
        return [x / wide, (x + self.across) / wide]

    def row(self, place: int) -> list[float]:
        _, high = self.inner
        y = place * self.pitch + CAPTION
        return [max(0.0, 1 - (y + self.down) / high), 1 - y / high]


def grid_layout(
    axes: tuple[Axis, Axis],
    keys: Sequence[float],
    *,
    masked: bool,
    heading: Sequence[str],
    columns: int | None,
    colours: Palette,
) -> tuple[Json, list[tuple[str, str]]]:
    """The layout of the figure, as Plotly takes it, and the names of each head's axes.

    Maps above each other share the axis of the keys, maps beside each other that of the queries,
    so that the labels are sent once a column and once a row.

    Args:
        axes: of the queries and of the keys.
        keys: effective keys of each head.
        masked: there are cells that are absent.
        heading: lines above the maps, in HTML.
        columns: maps in a row, or None.
        colours: of the ground.
    """
    heads = len(keys)
    grid, written = _grid(axes, heads, columns, len(heading))
    wide, high = grid.inner
    layout: Json = {
        "width": round(grid.left + wide + _RIGHT),
        "height": round(grid.top + high + grid.bottom),
        "margin": {"l": grid.left, "r": _RIGHT, "t": grid.top, "b": grid.bottom, "pad": 0},
        "annotations": [_heading(heading, colours)],
        "images": [],
        "paper_bgcolor": colours.background,
        "plot_bgcolor": colours.background,
        "font": {"color": colours.text, "size": 12},
        "hoverlabel": {"font": {"family": MONO, "size": 13}},
        "showlegend": False,
        "dragmode": False,
        "meta": {"alt": f"Weights of {heads} heads, query from the top, key from the left"},
    }
    for row in range(grid.rows):
        layout[_long("y", row)] = _axis(axes[0], "query", grid.down, written, colours) | {
            "domain": grid.row(row),
            "anchor": "x",
        }
    for column in range(grid.columns):
        # Under the lowest map of the column: the last row may be short.
        lowest = grid.rows - 1 - (column + (grid.rows - 1) * grid.columns >= heads)
        layout[_long("x", column)] = _axis(axes[1], "key", grid.across, written, colours) | {
            "domain": grid.column(column),
            "anchor": _short("y", lowest),
        }
    places = [divmod(head, grid.columns) for head in range(heads)]
    names = [(_short("x", column), _short("y", row)) for row, column in places]
    for head, (row, column) in enumerate(places):
        where = {"x": grid.column(column)[0], "y": grid.row(row)[1]}
        layout["annotations"].append(_caption(head, keys[head], grid.across, colours) | where)
        if masked:
            image = hatch_image(colours, len(axes[1].names), names[head])
            layout["images"].append(image | {"sizey": len(axes[0].names)})
    return layout, names


def _grid(
    axes: tuple[Axis, Axis], heads: int, columns: int | None, lines: int
) -> tuple[_Grid, bool]:
    """The sizes, and whether the names of the cells are written."""
    cells = max(len(axis.names) for axis in axes)
    by_count = _even(heads, 4 if heads <= 16 else 8)
    # One column less, where that makes room for the names.
    tries = [columns] if columns is not None else [by_count, _even(heads, 3)]
    left = 30 + min(88.0, axes[0].label_width)
    for count in tries:
        cell = min(_LARGEST, (_WIDTH - left - _RIGHT - (count - 1) * _GAP) / count) / cells
        written = cell >= _READABLE and all(axis.written for axis in axes)
        if written:
            break
    else:
        count, left = tries[0], 30
        cell = min(_LARGEST, (_WIDTH - left - _RIGHT - (count - 1) * _GAP) / count) / cells
    across = max(_THINNEST, cell * len(axes[1].names))
    down = max(_THINNEST, cell * len(axes[0].names))
    # Names of keys stand on their head, but for short ones.
    under = min(88.0, axes[1].label_width) if written else 0
    grid = _Grid(
        columns=min(count, heads),
        rows=-(-heads // count),
        across=across,
        down=down,
        left=left,
        top=14 + 17 * lines,
        bottom=32 + under,
        pitch=down + CAPTION + 8,
    )
    return grid, written


def _even(heads: int, most: int) -> int:
    """Columns, at most so many, that fill their rows best: five heads are three and two."""
    return -(-heads // -(-heads // most))


def _axis(
    axis: Axis,
    which: str,
    side: float,
    written: bool,
    colours: Palette,
) -> Json:
    """Carries every name, so that the hover reads them; writes them where there is room."""
    span = [-0.5, len(axis.names) - 0.5]
    made: Json = {
        "range": span if which == "key" else span[::-1],
        "tickmode": "array",
        "tickvals": list(range(len(axis.names))),
        "ticktext": axis.names,
        "showticklabels": written,
        "tickfont": {"size": 10 if side / len(axis.names) >= 11 else 9},
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
    }
    if which == "key":
        made["tickangle"] = -90 if axis.label_width > 2 * _LETTER else 0
    bare = written or axis.time == 1 or side < _RANGE
    made["title"] = {
        "text": which if bare else f"{which} 0 to {axis.time - 1:,}",
        "font": {"size": 11, "color": colours.muted},
        "standoff": 4,
    }
    return made


def _heading(lines: Sequence[str], colours: Palette) -> Json:
    return {
        "text": "<br>".join(lines),
        "align": "left",
        "font": {"size": 12, "color": colours.muted},
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 1,
        "xanchor": "left",
        "yanchor": "bottom",
        "yshift": 2,
        "showarrow": False,
    }


def _caption(head: int, keys: float, across: float, colours: Palette) -> Json:
    """The head's name in its colour and its effective keys, as far as there is room."""
    said = keys_text(keys)
    fact = said if across >= 110 else said.split()[0] if across >= 78 else ""
    name = f"head {head}" if across >= 48 else str(head)
    return {
        "text": (
            f'<b style="color:{colours.head(head)}">{name}</b>  '
            f'<span style="color:{colours.muted}">{fact}</span>'
        ),
        "font": {"size": 12},
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
    }


def _short(which: str, place: int) -> str:
    return f"{which}{place + 1 if place else ''}"


def _long(which: str, place: int) -> str:
    return f"{which}axis{place + 1 if place else ''}"
