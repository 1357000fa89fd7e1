"""Labels along an axis of cells: tokens or positions, as many as fit, and ranges where pooled."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from mha_core.figures.text import label

Span = tuple[int, int]

_LETTER = 7.5  # pixels of a letter of 13 pixels, on average
_LINE = 12  # pixels from one turned or stacked label to the next, at least
_SMALL_BELOW = 16  # pixels a label; below, a smaller face
# On a small screen every other label is left out beyond so many, three of four, seven of eight.
_SPARE = {50: 8, 26: 4, 12: 2}


@dataclass(frozen=True)
class Axis:
    """One axis of a map.

    Attributes:
        names: one a cell, for the hover: "12", '12 "the"', "1,000–1,042"; escaped for HTML.
        marks: (place in percent, text) of what is written along it; escaped likewise.
        turned: whether the marks of a horizontal axis stand on end.
        small: whether they need a smaller face.
    """

    names: list[str]
    marks: list[tuple[float, str]]
    turned: bool
    small: bool

    @property
    def letters(self) -> int:
        """Of the longest mark."""
        return max(len(html.unescape(text)) for _, text in self.marks)

    def written(self, side: str) -> str:
        """The marks as HTML; `side` is "left" or "top"."""
        face = ' class="small"' if self.small else ""
        return "".join(
            f'<span{face} style="{side}:{at:.2f}%">{text}</span>' for at, text in self.marks
        )

    @property
    def kinds(self) -> str:
        """Classes of the element that holds the marks, after a first one."""
        spare = next((every for most, every in _SPARE.items() if len(self.marks) > most), 0)
        return (" turned" if self.turned else "") + (f" spare{spare}" if spare else "")

    @property
    def depth(self) -> int:
        """Pixels below a horizontal axis."""
        return round(14 + (5.6 if self.small else 7) * self.letters) if self.turned else 24


def axis(
    spans: Sequence[Span], tokens: Sequence[str] | None, pixels: float, *, across: bool
) -> Axis:
    """Labels for the cells of an axis.

    Args:
        spans: (start, stop) in positions of every cell, in order.
        tokens: one a position of the whole map, or None.
        pixels: its length on a wide screen.
        across: horizontal, where labels lie side by side; else one above the other.
    """
    single = spans[-1][0] - spans[0][0] == len(spans) - 1 and spans[0][1] - spans[0][0] == 1
    if single and tokens is not None:
        return _words(spans, tokens, pixels, across=across)
    names = [_range(start, stop) for start, stop in spans]
    longest = len(f"{spans[-1][1]:,}")
    # A phone leaves 0.6 of them.
    room = int(0.6 * pixels / (_LETTER * longest + 16 if across else 2 * _LINE))
    start, stop = spans[0][0], spans[-1][1]
    # The last cell may hold fewer positions, and is drawn as large as the others.
    drawn = len(spans) * (spans[0][1] - spans[0][0])
    marks = [
        (100 * (place - start + 0.5) / drawn, f"{place:,}")
        for place in ticks(start, stop, max(1, min(room, 10)))
    ]
    return Axis(names, marks, turned=False, small=False)


def _words(spans: Sequence[Span], tokens: Sequence[str], pixels: float, *, across: bool) -> Axis:
    texts = [label(tokens[start]) for start, _ in spans]
    names = [f"{start:,} “{label(tokens[start], width=30)}”" for start, _ in spans]
    every = -(-len(spans) * _LINE // int(max(_LINE, pixels)))
    marks = [(100 * (i + 0.5) / len(spans), texts[i]) for i in range(0, len(spans), every)]
    room = pixels * every / len(spans)
    longest = max(len(html.unescape(text)) for _, text in marks)
    # A short label in a cell that is wide enough even on a phone need not be turned.
    turned = across and longest * _LETTER + 4 > 0.6 * room
    return Axis(names, marks, turned, small=room < _SMALL_BELOW)


def _range(start: int, stop: int) -> str:
    return f"{start:,}" if stop - start == 1 else f"{start:,}–{stop - 1:,}"


def ticks(start: int, stop: int, room: int) -> list[int]:
    """At most `room` round positions from `start` on, before `stop`; the first where none is."""
    step = 1
    while True:
        for stride in (step, 2 * step, 5 * step):
            first = -(-start // stride) * stride
            found = list(range(first, stop, stride))
            if len(found) <= room:
                return found or [start]
        step *= 10
