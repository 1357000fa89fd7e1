"""The marks of the flow: elements, cells of a map, operands, the followed element and its path.

All squares share one colour scale of 256 codes: a stretch for numbers that belong to no head, one
for each head drawn, one diverging for scores and one for weights. A mark then costs one byte of
colour, and a head keeps its hue through every scene.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mha_core.figures.flow_layout import LANE, SIDE, Stage
from mha_core.figures.text import number
from mha_core.figures.typed import typed
from mha_core.flow import Scene
from mha_core.operands import Operand
from mha_core.palette import Palette, mix
from mha_core.steps import FLAT
from mha_core.window import Window

UNIT = 10  # coordinates are sent as whole tenths of a pixel
LEVELS = 20  # of a stretch, fewer where many heads are drawn
Codes = NDArray[np.uint8]
Json = dict[str, Any]


def tenths(pixels: NDArray[np.float64] | list[float]) -> dict[str, str]:
    """Pixels as typed whole tenths."""
    return typed((np.asarray(pixels) * UNIT).round().astype(np.int16))


def whole(indices: NDArray[np.int64]) -> dict[str, str]:
    """Indices, typed as small as they allow."""
    return typed(indices.astype(np.int16 if indices.max(initial=0) < 2**15 else np.int32))


class Painter:
    """Turns numbers into colour codes and traces."""

    def __init__(self, win: Window, d_k: int, colours: Palette) -> None:
        self.colours = colours
        self.win = win
        self.d_k = d_k
        head_ramps = [self._ramp(colours.head(head)) for head in win.heads]
        ramps = [
            self._ramp(colours.tints["d_model"]),
            *head_ramps,
            list(colours.diverging),
            list(colours.sequential),
            [colours.line, colours.line],
        ]
        self.levels = min(LEVELS, 256 // len(ramps))
        self._maps = (len(ramps) - 3) * self.levels
        self.colorscale = [
            [(n * self.levels + (self.levels - 1) * i / (len(ramp) - 1)) / 255, colour]
            for n, ramp in enumerate(ramps)
            for i, colour in enumerate(ramp)
        ]
        self.colorscale.append([1.0, colours.line])

    def _ramp(self, colour: str) -> list[str]:
        return [mix(self.colours.background, colour, 0.28), colour]

    def scale(self) -> Json:
        """The part of a marker that never changes; frames carry only the rest."""
        return {
            "symbol": "square",
            "cmin": 0,
            "cmax": 255,
            "colorscale": self.colorscale,
            "line": {"width": 0},
        }

    def _levels(self, values: NDArray[np.float32], *, signed: bool = True) -> Codes:
        finite = np.where(np.isfinite(values), values, np.float32(0)).astype(np.float64)
        sizes = np.sort(np.abs(finite))
        high = sizes[int(0.98 * (len(sizes) - 1))] or sizes[-1] or 1.0
        unit = finite / high / 2 + 0.5 if signed else finite / high
        return (np.clip(unit, 0, 1) * (self.levels - 1)).round().astype(np.uint8)

    def _heads(self, heads: NDArray[np.int64]) -> Codes:
        place = np.searchsorted(np.array(self.win.heads), heads)
        codes: Codes = ((1 + place) * self.levels).astype(np.uint8)
        return codes

    def elements(self, scene: Scene) -> Codes:
        """Neutral where columns belong to no head (x, and the output, where W_o mixed them)."""
        codes = self._levels(scene.cells.values)
        if scene.step.id in ("input", "output"):
            return codes
        index = scene.cells.index.T
        at = scene.cells.axes
        heads = index[-1] // self.d_k if at == FLAT else index[at.index("h")]
        return codes + self._heads(heads)

    def maps(self, scene: Scene) -> Codes:
        values = scene.cells.values
        if scene.step.id == "softmax":
            codes = self._levels(values, signed=False) + np.uint8(self._maps + self.levels)
        else:
            codes = self._levels(values) + np.uint8(self._maps)
        masked = self.masked(scene)
        codes[masked] = self._maps + 2 * self.levels
        return codes

    def masked(self, scene: Scene) -> NDArray[np.bool_]:
        """Cells whose key may not be attended, from the mask on."""
        if scene.step.id not in ("mask", "softmax"):
            return np.zeros(len(scene.cells.values), dtype=bool)
        return scene.hidden


def map_trace(scene: Scene, st: Stage, painter: Painter) -> Json:
    """The cells of a (batch, h, time, time) tensor, appearing with their real values."""
    hidden = painter.masked(scene)
    shown = [
        f"{number(float(value))} (masked)" if gone else number(float(value))
        for value, gone in zip(scene.cells.values, hidden, strict=True)
    ]
    size = np.where(hidden, max(3.0, st.cell / 3), st.cell).round().astype(np.uint8)
    return {
        **map_places(scene, st),
        "marker": {
            "color": typed(painter.maps(scene)),
            "size": typed(size) if hidden.any() else st.cell,
        },
        "text": shown,
    }


def map_places(scene: Scene, st: Stage) -> Json:
    """Where the cells of a map are."""
    x, y = st.pixels(scene.step.id, *st.grids[scene.step.id].xy(scene.cells))
    return {"x": tenths(x), "y": tenths(y)}


# Nothing drawn costs nothing: a page with no map in view starts faster.
EMPTY: Json = {"x": [], "y": [], "marker": {"color": [], "size": 1}, "text": []}
UNSEEN: Json = {"marker": {"opacity": 0}, "hovertemplate": "", "hoverinfo": "skip"}
MAP_HOVER = f"[{', '.join(f'%{{customdata[{n}]}}' for n in range(4))}] = %{{text}}<extra></extra>"


def operand_cell(st: Stage, operands: tuple[Operand, ...]) -> float:
    """Pitch of the operand strips: both rows align, so that products stand one above the other."""
    longest = max(len(operand.indices) for operand in operands)
    right = 178.0 if st.width > 560 else 12.0
    return min(16.0, st.pitch, (st.width - operand_left(st) - right) / longest)


def operands_trace(scene: Scene, st: Stage, painter: Painter) -> Json:
    """The contributing row and column of the followed element, in the lane below the scene."""
    if not scene.operands:
        return {"x": [], "y": [], "marker": {"color": [], "size": 1}, "text": []}
    pitch = operand_cell(st, scene.operands)
    xs: list[float] = []
    ys: list[float] = []
    codes: list[Codes] = []
    texts: list[str] = []
    for row, operand in enumerate(scene.operands):
        xs += [operand_left(st) + (i + 0.5) * pitch for i in range(len(operand.indices))]
        ys += [operand_top(st, row)] * len(operand.indices)
        levels = painter._levels(operand.values)
        if operand.head is not None:
            levels = levels + painter._heads(np.full(len(levels), operand.head))
        levels[np.isneginf(operand.values)] = painter._maps + 2 * painter.levels
        codes.append(levels)
        pairs = zip(operand.indices, operand.values, strict=True)
        texts += [f"{operand.label}  {operand.axis} {i}: {number(float(v))}" for i, v in pairs]
    return {
        "x": tenths(xs),
        "y": tenths(ys),
        "marker": {"color": typed(np.concatenate(codes)), "size": max(3.0, pitch - 1.5)},
        "text": texts,
    }


def operand_left(st: Stage) -> float:
    return SIDE + 118.0 if st.width > 560 else SIDE + 84.0


def operand_top(st: Stage, row: int) -> float:
    return st.height - LANE + 48.0 + 22.0 * row


def followed_trace(scene: Scene, st: Stage) -> Json:
    """Where the outline around the followed element is."""
    x, y = place_pixels(scene, st)
    return {"x": tenths([x]), "y": tenths([y])}


def outline(st: Stage, colours: Palette) -> Json:
    line = {"width": 2.5, "color": colours.text}
    return {"symbol": "square", "size": st.cell + 2, "color": "rgba(0,0,0,0)", "line": line}


def place_pixels(scene: Scene, st: Stage) -> tuple[float, float]:
    """Centre of the followed element."""
    step = scene.step.id
    px, py = st.pixels(step, *st.grids[step].at(scene.place))
    return float(px), float(py)


def path_trace(scene: Scene, previous: Scene | None, st: Stage) -> Json:
    """A dotted arc from where the followed element was to where it is, where it moved."""
    end = place_pixels(scene, st)
    start = place_pixels(previous, st) if previous is not None and scene.moves else end
    along = np.linspace(0.0, 1.0, 13)
    lift = min(40.0, 0.25 * float(np.hypot(end[0] - start[0], end[1] - start[1])))
    x = start[0] + (end[0] - start[0]) * along
    y = start[1] + (end[1] - start[1]) * along - lift * 4 * along * (1 - along)
    return {"x": tenths(x), "y": tenths(y)}
