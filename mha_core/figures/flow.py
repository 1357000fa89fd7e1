"""The animated flow: one Plotly figure, one frame a scene, elements gliding between them.

Coordinates are tenths of a pixel of the figure, so that cells keep their size whatever the data.
All that changes, words too, lives in traces: Plotly animates traces in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_core.config import MHAConfig
from mha_core.figures import flow_layout as layout
from mha_core.figures import flow_paint as paint
from mha_core.figures import flow_words as words
from mha_core.figures.flow_controls import HEIGHT, buttons, control_layout
from mha_core.figures.text import MONO
from mha_core.figures.typed import typed
from mha_core.flow import Scene
from mha_core.palette import Palette
from mha_core.steps import MAP
from mha_core.window import Element, Window


def flow_figure(scenes: Sequence[Scene], element: Element, win: Window, **how: Any) -> go.Figure:
    """The flow of one trace as a Plotly figure; arguments as `flow_spec`."""
    return go.Figure(flow_spec(scenes, element, win, **how))


def flow_spec(
    scenes: Sequence[Scene],
    element: Element,
    win: Window,
    *,
    config: MHAConfig,
    colours: Palette,
    start: str = "transpose_q",
    width: int = 1040,
    duration: int = 900,
    controls: bool = True,
) -> dict[str, Any]:
    """The flow of one trace: data, frames and layout as Plotly takes them.

    Unvalidated, since Plotly's validation costs ten times the building; tests validate it.

    Args:
        scenes: as `flow.scenes` gives them.
        element: the one followed.
        win: the indices drawn.
        config: what ran.
        colours: of the ground.
        start: step of the scene shown first.
        width: of the figure, in pixels.
        controls: Plotly's own buttons and rail; without them the figure is for a player of its own.
        duration: of one glide, in milliseconds; 0 jumps, for those who ask for less motion.

    Returns:
        A frame a scene, buttons to play, pause and step, and a rail to scrub.
    """
    st = layout.stage({s.step.id: s.cells.axes for s in scenes}, win, config.d_k, width)
    painter = paint.Painter(win, config.d_k, colours)
    ids = [scene.step.id for scene in scenes]
    active = ids.index(start) if start in ids else 0
    waiting = scenes[ids.index("weighted_values")]
    frames: list[dict[str, Any]] = []
    for n, scene in enumerate(scenes):
        previous = scenes[n - 1] if n else None
        is_map = scene.cells.axes == MAP
        data = [
            _elements(waiting if is_map else scene, scene, st, painter),
            paint.map_trace(scene, st, painter) if is_map else paint.EMPTY,
            paint.operands_trace(scene, st, painter),
            paint.path_trace(scene, previous, st),
            paint.followed_trace(scene, st),
            words.words_trace(scene, previous, st, element, win, colours, bias=config.bias),
        ]
        frame: dict[str, Any] = {"name": scene.step.id, "data": data, "traces": list(range(6))}
        if controls:  # the step buttons aim at the neighbours of the scene in view
            frame["layout"] = {"updatemenus": [{"buttons": buttons(ids, n, duration)}]}
        frames.append(frame)
    constant = _constant(scenes, st, painter, config)
    return {
        "data": [
            _merged(fixed, now) for fixed, now in zip(constant, frames[active]["data"], strict=True)
        ],
        "frames": frames,
        "layout": _layout(st, width, colours, HEIGHT if controls else 0)
        | (
            control_layout(ids, active, duration, colours, narrow=width < words.WIDE)
            if controls
            else {}
        ),
    }


def _elements(
    drawn: Scene, scene: Scene, st: layout.Stage, painter: paint.Painter
) -> dict[str, Any]:
    """The elements of a scene; through the maps they wait, unseen, where @ V will set them."""
    x, y = st.pixels(drawn.step.id, *st.grids[drawn.step.id].xy(drawn.cells))
    places = {"x": paint.tenths(x), "y": paint.tenths(y)}
    if drawn is not scene:
        return places | paint.UNSEEN
    return places | {
        "marker": {"color": typed(painter.elements(drawn)), "size": st.cell, "opacity": 1},
        "text": typed(drawn.cells.values),
        "hovertemplate": words.hover(scene),
        "hoverinfo": "all",
    }


def _constant(
    scenes: Sequence[Scene], st: layout.Stage, painter: paint.Painter, config: MHAConfig
) -> list[dict[str, Any]]:
    """What the traces keep through all scenes; frames carry only what changes."""
    b, t, c = scenes[0].cells.index.T
    identity = np.stack([b, t, c // config.d_k, c % config.d_k, c], axis=1)
    maps = next(scene for scene in scenes if scene.cells.axes == MAP)
    colours = painter.colours
    line = {"color": colours.text, "width": 1.5, "dash": "dot"}
    squares: dict[str, Any] = {"mode": "markers", "marker": painter.scale()}
    return [
        {"type": "scatter", "name": name, **fixed}
        for name, fixed in {
            "elements": {**squares, "customdata": paint.whole(identity)},
            "map": {
                **squares,
                "hovertemplate": paint.MAP_HOVER,
                "customdata": paint.whole(maps.cells.index),
            },
            "operands": {**squares, "hovertemplate": "%{text}<extra></extra>"},
            "path": {"mode": "lines", "hoverinfo": "skip", "line": line, "opacity": 0.75},
            "followed": {
                "mode": "markers",
                "hoverinfo": "skip",
                "marker": paint.outline(st, colours),
            },
            "words": {"mode": "text", "hoverinfo": "skip", "cliponaxis": False},
        }.items()
    ]


def _merged(fixed: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """One trace of the first view: what never changes, and its marker with what does."""
    marker = fixed.get("marker", {}) | now.get("marker", {})
    return fixed | now | ({"marker": marker} if marker else {})


def _layout(st: layout.Stage, width: int, colours: Palette, below: int) -> dict[str, Any]:
    hidden = {"visible": False, "fixedrange": True}
    return {
        "width": width,
        "height": st.height + below,
        "margin": {"l": 0, "r": 0, "t": 0, "b": below},
        "xaxis": {"range": [0, width * paint.UNIT], **hidden},
        "yaxis": {"range": [st.height * paint.UNIT, 0], **hidden},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False,
        "font": {"color": colours.text, "family": "'Source Sans', sans-serif"},
        "hoverlabel": {"font": {"family": MONO, "size": 13}},
    }
