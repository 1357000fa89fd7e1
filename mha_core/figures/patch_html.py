"""A window of one map in HTML: a picture one can drag a box on, with labels for rows and columns.

The page's script tells the values under the pointer, which come with the picture as base64 of
float32: 96 x 96 cells are 49 kB. (float16 would be half of that, with three digits right; four
are shown.) On a map with `data-zoom` it sends the box that was dragged, the cell that was
clicked, or the wish to go back.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mha_core.figures.axes import axis
from mha_core.figures.raster import data_uri, map_png
from mha_core.figures.text import number
from mha_core.maps import Floats, Scaled
from mha_core.palette import Palette
from mha_core.patch import Patch, Span

_LONGEST = 3.0  # one side is at most so many times the other
_SENT = re.compile(r"box:(\d{1,9}),(\d{1,9}),(\d{1,9}),(\d{1,9})|cell:(\d{1,9}),(\d{1,9})", re.A)


@dataclass(frozen=True)
class PatchHover:
    """What the hover says of a cell.

    Attributes:
        name: of the value: "weight", "score". Where cells are pooled, how comes before it.
        tokens: one a position of the whole map; positions alone when None.
        beside: name and (rows, columns) of a second number, e.g. × uniform.
        many: the plural of `name`, in what is said of the pooling.
        pooled: the name where cells are pooled, if it is not "max weight" or the like.
    """

    name: str
    tokens: Sequence[str] | None = None
    beside: tuple[str, Floats] | None = None
    many: str = "weights"
    pooled: str | None = None


def patch_html(
    patch: Patch,
    scaled: Scaled,
    hover: PatchHover,
    *,
    colours: Palette,
    alt: str,
    zoom: bool = True,
    side: int = 500,
) -> str:
    """The patch with its labels, colour scale and pooling.

    Args:
        patch: what is shown.
        scaled: its values on a scale, as maps of one head; see `patch.scaled_patch`.
        hover: names of the values, and tokens.
        colours: of the ground.
        alt: what the picture is; escaped here.
        zoom: whether boxes and cells can be chosen on it.
        side: pixels of its longer side, where there is room.
    """
    ratio = shape_of(patch)
    rows = axis(patch.rows(), hover.tokens, side * min(1, 1 / ratio), across=False)
    columns = axis(patch.columns(), hover.tokens, side * min(1, ratio), across=True)
    values = scaled.values[0]
    picture = data_uri(map_png(scaled.unit()[0], colours, diverging=scaled.diverging))
    name = hover.name if patch.exact else hover.pooled or f"{patch.how} {hover.name}"
    told = {"rows": rows.names, "columns": columns.names, "name": name}
    extra = ""
    if hover.beside is not None:
        told["beside"] = hover.beside[0]
        extra = f' data-b="{packed(hover.beside[1])}"'
    if zoom:
        extra += f' data-zoom="{"whole" if patch.whole else "inside"}" aria-description="{_KEYS}"'
    return (
        f'<div class="patch-map"><div class="map patch" '
        f'style="--ratio:{ratio:.4g};--wide:{side * min(1, ratio):.0f}px">'
        f'<div class="axis-title y">query</div>'
        f'<div class="ylab{rows.kinds}" style="width:{14 + 8 * rows.letters}px">'
        f"{rows.written('top')}</div>"
        f'<div class="pic{" some" if np.isnan(values).any() else ""}" '
        f'role="{"application" if zoom else "img"}" tabindex="0" aria-label="{html.escape(alt)}" '
        f'data-hover="{html.escape(json.dumps(told, ensure_ascii=False))}" '
        f'data-z="{packed(values)}"{extra}>'
        f'<img src="{picture}" alt="" draggable="false"><i class="cell"></i><i class="band"></i>'
        f'</div><div class="xlab{columns.kinds}" style="height:{columns.depth}px">'
        f'{columns.written("left")}</div><div class="axis-title x">key</div></div>'
        f"{colour_scale(scaled, colours)}{_note(patch, hover, zoom)}</div>"
    )


_KEYS = (
    "Arrow keys move from cell to cell, with Shift they draw a box, "
    "Enter chooses the cell or the box"
)


def chosen_cells(value: str) -> tuple[Span, Span] | None:
    """What a map with `data-zoom` sent, as (start, stop) of rows and of columns.

    "box:2,5,0,3" -> ((2, 5), (0, 3)); "cell:2,0" -> ((2, 3), (0, 1)); None for anything else.
    """
    found = _SENT.fullmatch(value)
    if found is None:
        return None
    numbers = [int(digits) for digits in found.groups() if digits is not None]
    if len(numbers) == 2:
        return (numbers[0], numbers[0] + 1), (numbers[1], numbers[1] + 1)
    return (numbers[0], numbers[1]), (numbers[2], numbers[3])


def shape_of(patch: Patch) -> float:
    """Width over height: a position is square, unless the picture became a strip."""
    wide, tall = patch.keys[1] - patch.keys[0], patch.queries[1] - patch.queries[0]
    return min(_LONGEST, max(1 / _LONGEST, wide / tall))


def packed(values: Floats) -> str:
    """float32, little end first, in base64."""
    data = np.ascontiguousarray(values, dtype="<f4").tobytes()
    return base64.b64encode(data).decode("ascii")


def colour_scale(scaled: Scaled, colours: Palette) -> str:
    """What the colours measure, and where the scale begins and ends."""
    anchors = colours.diverging if scaled.diverging else colours.sequential
    low, high = number(float(scaled.low[0]), 2), number(float(scaled.high[0]), 2)
    if scaled.clipped:
        high = f"{high} or more"
        low = f"{low} or less" if scaled.diverging else low
    return (
        f'<div class="patch-scale"><span>{html.escape(scaled.title)}</span><span>{low}</span>'
        f'<i style="background:linear-gradient(to right,{",".join(anchors)})"></i>'
        f"<span>{high}</span></div>"
    )


def pooling(patch: Patch, many: str = "weights") -> str:
    """What a cell of a pooled patch is; empty for single cells."""
    if patch.exact:
        return ""
    tall, wide = patch.factors
    return f"each cell: {patch.how} of {tall:,} × {wide:,} {many}"


def _note(patch: Patch, hover: PatchHover, zoom: bool) -> str:
    said = pooling(patch, hover.many)
    if said and zoom:
        said += "; zoom in for single ones"
    return f'<div class="key">{html.escape(said)}</div>' if said else ""
