"""Every step's memory as an HTML table: layout, who owns it, what was copied, where the element is.

q, k and v share a row; letters in it choose between them.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from mha_core.errors import human_bytes
from mha_core.figures.table_html import chip
from mha_core.figures.text import breakable, tinted, tinted_sizes
from mha_core.memory import Stop
from mha_core.palette import Palette
from mha_core.records import Step

_TITLES = (
    ("", "no"), ("operation", ""), ("tensor", ""), ("strides", ""), ("contiguous", ""),
    ("memory", ""), ("copied", "num"), ("element", ""), ("lies at", "num"), ("", "was"),
)  # fmt: skip


def memory_table(stops: Sequence[Stop], *, picked: str, colours: Palette) -> str:
    """A `<table>`; rows and letters carry `data-pick="step id"` and can be focused."""
    letter = picked[-1] if _lettered(picked) else "q"
    rows = [stop for stop in stops if not _lettered(stop.step.id) or stop.step.id[-1] == letter]
    head = "".join(
        f'<th scope="col"{f" class={kind}" if kind else ""}>'
        f"{title or '<span class=sr>step</span>'}</th>"
        for title, kind in _TITLES
    )
    body = "".join(_row(stop, stop.step.id == picked, colours) for stop in rows)
    return (
        f'<div class="mem-table"><table class="mem"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def summary(steps: Sequence[Step]) -> str:
    """How many steps move no byte, and which copy how much; counted."""
    still = sum(step.view_of is not None for step in steps)
    copies = [
        f"{step.spec.operation.split('.view')[0]} {human_bytes(step.copied)}"
        for step in steps
        if step.copied
    ]
    said = f"{still} of {len(steps)} steps, q, k and v counted apart, move no byte"
    return f"{said}; copied: {', '.join(copies)}" if copies else f"{said}; none copies"


def _lettered(step: str) -> bool:
    return step[-2:] in ("_q", "_k", "_v")


def _row(stop: Stop, picked: bool, colours: Palette) -> str:
    step, place = stop.step, stop.place
    axes = step.spec.output
    where = tinted_sizes(place.index, axes, colours).replace("(", "[").replace(")", "]")
    was = "where it was" if stop.unmoved else ""
    copied = human_bytes(step.copied) if step.copied else "<i>0</i>"
    cells = [
        f'<td class="no">{step.number}</td>',
        f'<th scope="row" class="op" data-no="{step.number}">'
        f"<span>{breakable(step.spec.operation)}</span>{_letters(step.id)}</th>",
        f'<td class="mono" title="{html.escape(", ".join(axes))}">'
        f'<span class="names">{tinted(axes, colours)}</span> '
        f"{tinted_sizes(step.shape, axes, colours)}</td>",
        f'<td class="mono">{_numbers(step.strides)}'
        + (f" + {step.offset:,}" if step.offset else "")
        + "</td>",
        f"<td>{'yes' if step.contiguous else '<b>no</b>'}</td>",
        f"<td>{chip(step)}</td>",
        f'<td class="num">{copied}</td>',
        f'<td class="mono">{where}</td>',
        f'<td class="num">{place.offset:,}</td>',
        f'<td class="was">{was}</td>',
    ]
    chosen = "true" if picked else "false"
    return f'<tr data-pick="{step.id}" tabindex="0" aria-selected="{chosen}">{"".join(cells)}</tr>'


def _letters(step: str) -> str:
    """The three tensors that the row stands for; the one shown is marked."""
    if not _lettered(step):
        return ""
    parts = []
    for letter in "qkv":
        now = ' aria-current="true"' if step.endswith(letter) else ""
        parts.append(f'<i data-pick="{step[:-1]}{letter}" tabindex="-1"{now}>{letter}</i>')
    return f'<span class="letters">{"".join(parts)}</span>'


def _numbers(values: Sequence[int]) -> str:
    return f"({', '.join(str(value) for value in values)})"
