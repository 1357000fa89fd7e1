"""The animated flow of any reshape: one Plotly figure, one frame a step, elements gliding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from mha_core.figures.flow_controls import HEIGHT, buttons, control_layout
from mha_core.figures.flow_paint import UNIT, tenths
from mha_core.figures.reshape_layout import Stage, stage
from mha_core.figures.reshape_names import Names
from mha_core.figures.reshape_words import WIDE, Hues, words_trace
from mha_core.figures.text import MONO
from mha_core.figures.typed import typed
from mha_core.palette import Palette, mix, rgb
from mha_core.reshape.flow import Flow, Scene
from mha_core.reshape.run import Run

Json = dict[str, Any]
_NUMBERED = 22.0  # pixels of a cell from which its number is written in it


def scene_ids(flow: Flow) -> list[str]:
    """One word for each scene, unlike all others: "x", "s1", "s2"."""
    return ["x", *(f"s{n}" for n in range(1, len(flow.scenes)))]


def scene_labels(flow: Flow) -> list[str]:
    """What the rail calls each scene: x, or the step's name."""
    return [scene.step.code.split("(")[0] for scene in flow.scenes]


def flow_figure(run: Run, flow: Flow, **how: Any) -> go.Figure:
    """The flow of a run as a Plotly figure; arguments as `flow_spec`."""
    return go.Figure(flow_spec(run, flow, **how))


def flow_spec(
    run: Run,
    flow: Flow,
    *,
    colours: Palette,
    colour: str = "",
    start: int = 0,
    width: int = 1040,
    duration: int = 900,
    controls: bool = True,
) -> Json:
    """The flow of a run: data, frames and layout as Plotly takes them; unvalidated.

    Args:
        run: what ran.
        flow: its marks, as `reshape.flow.flow` gives them.
        colours: of the ground.
        colour: the axis that gives the elements their colours, as `reshape.flow.colour_axes`.
        start: number of the scene shown first.
        width: of the figure, in pixels.
        duration: of one glide, in milliseconds; 0 jumps.
        controls: Plotly's own buttons and rail; without them a player of its own plays it.
    """
    st = stage(flow, width)
    names = Names(run, colours)
    hues = _hues(flow, colour)
    ids, labels = scene_ids(flow), scene_labels(flow)
    start = min(start, len(ids) - 1)
    frames: list[Json] = []
    for n, name in enumerate(ids):
        data = [
            _elements(flow, n, st),
            _path(flow, n, st),
            _followed(flow, n, st),
            words_trace(flow, n, st, names, hues, colours),
        ]
        frame: Json = {"name": name, "data": data, "traces": list(range(4))}
        if controls:
            frame["layout"] = {"updatemenus": [{"buttons": buttons(ids, n, duration)}]}
        frames.append(frame)
    fixed = _fixed(flow, st, hues, colours)
    return {
        "data": [{**a, **b} for a, b in zip(fixed, frames[start]["data"], strict=True)],
        "frames": frames,
        "layout": _layout(st, colours, HEIGHT if controls else 0)
        | (_controls(ids, labels, start, duration, colours, width) if controls else {}),
    }


def _controls(
    ids: Sequence[str], labels: Sequence[str], start: int, duration: int, colours: Palette,
    width: int,
) -> Json:  # fmt: skip
    named = dict(zip(ids, labels, strict=True))
    return control_layout(ids, start, duration, colours, narrow=width < WIDE, labels=named)


def _hues(flow: Flow, colour: str) -> Hues | None:
    if not colour:
        return None
    side, axis = colour.rstrip("0123456789"), int(colour.lstrip("inout"))
    scene = flow.scenes[0 if side == "in" else -1]
    shown = tuple(int(i) for i in np.unique(scene.index[:, axis]))
    return Hues(side, axis, scene.step.names[axis] or f"axis {axis}", shown)


def _elements(flow: Flow, n: int, st: Stage) -> Json:
    scene = flow.scenes[n]
    x, y = st.pixels(n, *st.grids[n].xy(scene.index))
    told = np.concatenate([flow.identity[:, None], scene.index], axis=1)
    small = told.max(initial=0) < 2**15
    axes = ", ".join(f"%{{customdata[{k + 1}]}}" for k in range(scene.index.shape[1]))
    return {
        "x": tenths(x),
        "y": tenths(y),
        "customdata": typed(told.astype(np.int16 if small else np.int32)),
        "hovertemplate": f"[{axes}] = element %{{customdata[0]}}<extra></extra>",
    }


