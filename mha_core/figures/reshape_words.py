"""The words of a reshape's flow: titles, captions, names of blocks, the followed element."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

from mha_core.errors import human_bytes
from mha_core.figures.flow_paint import tenths
from mha_core.figures.reshape_layout import LABELS, SIDE, Level, Stage, starts
from mha_core.figures.reshape_names import Names
from mha_core.figures.text import MONO
from mha_core.palette import Palette
from mha_core.reshape.flow import Flow
from mha_core.reshape.run import Step

WIDE = 760  # pixels from which the title and the strides share a line
_WAYS = {
    (0, "x"): "columns", (0, "y"): "rows", (1, "x"): "blocks across", (1, "y"): "blocks down",
    (2, "x"): "groups across", (2, "y"): "groups down",
}  # fmt: skip
_ADVANCE = 0.62  # width of a letter of the monospaced face, in its size


@dataclass(frozen=True)
class Hues:
    """Which axis gives the colours, and what it is called.

    Attributes:
        side, axis: "in" or "out", and the number of the axis.
        called: its name.
        indices: those drawn.
    """

    side: str
    axis: int
    called: str
    indices: tuple[int, ...]


@dataclass
class _Words:
    """Text marks, gathered one by one."""

    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    colour: list[str] = field(default_factory=list)
    position: list[str] = field(default_factory=list)

    def add(
        self, x: float, y: float, text: str, colour: str, *, size: int = 13,
        position: str = "middle right",
    ) -> None:  # fmt: skip
        self.x.append(x)
        self.y.append(y)
        self.text.append(text)
        self.colour.append(colour)
        self.size.append(size)
        self.position.append(position)


def words_trace(
    flow: Flow, n: int, st: Stage, names: Names, hues: Hues | None, colours: Palette
) -> dict[str, Any]:
    """All the words of scene n, as one trace."""
    w = _Words()
    _title(w, flow, n, st, names, colours)
    _caption(w, flow, n, st, names, hues, colours)
    _labels(w, flow, n, st, names, hues, colours)
    dots = round(max(8.0, min(14.0, st.pitch)))
    for across, down, glyph in st.grids[n].ellipses():
        px, py = st.pixels(n, across, down)
        w.add(float(px), float(py), glyph, colours.muted, size=dots, position="middle center")
    _lane(w, flow, n, st, colours)
    return {
        "x": tenths(w.x),
        "y": tenths(w.y),
        "text": w.text,
        "textposition": w.position,
        "textfont": {"size": w.size, "color": w.colour, "family": MONO},
    }


def moved(step: Step) -> str:
    """What a step did to memory: read off the storages, not claimed."""
    if step.storage == "view":
        return "no bytes moved"
    size = human_bytes(step.allocated)
    return f"{size} in memory" if step.storage == "new" else f"copied, {size} new"


def _title(w: _Words, flow: Flow, n: int, st: Stage, names: Names, colours: Palette) -> None:
    step = flow.scenes[n].step
    heading = f"{step.number} · {step.code}"
    shape, sizes = names.shape(step.names), names.sizes(step.shape, step.names)
    said = f"{shape} = {sizes}" if shape else sizes
    plain = f"({', '.join(step.names)}) = {step.shape}" if shape else str(step.shape)
    w.add(
        0, 14, f"<b>{html.escape(heading)}</b>", colours.text, size=15 if st.width >= WIDE else 13
    )
    if st.width < WIDE:
        fits = len(plain) * 12 * _ADVANCE < st.width
        w.add(0, 36, said if fits else sizes, colours.text, size=12)
        w.add(0, 56, f"<b>{moved(step)}</b>", colours.text, size=12)
        return
    room = st.width - len(heading) * 15 * _ADVANCE - 24
    right = _strides(flow, n, room)
    w.add(st.width, 14, right, colours.text, position="middle left")
    w.add(0, 38, said, colours.text)


def _strides(flow: Flow, n: int, room: float) -> str:
    """Strides before and after, as much of it as there is room for, and what moved."""
    step = flow.scenes[n].step
    what = moved(step)
    tries = [f"strides {step.strides} · "]
    if n and flow.scenes[n - 1].step.strides != step.strides:
        tries.insert(0, f"strides {flow.scenes[n - 1].step.strides} → {step.strides} · ")
    for text in tries:
        if (len(text) + len(what)) * 13 * _ADVANCE < room:
            return f"{text}<b>{what}</b>"
    return f"<b>{what}</b>"


def _caption(
    w: _Words, flow: Flow, n: int, st: Stage, names: Names, hues: Hues | None, colours: Palette
) -> None:
    """The rule of the picture, and the axis that gives the colours."""
    if st.width < WIDE:
        return
    step = flow.scenes[n].step
    g = st.grids[n]
    if g.line:
        lines = "" if len(flow.identity) <= g.line else f", in lines of {g.line}"
        rule = f"one axis, {names.name(step.names[0], 0)}, from left to right{lines}"
    else:
        order = sorted(g.levels, key=lambda level: (level.depth, level.way))
        rule = ", ".join(
            f"{_WAYS[level.depth, level.way]} {names.name(step.names[level.number], level.number)}"
            for level in order
            if step.shape[level.number] > 1 or level.depth == 0
        )
    w.add(0, 60, rule, colours.muted, size=12)
    if hues is not None:
        swatches = " ".join(
            f'<span style="color:{colours.head(i)}">{i}</span>' for i in hues.indices[:16]
        )
        more = " …" if len(hues.indices) > 16 else ""
        w.add(
            st.width, 38, f"coloured by {html.escape(hues.called)}: <b>{swatches}</b>{more}",
            colours.muted, size=12, position="middle left",
        )  # fmt: skip


def _labels(
    w: _Words, flow: Flow, n: int, st: Stage, names: Names, hues: Hues | None, colours: Palette
) -> None:
    """The index of every block: above it along x, at its left along y."""
    step = flow.scenes[n].step
    g = st.grids[n]
    for level in g.levels:
        if level.depth == 0 or step.shape[level.number] == 1:
            continue
        name = step.names[level.number]
        coloured = hues is not None and _is_hue(flow, n, level, hues)
        tint = names.tint(name)
        outer = [o for o in g.along(level.way) if o.depth > level.depth]
        room = level.inner * st.pitch if level.way == "x" else SIDE - 10.0
        for begin in starts(outer):
            for i, place in level.axis.place.items():
                text = _label(name, i, room)
                colour = colours.head(i) if coloured else tint
                if coloured:
                    text = f"<b>{text}</b>"
                if level.way == "x":
                    px, _ = st.pixels(n, begin + place, 0.0)
                    y = st.top - LABELS * (level.depth - 0.5)
                    w.add(float(px) - 3, y, text, colour, size=12)
                else:
                    _, py = st.pixels(n, 0.0, begin + place + level.inner / 2)
                    x = _left(st, n) - SIDE * (level.depth - 1) - 8
                    w.add(x, float(py), text, colour, size=12, position="middle left")


def _left(st: Stage, n: int) -> float:
    px, _ = st.pixels(n, 0.0, 0.0)
    return float(px)


def _label(name: str, index: int, room: float) -> str:
    """A block's name and index, as much as fits."""
    full = f"{name} {index}"
    if name and len(full) * 12 * _ADVANCE <= room:
        return html.escape(full)
    return str(index) if len(str(index)) * 12 * _ADVANCE <= room + 8 else ""


