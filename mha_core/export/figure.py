"""The panels as a matplotlib figure: no browser needed, and no pyplot, which threads share.

Everything is placed in inches from the top left, so that a cell is square whatever stands
around it, and the same trace gives the same bytes.
"""

from __future__ import annotations

import math
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure

from mha_core.config import MHAConfig
from mha_core.export import cells, fonts
from mha_core.export.labels import clip
from mha_core.export.panels import (
    Panel,
    alt_text,
    config_words,
    ground,
    panel,
    tick_stride,
)
from mha_core.export.selection import Job
from mha_core.palette import Palette

DPI = 200
LARGEST_SIDE = 256

_SIDES = {1: 4.4, 2: 3.1, 3: 2.5, 4: 2.2, 8: 1.45}  # of a map, by maps in a row
_HEADER, _TITLE, _CAPTION, _GAP, _BAR, _NOTE, _MARGIN = 0.95, 0.34, 0.24, 0.2, 1.15, 0.22, 0.3
_LABEL_LETTERS = 14
_SMALL, _BODY, _HEAD = 6.5, 8.0, 9.0
_LETTER = 0.0669  # inches of a monospaced letter of the body's size

# matplotlib takes these from its global settings alone, so one figure is drawn at a time.
_LOCK = threading.Lock()
_SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text, to be searched and edited
    "svg.hashsalt": "mha_core",  # ids that do not change from run to run
    "pdf.fonttype": 42,  # TrueType: what editors and journals take
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
}


@contextmanager
def drawing() -> Iterator[None]:
    """One thread at a time, with the settings that make text text and bytes repeatable."""
    # From matplotlib's own defaults, not from what a user's matplotlibrc or another page set.
    with _LOCK, style.context(["default", _SETTINGS]):
        yield


@dataclass(frozen=True)
class _Layout:
    """Sizes in inches that all panels of a figure share; `room` is of tick labels along a map."""

    columns: int
    rows: int
    side: float
    left: float
    below: float
    turned: bool
    room: int

    @property
    def width(self) -> float:
        maps = self.columns * self.side + (self.columns - 1) * _GAP
        return max(6.6, self.left + maps + _BAR + _MARGIN)

    @property
    def panel_height(self) -> float:
        gaps = (self.rows - 1) * _GAP
        maps = self.rows * (_CAPTION + self.side) + gaps
        return _TITLE + maps + self.below + _NOTE + _MARGIN


def panels(job: Job) -> Iterator[Panel]:
    """Every panel in turn, reporting progress."""
    wanted = [(name, step, item) for name, step in job.maps.items() for item in job.items]
    for place, (name, step, item) in enumerate(wanted):
        job.report(place / (len(wanted) + 1), f"{name}, batch item {item}")
        yield panel(job, name, step, item, limit=LARGEST_SIDE)


def draw(job: Job, shown: list[Panel], *, embedded: bool) -> Figure:
    """The panels one below the other, under the configuration.

    Args:
        embedded: whether the file carries its glyphs (PNG, PDF) or asks the reader's fonts (SVG).
    """
    pooled = job.config.time > LARGEST_SIDE  # a pooled row has many tokens
    labels = None if job.labels is None or pooled else shown_labels(job.labels, embedded=embedded)
    return compose(shown, job.config, "Multi-head attention", labels, ground(job))


def compose(
    shown: list[Panel], config: MHAConfig, title: str, labels: list[str] | None, colours: Palette
) -> Figure:
    """Panels of the same heads one below the other; `labels` are as `shown_labels` gives them."""
    layout = _layout(len(shown[0].heads), shown[0].pooled.time, labels)
    height = _HEADER + len(shown) * layout.panel_height
    figure = Figure(figsize=(layout.width, height), dpi=DPI, facecolor=colours.background)
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    page = _Page(figure, colours, layout, labels, renderer)
    page.header(title, config)
    for place, part in enumerate(shown):
        page.panel(part, _HEADER + place * layout.panel_height)
    return figure


