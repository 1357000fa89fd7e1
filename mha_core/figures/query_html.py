"""One query's weights over the keys in HTML, or one key's over the queries.

Bars for all of them, a table of the strongest, and for a text its words, tinted. Masked positions
are absent: hatched among the bars and the words, and not in the table.
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.figures.axes import axis
from mha_core.figures.patch_html import packed
from mha_core.figures.text import label, number, plural
from mha_core.figures.words_html import words_html
from mha_core.maps import Floats
from mha_core.one_line import Direction, Line, line_of
from mha_core.palette import Palette

_BARS = 256  # at most; beyond, a bar is the max of several positions
_PIXELS = 900  # their length, where there is room
_GAPS = 64  # bars up to which there is a gap between them


def query_html(
    weights: Tensor,
    visible: Tensor | None,
    *,
    index: int,
    colours: Palette,
    direction: Direction = "query",
    tokens: Sequence[str] | None = None,
    head: int | None = None,
    top: int = 10,
) -> str:
    """Bars, the strongest, and tinted words where there are tokens.

    Args:
        weights: (n,): a row of the weights, or a column of them.
        visible: boolean (n,), False where masked; None where nothing is.
        index: the position it belongs to.
        colours: of the ground.
        direction: "query" for a row, "key" for a column.
        tokens: one a position, (n,).
        head: gives the bars its colour.
        top: rows of the table.

    Raises:
        ConfigError: shapes that differ, no such position, or values that are no weights.
    """
    line = line_of(weights, visible, index, direction)
    if tokens is not None and len(tokens) != len(line.values):
        rule = f"must be one for each of the {len(line.values):,} positions"
        raise ConfigError("tokens", len(tokens), rule)
    colour = colours.text if head is None else colours.head(head)
    if not line.seen:
        nothing = (
            f"Every {line.others} is masked: there is no weight."
            if direction == "query"
            else "No query may attend this key."
        )
        body = f'<div class="key">{nothing}</div>'
    else:
        table = f'<div class="line-top">{_table(line, tokens, top)}</div>'
        words = "" if tokens is None else words_html(line, tokens, colours=colours)
        body = f'{_bars(line, tokens)}<div class="line-more">{table}{words}</div>'
    return f'<div class="line-view" style="--head:{colour}">{_heading(line, tokens)}{body}</div>'


def name_of(index: int, tokens: Sequence[str] | None) -> str:
    """12, or 12 “the”; escaped for HTML."""
    return f"{index:,}" if tokens is None else f"{index:,} “{label(tokens[index], width=30)}”"


def _heading(line: Line, tokens: Sequence[str] | None) -> str:
    seen, count = line.seen, len(line.values)
    said = f"{seen:,} {_plural(line.others, seen)}"
    if seen < count:
        said = f"{seen:,} of {count:,} {_plural(line.others, count)} visible"
    if line.direction == "key":
        said += f"; sum over the queries {number(line.total, 4)}"
    else:
        said += f"; half of the weight is in {line.half():,} of them"
    return (
        f'<div class="focus-head"><b>{line.direction} {name_of(line.index, tokens)}</b>'
        f"<span>{said if seen else ''}</span></div>"
    )


def _plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return "queries" if word == "query" else f"{word}s"


def _bars(line: Line, tokens: Sequence[str] | None) -> str:
    values, spans = line.bars(_BARS)
    factor = spans[0][1] - spans[0][0]
    marks = axis(spans, tokens, _PIXELS, across=True)
    told = {
        "rows": [name_of(line.index, tokens)],
        "columns": marks.names,
        "name": "weight" if factor == 1 else "max weight",
        "turned": line.direction == "key",
    }
    largest = line.largest
    alt = (
        f"weights of {line.direction} {line.index} over the {_plural(line.others, 2)} as bars, "
        f"the largest {number(largest, 3)} at {line.others} {line.strongest(1)[0]}"
    )
    own = 100 * (line.index + 0.5) / (len(spans) * factor)
    note = f"▲ {line.direction} and {line.others} are the same position"
    if factor > 1:
        note += f" · each bar: max of {plural(factor, 'weight')}"
    if np.isnan(values).any():
        note += " · hatched: masked, not zero"
    return (
        f'<div class="map patch bars"><div class="axis-title y">weight</div>'
        f'<div class="ylab ends" style="width:{14 + 8 * len(number(largest, 2))}px">'
        f'<span style="top:0">{number(largest, 2)}</span><span style="top:100%">0</span></div>'
        f'<div class="pic{" some" if np.isnan(values).any() else ""}" role="img" tabindex="0" '
        f'aria-label="{html.escape(alt)}" '
        f'data-hover="{html.escape(json.dumps(told, ensure_ascii=False))}" '
        f'data-z="{packed(values)}">{_drawn(values, largest)}<i class="cell"></i></div>'
        f'<div class="xlab{marks.kinds}" style="height:{marks.depth}px">'
        f"{marks.written('left')}"
        f'<i class="own" style="left:{own:.2f}%">▲</i></div>'
        f'<div class="axis-title x">{line.others}</div></div>'
        f'<div class="key">{note}</div>'
    )


def _drawn(values: Floats, largest: float) -> str:
    """The bars as two outlines: the ground of what is visible, and the bars on it."""
    count = len(values)
    gap = 0.1 if count <= _GAPS else 0.0
    ground, bars = [], []
    for place, value in enumerate(values):
        if np.isnan(value):
            continue
        ground.append(f"M{place} 0h1v100h-1z")
        height = 100 * float(value) / largest if largest else 0.0
        if height:
            bars.append(
                f"M{place + gap:g} {100 - height:.4g}h{1 - 2 * gap:g}V100h-{1 - 2 * gap:g}z"
            )
    return (
        f'<svg viewBox="0 0 {count} 100" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="ground" d="{"".join(ground)}"/>'
        f'<path class="full" d="{"".join(bars)}"/></svg>'
    )


def _table(line: Line, tokens: Sequence[str] | None, top: int) -> str:
    places = line.strongest(top)
    running = line.running(top) if line.direction == "query" else None
    titles = ["weight"] + ([] if running is None else ["running sum"])
    head = "" if tokens is None else f"<th>{line.others}</th>"
    head += "<th>position</th>" + "".join(f"<th>{title}</th>" for title in titles)
    rows = []
    for rank, place in enumerate(places):
        cells = "" if tokens is None else f"<td>{label(tokens[place], width=24)}</td>"
        cells += f"<td>{place:,}</td><td>{number(float(line.values[place]), 4)}</td>"
        if running is not None:
            cells += f"<td>{100 * running[rank]:.1f} %</td>"
        rows.append(f"<tr>{cells}</tr>")
    what = "largest weights" if len(places) > 1 else "largest weight"
    caption = f"the {len(places)} {what}" if len(places) < line.seen else "all weights"
    kind = "stats" if tokens is None else "stats named"
    return (
        f'<div class="{kind}"><table><caption>{caption}</caption>'
        f"<tr>{head}</tr>{''.join(rows)}</table></div>"
    )
