"""Play, pause, step and the rail of the flow, as Plotly's own controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mha_core.palette import Palette

# What the rail calls each scene.
SHORT = {
    "input": "x",
    "project_q": "project",
    "split_q": "view",
    "transpose_q": "transpose",
    "scores": "scores",
    "mask": "mask",
    "softmax": "softmax",
    "weighted_values": "@ V",
    "transpose_back": "transpose",
    "merge": "merge",
    "output": "W_o",
}

HEIGHT = 104  # pixels


def _animate(duration: int, *, hold: int = 0, **more: Any) -> dict[str, Any]:
    # redraw: the step buttons change their targets with the scene, which only a redraw shows.
    return {
        "mode": "immediate",
        "frame": {"duration": duration + hold, "redraw": True},
        "transition": {"duration": duration, "easing": "cubic-in-out"},
        **more,
    }


def buttons(ids: Sequence[str], at: int, duration: int) -> list[dict[str, Any]]:
    """Play, pause, one step back, one step on, seen from scene number `at`."""
    before, after = ids[max(at - 1, 0)], ids[min(at + 1, len(ids) - 1)]
    play = _animate(duration, hold=max(700, duration // 2), fromcurrent=True)
    stop = _animate(0)
    return [
        {"label": "▶ play", "method": "animate", "args": [None, play]},
        {"label": "❚❚ pause", "method": "animate", "args": [[None], stop]},
        {"label": "◀ step", "method": "animate", "args": [[before], _animate(duration)]},
        {"label": "step ▶", "method": "animate", "args": [[after], _animate(duration)]},
    ]


def control_layout(
    ids: Sequence[str],
    at: int,
    duration: int,
    colours: Palette,
    *,
    narrow: bool,
    labels: Mapping[str, str] = SHORT,
) -> dict[str, Any]:
    """`updatemenus` and `sliders` of the layout, below the scene; `labels` of the rail's stops."""
    return {
        "updatemenus": [
            {
                "type": "buttons",
                "direction": "right",
                "showactive": False,
                "buttons": buttons(ids, at, duration),
                "x": 0,
                "xanchor": "left",
                "y": 0,
                "yanchor": "top",
                "pad": {"t": 6, "l": 0, "r": 0, "b": 0},
                "bgcolor": colours.surface,
                "bordercolor": colours.line,
                "font": {"color": colours.text, "size": 13},
            }
        ],
        "sliders": [
            {
                "active": at,
                "x": 0,
                "len": 1,
                "y": 0,
                "yanchor": "top",
                "pad": {"t": 46, "l": 8, "r": 8, "b": 0},
                "currentvalue": {"visible": False},
                "bgcolor": colours.line,
                "activebgcolor": colours.text,
                "bordercolor": colours.line,
                "tickcolor": colours.muted,
                "font": {"color": colours.text, "size": 10 if narrow else 13},
                "steps": [
                    {
                        "label": "" if narrow and n % 2 and n != at else labels[step],
                        "method": "animate",
                        "args": [[step], _animate(duration)],
                    }
                    for n, step in enumerate(ids)
                ],
            }
        ],
    }
