"""One head's map in the right forward and in the wrong one, and their difference."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mha_core.figures.focus_html import Hover, map_html
from mha_core.figures.text import labels, number
from mha_core.maps import Scaled
from mha_core.mistakes.measures import MapsSeen
from mha_core.palette import Palette

Bools = NDArray[np.bool_]
_ALL_LABELS = 10  # positions up to which three maps beside each other have room for each label


def maps_html(
    seen: MapsSeen, *, heads: int, colours: Palette, tokens: Sequence[str] | None = None
) -> str:
    """Three maps, exact under the pointer; NaN in the colour of faults, absent cells hatched.

    Buttons carry `data-pick="head:n"`.

    Args:
        seen: of `maps_seen`.
        heads: h of the module.
        colours: of the ground.
        tokens: one a position; positions are labelled by number when None.
    """
    right, wrong = seen.scaled()
    right_faults, wrong_faults = seen.faults()
    apart = seen.difference()
    where = f"{_chooser(seen.head, heads)} of batch item {seen.item}"
    pieces = [
        _one("wrong", wrong, wrong_faults, "weight", colours, tokens),
        _one("right", right, right_faults, "weight", colours, tokens),
    ]
    if apart is None:
        a, b = seen.right.values.shape[1:], seen.wrong.values.shape[1:]
        pieces.append(
            f'<div class="key">No difference: {b[0]} × {b[1]} cells against {a[0]} × {a[1]}.</div>'
        )
    else:
        faults = right_faults | wrong_faults
        pieces.append(_one("wrong − right", apart, faults, "difference", colours, tokens))
    body = "".join(f"<div>{piece}</div>" for piece in pieces)
    many = " many" if seen.right.values.shape[-1] > _ALL_LABELS else ""
    return (
        f'<div class="mis-where"><b>Weights</b><span>{where}</span></div>'
        f'<div class="mis-maps{many}">{body}</div>'
    )


def _chooser(head: int | None, heads: int) -> str:
    """The head shown, with a step to either side where there is one."""
    if head is None:
        return "taken for head 0"
    if heads == 1:
        return "head 0"
    before, after = (head - 1) % heads, (head + 1) % heads
    return (
        f'<span class="mis-heads"><button type="button" data-pick="head:{before}" '
        f'aria-label="head {before}">◀</button> head {head} of 0–{heads - 1} '
        f'<button type="button" data-pick="head:{after}" aria-label="head {after}">▶</button>'
        "</span>"
    )


def _one(
    title: str,
    scaled: Scaled,
    faults: Bools,
    name: str,
    colours: Palette,
    tokens: Sequence[str] | None,
) -> str:
    side = scaled.values.shape[-1]
    known = tokens if tokens is not None and len(tokens) == side else None
    broken = int(faults.sum())
    hover = Hover(labels(known, side), name, faults=faults if broken else None)
    alt = f"{title}: {side} × {side} weights, query from the top, key from the left"
    picture = map_html(scaled, 0, hover, colours=colours, alt=alt, bar=False)
    note = f"{broken} NaN" if broken else ""
    return (
        f'<div class="focus-head plain"><b>{html.escape(title)}</b><span class="mis-nan">{note}'
        f"</span></div>{picture}{_scale(scaled, colours)}"
    )


def _scale(scaled: Scaled, colours: Palette) -> str:
    """The colour scale on one line, from its low end to its high one."""
    anchors = colours.diverging if scaled.diverging else colours.sequential
    low, high = number(float(scaled.low[0]), 2), number(float(scaled.high[0]), 2)
    end = f"≥ {high}" if scaled.clipped else high
    return (
        f'<div class="mis-scale"><span>{low}</span>'
        f'<i style="background:linear-gradient(to right,{", ".join(anchors)})"></i>'
        f"<span>{end}</span></div>"
    )