def _is_hue(flow: Flow, n: int, level: Level, hues: Hues) -> bool:
    """Whether an axis of a scene is the one that gives the colours."""
    step = flow.scenes[n].step
    if n == (0 if hues.side == "in" else len(flow.scenes) - 1):
        return level.number == hues.axis
    source = flow.scenes[0 if hues.side == "in" else -1].step
    named = step.names[level.number]
    return named == hues.called != "" and step.shape[level.number] == source.shape[hues.axis]


def _lane(w: _Words, flow: Flow, n: int, st: Stage, colours: Palette) -> None:
    """Below the scene: where the followed element stands, and where it lies in memory."""
    scene, first = flow.scenes[n], flow.scenes[0]
    wide = st.width >= WIDE
    here = list(scene.place)
    text = f"element {flow.element:,}"
    text += f" = x{list(first.place)}" if wide and n else ""
    text += f": <b>{here}</b> · offset {scene.offset:,}"
    if not n and wide:
        text += " in memory"
    if n and wide:
        before = flow.scenes[n - 1]
        same = scene.step.storage == "view"
        text += " in memory, unmoved" if same else f" in new memory, was {before.offset:,}"
        places = flow.places(n)
        if places > 1:
            text += f" · one of its {places:,} places"
    w.add(0, st.lane + 22, text, colours.text, size=13 if wide else 12)
