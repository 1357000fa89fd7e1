"""A mistake as a figure: the maps of both forwards, the difference, and the fix; PNG or SVG."""

from __future__ import annotations

import html
import io
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from mha_core.export import cells, fonts
from mha_core.export.figure import DPI, drawing
from mha_core.export.labels import clip
from mha_core.export.panels import Panel, tick_stride
from mha_core.figures.mistakes_list import changed
from mha_core.maps import Pooled, Scaled
from mha_core.mistakes.examine import Finding
from mha_core.mistakes.measures import MapsSeen
from mha_core.palette import Palette

_SIDE, _GAP, _LEFT, _TOP, _BELOW, _BAR = 2.3, 0.95, 0.85, 1.25, 0.85, 0.1  # inches
_LETTERS = 10  # of a token on an axis


def figure(
    finding: Finding,
    seen: MapsSeen | None,
    form: str,
    *,
    colours: Palette,
    tokens: Sequence[str] | None = None,
) -> bytes:
    """The figure as "png" or "svg".

    Args:
        finding: what ran.
        seen: its maps; None where one forward raised, and torch's words stand in their place.
        form: of the file.
        colours: of the ground.
        tokens: one a position; positions are labelled by number when None.
    """
    told = description(finding)
    page = io.BytesIO()
    with drawing(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        drawn = _draw(finding, seen, colours, tokens)
        dated = {"Software": None} if form == "png" else {"Date": None}
        drawn.savefig(
            page, format=form, metadata=dated | {"Title": finding.mistake.title,
            "Description": told}, facecolor=colours.background,
        )  # fmt: skip
    data = page.getvalue()
    if form == "svg":
        label = html.escape(told).encode()
        data = data.replace(b"<svg ", b'<svg role="img" aria-label="' + label + b'" ', 1)
    return data


def description(finding: Finding) -> str:
    """The figure in a sentence or two."""
    mistake = finding.mistake
    if finding.wrong.error:
        return f"{mistake.title}: torch raises {finding.wrong.error} The fix: {mistake.fix}"
    return (
        f"{mistake.title}: attention weights of the right and of the wrong code and their "
        f"difference, query from the top, key from the left. Largest change of the output "
        f"{changed(finding)}. The fix: {mistake.fix}"
    )


def _draw(
    finding: Finding, seen: MapsSeen | None, colours: Palette, tokens: Sequence[str] | None
) -> Figure:
    width = _LEFT + 3 * (_SIDE + _GAP)
    height = _TOP + (0.35 if seen is None else _SIDE + _BELOW)
    drawn = Figure((width, height), dpi=DPI, facecolor=colours.background)
    FigureCanvasAgg(drawn)
    mistake = finding.mistake

    def write(y: float, text: str, **style: Any) -> None:
        plain: dict[str, Any] = {"color": colours.text, "fontsize": 9.0}
        drawn.text(0.3 / width, 1 - y / height, text, va="top", **(plain | style))

    write(0.28, mistake.title, fontsize=12.0, weight="bold")
    write(0.56, f"fix: {mistake.fix}", family="monospace", fontsize=8.0)
    if seen is None:
        words = textwrap.fill(finding.wrong.error, 110)
        write(0.95, words, family="monospace", fontsize=8.0, color=colours.bad)
        return drawn
    head = "" if seen.head is None else f"head {seen.head}, "
    write(
        0.78, f"weights, {head}batch item {seen.item}; largest change of the output "
        f"{changed(finding)}", color=colours.muted,
    )  # fmt: skip
    panels = _panels(seen)
    write(height - 0.27, _notes(seen, panels), color=colours.muted, fontsize=7.0)
    for place, part in enumerate(panels):
        left, bottom = _LEFT + place * (_SIDE + _GAP), height - _TOP - _SIDE
        axes = drawn.add_axes((left / width, bottom / height, _SIDE / width, _SIDE / height))
        axes.set_title(part.title, fontsize=9, loc="left", color=colours.text, pad=4)
        cells.draw(axes, part, 0, colours)
        _ticks(axes, part.pooled.time, tokens, colours)
        axes.set_xlabel("key", fontsize=7.0, color=colours.muted, labelpad=2)
        axes.set_ylabel("query", fontsize=7.0, color=colours.muted, labelpad=2)
        bar = drawn.add_axes(
            ((left + _SIDE + 0.07) / width, bottom / height, _BAR / width, _SIDE / height)
        )
        cells.draw_bar(bar, part, colours, per_head=False)
        bar.tick_params(length=0, pad=2, labelsize=6.5, labelcolor=colours.muted,
                        left=False, labelleft=False, labelright=True)  # fmt: skip
    return drawn


def _notes(seen: MapsSeen, panels: Sequence[Panel]) -> str:
    """What hatching and the colour of faults mean, where there is any."""
    hatched = any(part.masked is not None and part.masked.any() for part in panels)
    notes = ["hatched: masked, not zero"] if hatched else []
    notes += ["red: not a number"] if any(faults.any() for faults in seen.faults()) else []
    return " · ".join(notes)


def _panels(seen: MapsSeen) -> list[Panel]:
    right, wrong = seen.scaled()
    right_nan, wrong_nan = seen.faults()
    shown: list[tuple[str, Scaled, NDArray[np.bool_]]] = [
        ("right", right, right_nan), ("wrong", wrong, wrong_nan),
    ]  # fmt: skip
    apart = seen.difference()
    if apart is not None:
        shown.append(("wrong − right", apart, right_nan | wrong_nan))
    return [
        Panel(
            title=title, heads=(seen.head or 0,), captions=("",), notes=(),
            pooled=Pooled(scaled.values, 1, "max", scaled.values.shape[-1]),
            exact=scaled.values, colours=scaled,
            masked=np.isnan(scaled.values) & ~faults,
        )
        for title, scaled, faults in shown
    ]  # fmt: skip


def _ticks(axes: Axes, time: int, tokens: Sequence[str] | None, colours: Palette) -> None:
    known = tokens if tokens is not None and len(tokens) == time else None
    places = list(range(0, time, tick_stride(time, 24 if known else 9, known is not None)))
    names = [clip(known[n], _LETTERS) if known else str(n) for n in places]
    family: dict[str, Any] = {"family": fonts.families()}
    axes.set_xticks(places, names, rotation=90 if known else 0, **family)
    axes.set_yticks(places, names, **family)
    axes.tick_params(length=0, pad=2, labelsize=6.5, labelcolor=colours.muted)
