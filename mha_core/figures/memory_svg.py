"""The memory figure as SVG, for the page and for a file."""

from __future__ import annotations

import html

from mha_core.figures.memory_layout import Picture
from mha_core.figures.memory_paint import Marks, Word
from mha_core.figures.text import MONO
from mha_core.palette import Palette


def svg(picture: Picture, made: Marks, *, alt: str, colours: Palette, file: bool = False) -> str:
    """The figure; `file` makes it stand alone, with a ground of its own.

    On the page it ends in a layer that is empty, class "walk", for a script to draw in.
    """
    sheet = picture.sheet
    side = picture.cell
    head = (
        f'<svg class="mem-svg" viewBox="0 0 {sheet.width} {sheet.height}" width="{sheet.width}" '
        f'height="{sheet.height}" role="img" aria-label="{html.escape(alt)}" '
        f'font-family="{html.escape(MONO)}"'
    )
    parts = [head + (' xmlns="http://www.w3.org/2000/svg">' if file else ">")]
    if file:
        parts.append(f'<rect width="100%" height="100%" fill="{colours.background}"/>')
    parts += [
        f'<path fill="{colour}" d="{_squares(centres, side)}"/>'
        for colour, centres in made.squares.items()
    ]
    parts.append(_overlay(made, side, colours))
    words = "".join(_text(word) for word in made.words)
    # An edge of the ground lets the path pass behind; not every reader of files paints it first.
    edge = "" if file else f' paint-order="stroke" stroke="{colours.background}" stroke-width="4"'
    parts.append(f"<g{edge}>{words}</g>")
    parts.append("</svg>" if file else '<g class="walk"></g></svg>')
    return "".join(parts)


def _squares(centres: list[tuple[float, float]], side: float) -> str:
    half = side / 2
    box = f"h{side:.1f}v{side:.1f}h-{side:.1f}z"
    return "".join(f"M{x - half:.1f} {y - half:.1f}{box}" for x, y in centres)


def _overlay(made: Marks, side: float, colours: Palette) -> str:
    """The path, the chosen element, and its neighbours."""
    parts = []
    radius = max(1.6, side * 0.17)
    if made.path:
        (ax, ay), (bx, by) = made.path
        bend = f"M{ax:.1f} {ay:.1f}C{ax:.1f} {(ay + by) / 2:.1f} {bx:.1f} {(ay + by) / 2:.1f} "
        parts.append(
            f'<path class="link" d="{bend}{bx:.1f} {by:.1f}" fill="none" stroke="{colours.text}" '
            'stroke-width="1.2" stroke-dasharray="2 3" opacity="0.8"/>'
        )
    ground = f'stroke="{colours.background}"'
    for x, y in made.rings:
        parts.append(
            f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="{radius * 1.5:.1f}" '
            f'fill="{colours.background}" stroke="{colours.text}" stroke-width="1.5"/>'
        )
    for x, y in made.dots:
        parts.append(
            f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
            f'fill="{colours.text}" {ground} stroke-width="1"/>'
        )
    for x, y in made.outlines:
        far = side / 2 + 1
        parts.append(
            f'<rect class="chosen" x="{x - far:.1f}" y="{y - far:.1f}" width="{2 * far:.1f}" '
            f'height="{2 * far:.1f}" fill="none" stroke="{colours.text}" stroke-width="2.2"/>'
        )
    return "".join(parts)


def _text(word: Word) -> str:
    spans = "".join(
        f'<tspan fill="{colour}">{html.escape(text)}</tspan>' for text, colour in word.parts
    )
    weight = ' font-weight="650"' if word.bold else ""
    anchor = f' text-anchor="{word.anchor}"' if word.anchor != "start" else ""
    return (
        f'<text x="{word.x:.1f}" y="{word.y:.1f}" font-size="{word.size:g}"{anchor}{weight} '
        f'xml:space="preserve">{spans}</text>'
    )
