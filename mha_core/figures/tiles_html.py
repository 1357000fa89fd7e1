"""All heads as small maps of which one is chosen, each with a number beside its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mha_core.palette import Palette

# Pixels from which a tile has room for name, number and unit in full size; for all three at all.
_FULL, _ALL = 124, 100


class Tile(NamedTuple):
    """A head: its picture as a data URI, and a number with its unit, or nothing."""

    head: int
    picture: str
    said: str


def tiles_html(
    heads: Iterable[Tile], *, chosen: int, masked: bool, side: int, colours: Palette, row: bool
) -> str:
    """Tiles in the order given; they carry `data-pick="head"` and can be focused.

    Args:
        heads: what is shown.
        chosen: the head that is marked.
        masked: whether pictures have holes, behind which masked cells are hatched.
        side: pixels a tile has at least.
        colours: of the ground.
        row: four or fewer, which stand in one row where the page is of middling width.
    """
    room = "" if side > _FULL else ' data-room="little"' if side > _ALL else ' data-room="least"'
    body = "".join(_tile(one, one.head == chosen, masked, colours) for one in heads)
    few = " data-row" if row else ""
    return f'<div class="tiles"{room}{few} style="--tile:{side}px">{body}</div>'


def _tile(one: Tile, chosen: bool, masked: bool, colours: Palette) -> str:
    number, _, unit = one.said.partition(" ")
    said = f"{number}<span> {unit}</span>" if unit else number
    return (
        f'<figure class="tile" data-pick="{one.head}" tabindex="0" role="button" '
        f'aria-selected="{"true" if chosen else "false"}" '
        f'aria-label="head {one.head}, {one.said}" style="--head:{colours.head(one.head)}">'
        f'<div class="cap"><b>head {one.head}</b><i>{said}</i></div>'
        f'<div class="pic{" some" if masked else ""}"><img src="{one.picture}" alt=""></div>'
        "</figure>"
    )
