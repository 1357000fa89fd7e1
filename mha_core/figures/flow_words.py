"""The words of the flow: titles, captions, names of blocks, and what became of the element."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mha_core.errors import human_bytes
from mha_core.figures import flow_layout as layout
from mha_core.figures.flow_layout import Stage
from mha_core.figures.flow_paint import operand_cell, operand_left, operand_top, tenths
from mha_core.figures.text import MONO, number, tinted, tinted_sizes
from mha_core.flow import Scene
from mha_core.palette import Palette
from mha_core.window import Element, Window

WIDE = 900  # pixels from which the title and the strides share a line


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
        self,
        x: float,
        y: float,
        text: str,
        colour: str,
        *,
        size: int = 13,
        position: str = "middle right",
    ) -> None:
        self.x.append(x)
        self.y.append(y)
        self.text.append(text)
        self.colour.append(colour)
        self.size.append(size)
        self.position.append(position)


def words_trace(
    scene: Scene,
    previous: Scene | None,
    st: Stage,
    element: Element,
    win: Window,
    colours: Palette,
    *,
    bias: bool,
) -> dict[str, Any]:
    """All the words of a scene, as one trace."""
    w = _Words()
    _title(w, scene, previous, st, colours)
    _captions(w, scene, st, win, colours)
    _lane(w, scene, previous, st, element, colours, bias=bias)
    return {
        "x": tenths(w.x),
        "y": tenths(w.y),
        "text": w.text,
        "textposition": w.position,
        "textfont": {"size": w.size, "color": w.colour, "family": MONO},
    }


def moved(scene: Scene) -> str:
    """What the step did to memory: counted, not claimed."""
    if scene.step.view_of is not None:
        return "no bytes moved"
    if scene.step.storage == "copy":
        return f"copied {human_bytes(scene.copied)}"
    if scene.step.id == "input":
        return f"{human_bytes(scene.step.nbytes)} in memory"
    made = f"new {human_bytes(scene.step.nbytes)}"
    return f"{made}, copied {human_bytes(scene.copied)} on the way" if scene.copied else made


def _title(w: _Words, scene: Scene, previous: Scene | None, st: Stage, colours: Palette) -> None:
    spec = scene.step.spec
    heading = f"<b>{spec.number} · {spec.operation}</b>"
    inputs = " × ".join(tinted(shape, colours) for shape in spec.inputs)
    output = tinted(spec.output, colours)
    sizes = tinted_sizes(scene.step.shape, spec.output, colours)
    strides = _strides(scene, previous)
    w.add(0, 14, heading, colours.text, size=15)
    if st.width >= WIDE:
        w.add(
            st.width, 14, f"{strides} · <b>{moved(scene)}</b>", colours.text, position="middle left"
        )
        w.add(
            0,
            38,
            f"{inputs} → {output} = {sizes}" if inputs else f"{output} = {sizes}",
            colours.text,
        )
    else:
        w.add(0, 36, f"{output} = {sizes}", colours.text, size=12)
        w.add(0, 56, f"<b>{moved(scene)}</b>", colours.text, size=12)


def _strides(scene: Scene, previous: Scene | None) -> str:
    now = str(scene.step.strides)
    if previous is None or not scene.moves:
        return f"strides {now}"
    return f"strides {previous.step.strides} → {now}"


def _captions(w: _Words, scene: Scene, st: Stage, win: Window, colours: Palette) -> None:
    """The rule of the picture, names of blocks, ellipses."""
    step = scene.step.id
    g = st.grids[step]
    is_map = scene.step.spec.output[-1] == "time"
    rows = "query time" if is_map else g.names[1]
    cols = "key time" if is_map else g.names[2]
    tint = colours.tints

    def name(axis: str) -> str:
        return f'<span style="color:{tint[axis.split()[-1]]}">{axis}</span>'

    blocks = f", a block each {name(g.names[0])}" if g.names[0] else ""
    if st.width >= WIDE:
        w.add(0, 60, f"rows {name(rows)}, columns {name(cols)}{blocks}", colours.muted, size=12)
    tops = g.down.place
    for b, top in tops.items():
        x, y = st.pixels(step, 0.0, top + g.rows.extent / 2)
        w.add(float(x) - 8, float(y), f"b {b}", tint["batch"], size=12, position="middle left")
    if g.outer is not None and g.names[0] is not None:
        small = st.pitch * g.cols.extent < 52
        for i, left in g.outer.place.items():
            x, y = st.pixels(step, left, -0.25)
            if g.names[0] == "h":
                text, colour = f"<b>{'h' if small else 'head'} {i}</b>", colours.head(i)
            else:
                text, colour = f"t {i}", tint["time"]
            w.add(float(x) - 2, float(y) - 8, text, colour, size=12)
    elif step not in ("input", "output"):
        for head in win.heads:
            first = min(c for c in g.cols.place if c // scene.d_k == head)
            x, y = st.pixels(step, g.cols.place[first], -0.25)
            small = st.pitch * len(win.d_k) < 52
            text = f"<b>{'h' if small else 'head'} {head}</b>"
            w.add(float(x) - 2, float(y) - 8, text, colours.head(head), size=12)
    for across, down, glyph in layout.ellipses(g):
        px, py = st.pixels(step, across, down)
        w.add(float(px), float(py), glyph, colours.muted, size=14, position="middle center")


def _lane(
    w: _Words,
    scene: Scene,
    previous: Scene | None,
    st: Stage,
    element: Element,
    colours: Palette,
    *,
    bias: bool,
) -> None:
    """Below the scene: how the followed element was computed, or where it now lies."""
    name, value = scene.result
    top = st.lane + 24
    follow = (
        f"element (b {element.b}, t {element.t}, c {element.c}): "
        f"<b>{name} = {number(value)}</b> · offset {scene.offset:,} in memory"
    )
    if previous is not None and scene.moves:
        same = scene.step.view_of is not None
        follow += ", unmoved" if same else f", was {previous.offset:,}"
    if st.width < WIDE:
        follow = f"<b>{name} = {number(value)}</b> · offset {scene.offset:,}"
    w.add(0, top, follow, colours.text, size=13 if st.width >= WIDE else 12)
    if not scene.operands:
        return
    for row, operand in enumerate(scene.operands):
        y = operand_top(st, row)
        w.add(operand_left(st) - 6, y, operand.label, colours.text, size=12, position="middle left")
    if st.width <= 560:  # no room beside them
        return
    right = (
        operand_left(st) + operand_cell(st, scene.operands) * len(scene.operands[0].indices) + 10
    )
    w.add(
        right,
        (operand_top(st, 0) + operand_top(st, 1)) / 2,
        _sum(scene, bias),
        colours.muted,
        size=12,
    )


def _sum(scene: Scene, bias: bool) -> str:
    step = scene.step.id
    if step in ("project_q", "output"):
        return "multiply, sum" + (", + bias" if bias else "")
    if step in ("scores", "weighted_values"):
        return "multiply, sum"
    return "softmax over the keys" if step == "softmax" else "hidden keys become −∞"


def hover(scene: Scene) -> str:
    """Hover of an element: its index in this scene and its value."""
    b, t, head, j, c = (f"%{{customdata[{n}]}}" for n in range(5))
    place = {
        ("batch", "time", "d_model"): f"[{b}, {t}, {c}]",
        ("batch", "time", "h", "d_k"): f"[{b}, {t}, {head}, {j}]",
        ("batch", "h", "time", "d_k"): f"[{b}, {head}, {t}, {j}]",
    }[scene.cells.axes]
    name = scene.result[0].split("[")[0]
    return f"{name}{place} = %{{text:.4g}}<extra></extra>"
