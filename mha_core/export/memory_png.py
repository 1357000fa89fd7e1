"""The memory figure as PNG, without a browser: the marks of the SVG, drawn by matplotlib."""

from __future__ import annotations

import io

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch, Rectangle
from matplotlib.path import Path

from mha_core.export.figure import DPI, drawing
from mha_core.figures.memory_layout import Picture
from mha_core.figures.memory_paint import Marks, Word
from mha_core.palette import Palette

_INCH = 96  # pixels of the page
_POINT = 72 / _INCH
_CURVE = [Path.CURVE4] * 3
_LETTER = 0.602  # width of a letter of DejaVu Sans Mono, by its size


def png(picture: Picture, made: Marks, *, alt: str, colours: Palette) -> bytes:
    """The figure at `export.figure.DPI` dots an inch; `alt` goes in as its description."""
    sheet = picture.sheet
    with drawing():
        drawn = Figure((sheet.width / _INCH, sheet.height / _INCH), dpi=DPI)
        FigureCanvasAgg(drawn)
        drawn.patch.set_facecolor(colours.background)
        axes = drawn.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, sheet.width)
        axes.set_ylim(sheet.height, 0)
        axes.axis("off")
        _squares(axes, picture, made)
        _overlay(axes, picture, made, colours)
        for word in made.words:
            _text(axes, word)
        page = io.BytesIO()
        drawn.savefig(page, format="png", metadata={"Software": None, "Description": alt},
                      facecolor=colours.background)  # fmt: skip
    return page.getvalue()


def _squares(axes: Axes, picture: Picture, made: Marks) -> None:
    side = picture.cell
    for colour, centres in made.squares.items():
        boxes = [Rectangle((x - side / 2, y - side / 2), side, side) for x, y in centres]
        axes.add_collection(PatchCollection(boxes, facecolor=colour, linewidth=0))


def _overlay(axes: Axes, picture: Picture, made: Marks, colours: Palette) -> None:
    side = picture.cell
    radius = max(1.6, side * 0.17)
    if made.path:
        (ax, ay), (bx, by) = made.path
        middle = (ay + by) / 2
        curve = Path([(ax, ay), (ax, middle), (bx, middle), (bx, by)], [Path.MOVETO, *_CURVE])
        axes.add_patch(PathPatch(curve, fill=False, edgecolor=colours.text, linewidth=0.9,
                                 linestyle=":", alpha=0.8))  # fmt: skip
    for at in made.rings:
        axes.add_patch(Circle(at, radius * 1.5, facecolor=colours.background,
                              edgecolor=colours.text, linewidth=1.1))  # fmt: skip
    for at in made.dots:
        axes.add_patch(Circle(at, radius, facecolor=colours.text,
                              edgecolor=colours.background, linewidth=0.75))  # fmt: skip
    far = side / 2 + 1
    for x, y in made.outlines:
        axes.add_patch(Rectangle((x - far, y - far), 2 * far, 2 * far, fill=False,
                                 edgecolor=colours.text, linewidth=1.6))  # fmt: skip


def _text(axes: Axes, word: Word) -> None:
    """Parts follow each other by the width of their letters: the face is monospaced."""
    letters = sum(len(text) for text, _ in word.parts)
    x = word.x - letters * word.size * _LETTER * {"start": 0, "middle": 0.5, "end": 1}[word.anchor]
    for text, colour in word.parts:
        axes.text(
            x, word.y, text, color=colour, fontsize=word.size * _POINT, va="baseline",
            family="DejaVu Sans Mono", weight="bold" if word.bold else "normal",
        )  # fmt: skip
        x += len(text) * word.size * _LETTER