def shown_labels(labels: Sequence[str], *, embedded: bool) -> list[str]:
    """Cut to what an axis takes and, where the file carries its glyphs, to what a font here has."""
    shown = [clip(label, _LABEL_LETTERS) for label in labels]
    return [fonts.drawable(label) for label in shown] if embedded else shown


def _layout(count: int, time: int, labels: list[str] | None) -> _Layout:
    across = min(count, 4) if count <= 16 else 8
    names = labels or [f"{time - 1:,}"]
    widest = max(map(_width, names))
    room = max(1, int(_SIDES[across] / (0.105 if labels else max(0.25, widest + 0.08))))
    stride = tick_stride(time, room, bool(labels))
    turned = bool(labels) and widest + 0.06 > _SIDES[across] / time * stride
    return _Layout(
        columns=across,
        rows=math.ceil(count / across),
        side=_SIDES[across],
        left=_MARGIN + 0.25 + widest,
        below=0.25 + (widest if turned else 0.12),
        turned=turned,
        room=room,
    )


def _width(label: str) -> float:
    """Inches of a tick label."""
    figure = Figure(dpi=72)
    text = figure.text(0, 0, label, fontsize=_SMALL, family=fonts.families())
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    return float(text.get_window_extent(renderer).width) / 72


@dataclass(frozen=True)
class _Page:
    figure: Figure
    colours: Palette
    layout: _Layout
    labels: list[str] | None
    renderer: RendererAgg

    def text(self, x: float, y: float, text: str, **style: Any) -> float:
        """Text at inches from the top left; returns where it ends."""
        width, height = self.figure.get_size_inches()
        plain: dict[str, Any] = {
            "color": self.colours.text,
            "fontsize": _BODY,
            "va": "baseline",
            "family": fonts.families(),
        }
        drawn = self.figure.text(x / width, 1 - y / height, text, **(plain | style))
        return float(drawn.get_window_extent(self.renderer).x1) / self.figure.dpi

    def axes(self, x: float, y: float, across: float, down: float) -> Axes:
        """Axes whose top left is at inches from the top left."""
        width, height = self.figure.get_size_inches()
        return self.figure.add_axes(
            (x / width, 1 - (y + down) / height, across / width, down / height)
        )

    def header(self, title: str, config: MHAConfig) -> None:
        room = (self.layout.width - 2 * _MARGIN) / (13 / _SMALL * 1.15 * _width(title))  # bold
        self.text(_MARGIN, 0.42, title, fontsize=13 * min(1, room), weight="bold")
        x, y = _MARGIN, 0.66
        for place, (word, tint) in enumerate(config_words(config)):
            if place and x + 0.2 + len(word) * _LETTER > self.layout.width - _MARGIN:
                x, y = _MARGIN, y + 0.17
            elif place:
                x = self.text(x + 0.06, y, "·", color=self.colours.muted) + 0.06
            colour = self.colours.muted if tint is None else self.colours.tints[tint]
            x = self.text(x, y, word, color=colour, family="monospace")

    def panel(self, part: Panel, top: float) -> None:
        layout = self.layout
        self.text(_MARGIN, top + 0.14, part.title, fontsize=10, weight="bold")
        first = top + _TITLE
        for place in range(len(part.heads)):
            row, column = divmod(place, layout.columns)
            x = layout.left + column * (layout.side + _GAP)
            y = first + row * (_CAPTION + layout.side + _GAP)
            lowest = place + layout.columns >= len(part.heads)
            self.head(part, place, x, y, left=column == 0, lowest=lowest)
        bar = layout.left + min(layout.columns, len(part.heads)) * (layout.side + _GAP) + 0.05
        self.bar(part, bar, first)
        bottom = top + layout.panel_height - _MARGIN - 0.06
        notes = list(part.notes)
        if fonts.MISSING in "".join(self.labels or []):
            notes.append(f"{fonts.MISSING}: a letter that no font here has")
        for place, line in enumerate(self.lines(notes)):
            style: dict[str, Any] = {"fontsize": _SMALL + 0.5, "color": self.colours.muted}
            self.text(layout.left, bottom + 0.14 * place, line, **style)

    def lines(self, notes: Sequence[str]) -> list[str]:
        """The notes, as many to a line as the page has room for."""
        room = (self.layout.width - self.layout.left - _MARGIN) * _SMALL / (_SMALL + 0.5)
        lines: list[str] = []
        for note in notes:
            if lines and _width(f"{lines[-1]} · {note}") <= room:
                lines[-1] += f" · {note}"
            else:
                lines.append(note)
        return lines

    def head(
        self, part: Panel, place: int, x: float, y: float, *, left: bool, lowest: bool
    ) -> None:
        layout, colours = self.layout, self.colours
        index = part.heads[place]
        # After 16 heads the colours repeat, and the mark is hollow.
        mark = "■" if index // len(colours.heads) % 2 == 0 else "□"
        size = _HEAD if layout.columns <= 4 else _SMALL + 0.5
        line = y + _CAPTION - 0.08
        end = self.text(x, line, mark, color=colours.head(index), fontsize=size)
        self.text(end + 0.05, line, f"head {index}", fontsize=size, weight="bold")
        self.text(
            x + layout.side, line, part.captions[place],
            ha="right", fontsize=min(size, _BODY) - 0.5, color=colours.muted,
        )  # fmt: skip
        axes = self.axes(x, y + _CAPTION, layout.side, layout.side)
        cells.draw(axes, part, place, colours)
        self.ticks(axes, part.pooled.time, left=left, lowest=lowest)

    def ticks(self, axes: Axes, time: int, *, left: bool, lowest: bool) -> None:
        """Labels at the left and the lowest maps only: they are the same for all."""
        stride = tick_stride(time, self.layout.room, bool(self.labels))
        places = list(range(0, time, stride))
        names = [self.labels[place] if self.labels else f"{place:,}" for place in places]
        named: dict[str, Any] = {"family": fonts.families()}
        axes.tick_params(length=0, pad=3, labelsize=_SMALL, labelcolor=self.colours.muted)
        axes.set_yticks(places, names if left else [""] * len(places), **named)
        turned: dict[str, Any] = {"rotation": 90} if self.layout.turned else {}
        axes.set_xticks(places, names if lowest else [""] * len(places), **named, **turned)
        said: dict[str, Any] = {"fontsize": _SMALL + 0.5, "color": self.colours.muted}
        if left:
            axes.text(
                -(self.layout.left - _MARGIN - 0.05) / self.layout.side, 0.5, "query",
                rotation=90, ha="center", va="center", transform=axes.transAxes, **said,
            )  # fmt: skip
        if lowest:
            axes.text(
                0.5, -self.layout.below / self.layout.side, "key",
                ha="center", va="bottom", transform=axes.transAxes, **said,
            )  # fmt: skip

    def bar(self, part: Panel, x: float, y: float) -> None:
        lines = textwrap.wrap(part.colours.title, 17)
        for place, line in enumerate(lines):
            self.text(x, y + 0.16 + 0.13 * place, line, fontsize=_SMALL + 0.5)
        down = 0.16 * (len(lines) - 1)  # below its title
        axes = self.axes(x, y + _CAPTION + down, 0.13, min(self.layout.side, 2.6) - down)
        cells.draw_bar(axes, part, self.colours, per_head=bool(np.ptp(part.colours.high)))
        axes.tick_params(
            length=0, pad=3, labelsize=_SMALL, labelcolor=self.colours.muted,
            left=False, labelleft=False, labelright=True,
        )  # fmt: skip


def description(job: Job) -> dict[str, str]:
    return {"Title": "Multi-head attention maps", "Description": alt_text(job)}