def _place(flow: Flow, n: int, st: Stage) -> tuple[float, float]:
    """Centre of the followed element's first place."""
    scene: Scene = flow.scenes[n]
    index = np.array([scene.place], dtype=np.int64).reshape(1, -1)
    x, y = st.pixels(n, *st.grids[n].xy(index))
    return float(x[0]), float(y[0])


def _path(flow: Flow, n: int, st: Stage) -> Json:
    """A dotted arc from where the followed element was to where it is."""
    end = _place(flow, n, st)
    begin = _place(flow, n - 1, st) if n else end
    along = np.linspace(0.0, 1.0, 13)
    lift = min(40.0, 0.25 * float(np.hypot(end[0] - begin[0], end[1] - begin[1])))
    x = begin[0] + (end[0] - begin[0]) * along
    y = begin[1] + (end[1] - begin[1]) * along - lift * 4 * along * (1 - along)
    return {"x": tenths(x), "y": tenths(y)}


def _followed(flow: Flow, n: int, st: Stage) -> Json:
    """Outlines around the followed element, at every place it is drawn at."""
    x, y = st.pixels(n, *st.grids[n].xy(flow.scenes[n].index[flow.marked]))
    return {"x": tenths(x), "y": tenths(y)}


def _fixed(flow: Flow, st: Stage, hues: Hues | None, colours: Palette) -> list[Json]:
    """What the traces keep through all scenes."""
    painted = _painted(flow, hues, colours)
    elements: Json = {
        "mode": "markers",
        "marker": {"symbol": "square", "size": st.cell, "color": painted, "line": {"width": 0}},
    }
    if st.pitch >= _NUMBERED and flow.identity.max(initial=0) < 1000:
        elements |= {
            "mode": "markers+text",
            "text": [str(i) for i in flow.identity],
            "textposition": "middle center",
            "textfont": {
                "size": 12 if st.pitch >= 28 else 10, "family": MONO,
                "color": [_ink(colour) for colour in painted],
            },
        }  # fmt: skip
    line = {"color": colours.text, "width": 1.5, "dash": "dot"}
    ring = {
        "symbol": "square", "size": st.cell + 2, "color": "rgba(0,0,0,0)",
        "line": {"width": 2.5, "color": colours.text},
    }  # fmt: skip
    return [
        {"type": "scatter", "name": name, **trace}
        for name, trace in {
            "elements": elements,
            "path": {"mode": "lines", "hoverinfo": "skip", "line": line, "opacity": 0.75},
            "followed": {"mode": "markers", "hoverinfo": "skip", "marker": ring},
            "words": {"mode": "text", "hoverinfo": "skip", "cliponaxis": False},
        }.items()
    ]


def _painted(flow: Flow, hues: Hues | None, colours: Palette) -> list[str]:
    """One colour a mark: the hue of its index on the axis, paler for what lies first in memory."""
    rank = np.unique(flow.identity, return_inverse=True)[1]
    last = max(int(rank.max(initial=0)), 1)
    if hues is None:
        bases = np.zeros(len(rank), dtype=np.int64)
        ramp = [colours.tints["d_model"]]
    else:
        scene = flow.scenes[0 if hues.side == "in" else -1]
        bases = scene.index[:, hues.axis]
        ramp = [colours.head(i) for i in range(16)]
    share: NDArray[np.float64] = 0.38 + 0.62 * (rank / last * 19).round() / 19
    known: dict[tuple[int, float], str] = {}
    painted: list[str] = []
    for base, part in zip((bases % len(ramp)).tolist(), share.tolist(), strict=True):
        key = (base, part)
        if key not in known:
            known[key] = mix(colours.background, ramp[base], part)
        painted.append(known[key])
    return painted


def _ink(ground: str) -> str:
    """Black or white, whichever reads better on a colour (W3C relative luminance, roughly)."""
    r, g, b = (channel / 255 for channel in rgb(ground))
    return "#101114" if 0.2126 * r**2.2 + 0.7152 * g**2.2 + 0.0722 * b**2.2 > 0.2 else "#ffffff"


def _layout(st: Stage, colours: Palette, below: int) -> Json:
    hidden = {"visible": False, "fixedrange": True}
    return {
        "width": st.width,
        "height": st.height + below,
        "margin": {"l": 0, "r": 0, "t": 0, "b": below},
        "xaxis": {"range": [0, st.width * UNIT], **hidden},
        "yaxis": {"range": [st.height * UNIT, 0], **hidden},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "font": {"color": colours.text, "family": "'Source Sans', sans-serif"},
        "hoverlabel": {"font": {"family": MONO, "size": 13}},
    }
