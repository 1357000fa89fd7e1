"""A mask in each library's words, and between the forms: cards with code, values and a check."""

from __future__ import annotations

import html
from collections.abc import Sequence

import torch
from torch import Tensor

from mha_core.figures.text import number
from mha_core.mask_lab.check import Checked
from mha_core.mask_lab.words import Word

MOST = 8  # rows and columns of values shown
BLIND = {
    "0": "zeros", "NaN": "NaN", "even": "an even spread over every key, padding too",
    "other": "neither zeros nor even",
}  # fmt: skip


def cell_text(value: float | bool | int) -> str:
    """A mask's value, in the width of a cell."""
    if isinstance(value, bool):
        return "T" if value else "F"
    if isinstance(value, int):
        return str(value)
    if value == 0:
        return "0"
    return number(value, 2)


def corner_html(mask: Tensor) -> str:
    """The last two axes of a mask, of the first item where it has more: real values."""
    lead = max(0, mask.dim() - 2)
    corner = mask[(0,) * lead].detach().cpu()
    corner = corner[None] if corner.dim() == 1 else corner
    rows, columns = corner.shape
    if corner.is_floating_point():
        corner = corner.to(torch.float64)
    shown = corner[:MOST, :MOST].tolist()
    lowest = torch.finfo(mask.dtype).min if mask.is_floating_point() else None
    more = "<td>…</td>" if columns > MOST else ""
    body = "".join(
        f"<tr>{''.join(_value(value, lowest) for value in row)}{more}</tr>" for row in shown
    )
    if rows > MOST:
        body += "<tr><td>⋮</td></tr>"
    note = ""
    if lowest is not None and (corner == lowest).any():
        note = f'<div class="mk-why">min = {number(lowest, 7)}</div>'
    return f'<table class="mk-values">{body}</table>{note}'


def _value(value: float | bool | int, lowest: float | None) -> str:
    hidden = value != 0 if isinstance(value, float) else None
    kind = ' class="low"' if hidden or value is False or (value == 0 and hidden is None) else ""
    return f"<td{kind}>{'min' if value == lowest else cell_text(value)}</td>"


def argument_line(name: str, value: Tensor | bool) -> str:
    """ "attn_mask (6, 6) bool", escaped."""
    if isinstance(value, bool):
        return f"{html.escape(name)} = {value}"
    kind = str(value.dtype).removeprefix("torch.")
    return f"{html.escape(name)} <b>{tuple(value.shape)}</b> {kind}"


def words_html(words: Sequence[Word], checks: dict[str, Checked | None], *, blind: int) -> str:
    """Cards by library.

    Args:
        words: in order, grouped by library.
        checks: word id -> what its run gave; None while it is running. Without an entry it
            cannot run.
        blind: rows of the mask that see no key.
    """
    parts = []
    for library in dict.fromkeys(word.library for word in words):
        cards = "".join(
            _card(word, checks.get(word.id), blind) for word in words if word.library == library
        )
        parts.append(f'<h3 class="mk-library">{html.escape(library)}</h3>'
                     f'<div class="mk-cards">{cards}</div>')  # fmt: skip
    return "".join(parts)


def _card(word: Word, check: Checked | None, blind: int) -> str:
    mark, figure = _figure(word, check)
    kind = {"✓": "holds", "✗": "fails"}.get(mark, "")
    lines = "".join(
        f'<div class="mk-argument">{argument_line(name, value)}</div>'
        for name, value in word.given.items()
    )
    tables = "".join(
        f"<div>{corner_html(value)}</div>"
        for value in word.given.values()
        if isinstance(value, Tensor)
    )
    rows = ""
    if blind and check is not None and check.blind:
        rows = f'<div class="mk-why">A row that sees no key becomes {BLIND[check.blind]}.</div>'
    return (
        f'<div class="proof mk-card{"" if word.given else " unfit"}" data-word="{word.id}">'
        f'<span class="mark {kind}">{mark}</span><b>{html.escape(word.argument)}</b>'
        f'{lines}<div class="mk-corners">{tables}</div>'
        f'<pre>{html.escape(word.code)}</pre><div class="fig {kind}">{figure}</div>'
        f'{rows}<div class="mk-why">{html.escape(word.note)}</div></div>'
    )


def _figure(word: Word, check: Checked | None) -> tuple[str, str]:
    if not word.given:
        return "–", f"cannot say this mask: {html.escape(word.unfit)}"
    if check is None:
        return "…", "running"
    if check.error:
        return "✗", html.escape(check.error)
    if check.difference is None:
        return "–", "no row sees a key: nothing to compare"
    return "✓" if check.holds else "✗", f"differs from ours by {check.difference:.1e}"


def pair_html(before: Tensor, after: Tensor, code: str, names: tuple[str, str]) -> str:
    """One conversion: values before, the line of code, values after."""
    sides = [
        f'<div><div class="mk-argument">{argument_line(name, mask)}</div>{corner_html(mask)}</div>'
        for name, mask in zip(names, (before, after), strict=True)
    ]
    return (
        f'<div class="mk-pair">{sides[0]}<div class="mk-arrow"><pre>{html.escape(code)}</pre></div>'
        f"{sides[1]}</div>"
    )
