"""A mask as cells: on the page, where they may be painted, and as a picture of its own (SVG).

Query from the top, key from the left. A visible cell is filled; a hidden one is hatched, as masked
cells are everywhere; padding is hatched the other way.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mha_core.figures.raster import data_uri, map_png
from mha_core.palette import Palette

MOST_CELLS = 16  # a side, up to which each cell is an element of its own

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Grid:
    """One (query, key) mask to draw.

    Attributes:
        keep: boolean (Tq, Tk), True = may attend.
        rows, columns: labels, escaped, one a query and key.
        padded: boolean (Tk,), True for keys that are padding; None for none.
        drawn: (query, key) of the cells set by hand.
    """

    keep: Mask
    rows: Sequence[str]
    columns: Sequence[str]
    padded: Mask | None = None
    drawn: Collection[tuple[int, int]] = field(default_factory=frozenset)

    def is_padded(self, key: int) -> bool:
        return self.padded is not None and bool(self.padded[key])


def grid_html(
    grid: Grid,
    *,
    alt: str,
    paint: bool = False,
    text: Callable[[bool], str] | None = None,
    small: bool = False,
) -> str:
    """Cells in HTML, for at most `MOST_CELLS` a side.

    Args:
        grid: what is drawn.
        alt: what it is, for who cannot see it.
        paint: cells carry `data-cell="query,key"` and can be chosen; padding cannot.
        text: what stands in a cell, from whether it is visible.
        small: without labels.
    """
    count_k = grid.keep.shape[1]
    head = "" if small else _head(grid)
    body = "".join(_row(grid, query, paint, text, small) for query in range(len(grid.keep)))
    kind = "mk-grid small" if small else "mk-grid"
    role = "group" if paint else "img"
    return (
        f'<div class="{kind}" role="{role}" aria-label="{html.escape(alt)}" '
        f'style="--n:{count_k}" data-columns="{count_k}">{head}{body}</div>'
    )


def _head(grid: Grid) -> str:
    turned = " turned" if max(len(html.unescape(name)) for name in grid.columns) > 2 else ""
    names = "".join(f"<span>{name}</span>" for name in grid.columns)
    return f'<u></u><div class="mk-heads{turned}">{names}</div>'


def _row(
    grid: Grid, query: int, paint: bool, text: Callable[[bool], str] | None, small: bool
) -> str:
    cells = "".join(_cell(grid, query, key, paint, text) for key in range(grid.keep.shape[1]))
    if small:
        return cells
    blind = not grid.keep[query].any()
    mark = ' class="mk-blind" title="sees no key"' if blind else ""
    return f"<u{mark}>{grid.rows[query]}</u>{cells}"


def _cell(grid: Grid, query: int, key: int, paint: bool, text: Callable[[bool], str] | None) -> str:
    on = bool(grid.keep[query, key])
    padded = grid.is_padded(key)
    kinds = ["on" if on else "pad" if padded else "off"]
    if (query, key) in grid.drawn and not padded:
        kinds.append("drawn")
    inner = "" if text is None else html.escape(text(on))
    extra = ""
    if paint and not padded:
        first = "0" if (query, key) == (0, 0) else "-1"
        said = "visible" if on else "hidden"
        extra = (
            f' data-cell="{query},{key}" role="checkbox" aria-checked="{str(on).lower()}" '
            f'tabindex="{first}" aria-label="query {query}, key {key}, {said}"'
        )
    elif paint:
        extra = ' title="padding: set by the lengths"'
    return f'<i class="{" ".join(kinds)}"{extra}>{inner}</i>'


def two_tone(marked: Mask, colours: Palette, *, alt: str) -> str:
    """A mask of any size as a picture: cells that are marked filled, the others bare."""
    unit = np.where(marked, np.float32(0.6), np.float32(np.nan))
    picture = data_uri(map_png(unit, colours, diverging=False))
    return f'<img class="mk-tone" src="{picture}" alt="{html.escape(alt)}">'


def grid_svg(grid: Grid, *, title: str, colours: Palette) -> str:
    """The mask as a file of its own: any size, each row's runs of visible cells one shape."""
    count_q, count_k = grid.keep.shape
    side = max(4.0, min(30.0, 640 / max(count_q, count_k)))
    left, top = 60.0, 62.0
    width, height = left + side * count_k + 20, top + side * count_q + 40
    every = max(1, -(-max(count_q, count_k) // 24))
    path = " ".join(
        f"M{left + side * start:.2f} {top + side * query:.2f}"
        f"h{side * (stop - start):.2f}v{side:.2f}h{-side * (stop - start):.2f}z"
        for query in range(count_q)
        for start, stop in _runs(grid.keep[query])
    )
    lines = "" if side < 8 else _lines(count_q, count_k, side, left, top, colours)
    small = f'font-size="11" fill="{colours.muted}"'
    labels = "".join(
        f'<text x="{left - 6}" y="{top + side * (q + 0.5) + 4:.1f}" text-anchor="end" {small}>'
        f"{grid.rows[q]}</text>"
        for q in range(0, count_q, every)
    ) + "".join(
        f'<text x="{left + side * (k + 0.5):.1f}" y="{top - 6}" text-anchor="middle" {small}>'
        f"{grid.columns[k]}</text>"
        for k in range(0, count_k, every)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" role="img">'
        f"<title>{html.escape(title)}</title>"
        f'<defs><pattern id="hidden" width="7" height="7" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><path d="M0 0v7" stroke="{colours.hatch}" '
        f'stroke-width="2"/></pattern></defs>'
        f'<rect width="100%" height="100%" fill="{colours.background}"/>'
        f'<text x="{left}" y="26" font-size="15" font-weight="600" fill="{colours.text}">'
        f"{html.escape(title)}</text>"
        f'<rect x="{left}" y="{top}" width="{side * count_k:.2f}" height="{side * count_q:.2f}" '
        f'fill="url(#hidden)"/><path d="{path}" fill="{colours.head(0)}"/>{lines}{labels}'
        f'<text x="{left}" y="{height - 14:.1f}" {small}>query from the top, key from the left; '
        "filled = may attend</text></svg>"
    )


def _runs(row: Mask) -> list[tuple[int, int]]:
    """(start, stop) of each run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], row, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _lines(
    count_q: int, count_k: int, side: float, left: float, top: float, colours: Palette
) -> str:
    across = "".join(
        f"M{left} {top + side * n:.2f}h{side * count_k:.2f}" for n in range(count_q + 1)
    )
    down = "".join(f"M{left + side * n:.2f} {top}v{side * count_q:.2f}" for n in range(count_k + 1))
    return f'<path d="{across}{down}" stroke="{colours.background}" stroke-width="1.5"/>'
