"""Tq other than Tk: the two alignments side by side, and the calls of a decoder with a cache."""

from __future__ import annotations

import html
from collections.abc import Sequence

from mha_core.errors import human_bytes
from mha_core.figures.mask_grid import Grid, grid_html
from mha_core.figures.text import number
from mha_core.mask_lab.align import Aligned, CacheStep
from mha_core.palette import Palette

TITLES = {
    "upper_left": ("upper-left", "query 0 is pinned to key 0: torch's is_causal"),
    "lower_right": ("lower-right", "the last query is pinned to the last key: a cache"),
}
COLUMNS = (
    "call", "positions", "x", "q", "keys in cache", "scores", "mask", "output", "cache",
    "difference", "if is_causal",
)  # fmt: skip


def aligned_html(both: Sequence[Aligned]) -> str:
    """Each alignment with the weights that torch gave where every score is 0."""
    return f'<div class="mk-two">{"".join(_aligned(one) for one in both)}</div>'


def _aligned(one: Aligned) -> str:
    keep = one.keep.numpy()
    rows, columns = (list(map(str, range(n))) for n in keep.shape)
    title, meaning = TITLES[one.align]
    grid = grid_html(Grid(keep, rows, columns), alt=f"causal, {title}")
    weights = "".join(
        "<tr>" + "".join(f"<td>{_weight(float(value))}</td>" for value in row) + "</tr>"
        for row in one.weights
    )
    blind = ""
    if one.blind:
        which = ", ".join(map(str, one.blind))
        noun = "query sees" if len(one.blind) == 1 else "queries see"
        blind = f'<div class="mk-trap">{len(one.blind)} {noun} no key: {which}</div>'
    return (
        f'<div class="mk-aligned"><b>{title}</b><span class="mk-why">{meaning}</span>{grid}{blind}'
        f'<div class="mk-why">weights from torch, every score 0</div>'
        f'<div class="mk-scroll"><table class="mk-values">{weights}</table></div>'
        f"<pre>{html.escape(one.code)}</pre></div>"
    )


def _weight(value: float) -> str:
    return "0" if value == 0 else f"{value:.3g}".removeprefix("0")


def cache_rows(steps: Sequence[CacheStep]) -> list[tuple[object, ...]]:
    """The calls as rows under `COLUMNS`, numbers as they are."""
    return [
        (
            call, f"{step.start}-{step.stop - 1}", step.x, step.q, step.k, step.scores, step.mask,
            step.output, step.cache_bytes, step.difference, step.upper_left,
        )
        for call, step in enumerate(steps)
    ]  # fmt: skip


def cache_html(steps: Sequence[CacheStep]) -> str:
    """One row a call."""
    numbers = ("positions", "cache", "difference", "if is_causal")
    head = "".join(
        f'<th class="num">{title}</th>' if title in numbers else f"<th>{title}</th>"
        for title in COLUMNS
    )
    body = "".join(_call(call, step) for call, step in enumerate(steps))
    return (
        f'<div class="mk-scroll tall"><table class="mk-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _call(call: int, step: CacheStep) -> str:
    new = f"{step.start}" if step.stop - step.start == 1 else f"{step.start}–{step.stop - 1}"
    mask = "none needed" if step.mask is None else f"{step.mask}"
    shapes = "".join(
        f'<td class="mono">{shape}</td>' for shape in (step.x, step.q, step.k, step.scores)
    )
    wrong = "bad" if step.upper_left > max(1e-3, 10 * step.difference) else ""
    name = "prompt" if call == 0 else str(call)
    return (
        f'<tr><td>{name}</td><td class="num">{new}</td>{shapes}<td class="mono">{mask}</td>'
        f'<td class="mono">{step.output}</td><td class="num">{human_bytes(step.cache_bytes)}</td>'
        f'<td class="num">{number(step.difference, 2)}</td>'
        f'<td class="num {wrong}">{number(step.upper_left, 2)}</td></tr>'
    )


def cache_svg(steps: Sequence[CacheStep], colours: Palette) -> str:
    """What each call computes: its rows, the keys from the cache pale, the new ones full."""
    time = steps[-1].stop
    side = max(3.0, min(24.0, 420 / time))
    left, top = 34.0, 26.0
    width, height = left + side * time + 8, top + side * time + 8
    shapes = []
    for call, step in enumerate(steps):
        fill = colours.head(call)
        for query in range(step.start, step.stop):
            y = top + side * query
            old = min(step.start, query + 1)
            shapes.append(_box(left, y, side * old, side, fill, 0.35))
            shapes.append(
                _box(left + side * step.start, y, side * (query + 1 - step.start), side, fill, 1)
            )
    every = max(1, -(-time // 12))
    small = f'font-size="11" fill="{colours.muted}"'
    labels = "".join(
        f'<text x="{left - 5}" y="{top + side * (n + 0.5) + 4:.1f}" text-anchor="end" {small}>{n}'
        f'</text><text x="{left + side * (n + 0.5):.1f}" y="{top - 6}" text-anchor="middle" '
        f"{small}>{n}</text>"
        for n in range(0, time, every)
    )
    title = "Scores each call computes: pale columns are keys from the cache"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" font-family="sans-serif">'
        f"<title>{title}</title>{''.join(shapes)}{labels}</svg>"
    )


def _box(x: float, y: float, width: float, height: float, fill: str, opacity: float) -> str:
    if width <= 0:
        return ""
    gap = 0.5 if height > 6 else 0.0
    return (
        f'<rect x="{x:.2f}" y="{y + gap:.2f}" width="{width:.2f}" height="{height - 2 * gap:.2f}" '
        f'fill="{fill}" fill-opacity="{opacity}"/>'
    )
