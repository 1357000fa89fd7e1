"""The memory figure as a list of marks, to be written as SVG or drawn as a picture.

A head has its hue, and the place along the last axis its shade: where shades run from light to
strong side by side, the elements of one row lie side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mha_core.errors import human_bytes
from mha_core.figures.flow_layout import ellipses
from mha_core.figures.memory_layout import BESIDE, NARROW, Picture
from mha_core.memory import InMemory, InTensor, Place
from mha_core.palette import Palette, mix
from mha_core.steps import FLAT, MAP, symbolic

SHADES = 6


@dataclass(frozen=True)
class Word:
    """A piece of text: (text, colour) parts that follow each other; y is its baseline."""

    x: float
    y: float
    parts: tuple[tuple[str, str], ...]
    size: float = 12.0
    anchor: str = "start"
    bold: bool = False


@dataclass
class Marks:
    """All that is drawn.

    Attributes:
        squares: colour -> centres of the cells painted so.
        outlines: centres of the chosen element, by index and in storage.
        path: from the one to the other.
        dots: centres of its neighbours in memory; rings: of those in the tensor.
        words: the text.
    """

    squares: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    outlines: list[tuple[float, float]] = field(default_factory=list)
    path: list[tuple[float, float]] = field(default_factory=list)
    dots: list[tuple[float, float]] = field(default_factory=list)
    rings: list[tuple[float, float]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)


def fills(picture: Picture, colours: Palette) -> list[str]:
    """The colour of every drawn element."""
    step, axes, index = picture.step.id, picture.drawn.axes, picture.drawn.index.T
    d_k = picture.d_k
    last = index[-1] % d_k if axes == FLAT else index[-1]
    size = d_k if axes == FLAT else picture.drawn.shape[-1]
    shade = np.rint(last / max(1, size - 1) * (SHADES - 1)).astype(int)
    if step in ("input", "output"):  # their columns belong to no head
        heads = np.full(len(shade), -1)
    else:
        heads = index[-1] // d_k if axes == FLAT else index[axes.index("h")]
    made: dict[tuple[int, int], str] = {}
    for head, level in {(int(h), int(s)) for h, s in zip(heads, shade, strict=True)}:
        hue = colours.tints["d_model"] if head < 0 else colours.head(head)
        made[head, level] = mix(colours.background, hue, 0.25 + 0.75 * level / (SHADES - 1))
    return [made[int(h), int(s)] for h, s in zip(heads, shade, strict=True)]


def marks(
    picture: Picture,
    place: Place,
    beside: Sequence[InMemory],
    along: Sequence[InTensor],
    *,
    stored: int,
    colours: Palette,
) -> Marks:
    """The figure of one step.

    Args:
        picture: where everything is.
        place: of the chosen element.
        beside, along: its neighbours in memory and in the tensor.
        stored: elements in the tensor's storage.
        colours: of the ground.
    """
    made = Marks()
    index_xy, storage_xy = picture.index_xy.tolist(), picture.storage_xy.tolist()
    for n, colour in enumerate(fills(picture, colours)):
        made.squares.setdefault(colour, []).extend((tuple(index_xy[n]), tuple(storage_xy[n])))
    chosen = picture.number(place.index)
    if chosen is not None:  # the window always has it
        made.outlines = [tuple(index_xy[chosen]), tuple(storage_xy[chosen])]
        made.path = list(made.outlines)
    near = [one.index for one in beside if one.index is not None]
    for indices, into in ((near, made.dots), ([one.place.index for one in along], made.rings)):
        for index in indices:
            found = picture.number(index)
            if found is not None:
                into.extend((tuple(index_xy[found]), tuple(storage_xy[found])))
    _index_words(made, picture, colours)
    _storage_words(made, picture, stored, colours)
    return made


def _index_words(made: Marks, picture: Picture, colours: Palette) -> None:
    step, space, text, muted = picture.step, picture.grid, colours.text, colours.muted
    names = picture.drawn.axes
    sizes = _joined([(str(n), colours.tints[a]) for n, a in zip(step.shape, names, strict=True)],
                    text)  # fmt: skip
    wide = picture.sheet.width >= NARROW
    title = [("index space  ", text)]
    if wide:
        title += [*_joined([(a, colours.tints[a]) for a in names], text), (" = ", text)]
    made.words.append(Word(0, 14, (*title, *sizes), 13, bold=True))
    made.words.append(Word(0, 32, ((_layout(picture), muted),)))
    for b, top in space.down.place.items():
        x, y = picture.at(0, top + space.rows.extent / 2)
        made.words.append(Word(x - 6, y + 4, ((f"b {b}", colours.tints["batch"]),), 11, "end"))
    made.words += _block_names(picture, colours)
    for across, down, glyph in ellipses(space):
        x, y = picture.at(across, down)
        made.words.append(Word(x, y + 4, ((glyph, muted),), 12, "middle"))


def _layout(picture: Picture) -> str:
    """Strides, offset and contiguity: as much of it as there is room for."""
    step = picture.step
    strides = f"strides {_plain(step.strides)}"
    state = "contiguous" if step.contiguous else "not contiguous"
    offset = f", offset {step.offset:,}"
    room = (picture.sheet.right if picture.sheet.width >= BESIDE else picture.sheet.width) / 7.3
    for said in (f"{strides}{offset}, {state}", f"{strides}, {state}"):
        if len(said) <= room:
            return said
    return strides


def _block_names(picture: Picture, colours: Palette) -> list[Word]:
    """A name over each block, or over each head's columns."""
    space, axes = picture.grid, picture.drawn.axes
    named: list[tuple[float, str, str, float]] = []  # cells from the left, name, colour, width
    if space.outer is not None:
        for n, left in space.outer.place.items():
            of_heads = space.names[0] == "h"
            colour = colours.head(n) if of_heads else colours.tints["time"]
            name = f"{'head' if of_heads else 't'} {n}"
            named.append((left, name, colour, space.cols.extent))
    elif picture.step.id in ("input", "output") or axes == MAP:
        return []
    else:
        for head in picture.win.heads:
            at = [left for c, left in space.cols.place.items() if c // picture.d_k == head]
            named.append((min(at), f"head {head}", colours.head(head), max(at) - min(at) + 1))
    shown = []
    for left, name, colour, extent in named:
        x, y = picture.at(left, 0)
        room = extent * picture.sheet.pitch
        fitting = name if room > 6.8 * len(name) else name.split()[-1]
        shown.append(Word(x, y - 6, ((fitting, colour),), 11))
    return shown


def _storage_words(made: Marks, picture: Picture, stored: int, colours: Palette) -> None:
    step, sheet = picture.step, picture.sheet
    text, muted = colours.text, colours.muted
    left = sheet.right if sheet.width >= BESIDE else 0.0
    size = human_bytes(stored * step.dtype.itemsize)
    of = f"shared with {step.view_of}" if step.view_of else "its own"
    title = (("storage  ", text), (f"{stored:,} × {step.dtype.itemsize} B = {size}", muted))
    made.words.append(Word(left, sheet.below + 14, title, 13, bold=True))
    note = f"{of}; left, offsets"
    made.words.append(Word(left, sheet.below + 32, ((note, muted),)))
    every = 1 if sheet.pitch >= 13 else 2  # labels closer than that are hard to tell apart
    for row, start in list(enumerate(picture.lines.starts))[::every]:
        x, y = picture.lies(0, row + 0.5)
        made.words.append(Word(x - 8, y + 3.7, ((f"{start:,}", muted),), 11, "end"))
    for column, row in picture.lines.gaps:
        x, y = picture.lies(column, row + 0.5)
        made.words.append(Word(x, y + 3, (("…", muted),), 11, "middle"))


def _plain(numbers: tuple[int, ...]) -> str:
    return f"({', '.join(f'{n:,}' for n in numbers)})"


def _joined(parts: Sequence[tuple[str, str]], between: str) -> list[tuple[str, str]]:
    """("a", "b") -> "(a, b)", each part in its colour."""
    made = [("(", between)]
    for n, part in enumerate(parts):
        made += [(", ", between)] if n else []
        made.append(part)
    return [*made, (")", between)]


def alt(picture: Picture, place: Place) -> str:
    """The figure in a sentence."""
    step = picture.step
    kind = "contiguous" if step.contiguous else "not contiguous"
    return (
        f"{step.id}, {symbolic(step.spec.output)} = {step.shape}, strides {step.strides}, {kind}: "
        f"its elements by index, and in storage. The chosen element has index {place.index} and "
        f"lies at offset {place.offset}."
    )
