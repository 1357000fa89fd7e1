"""Words in figures and tables: tinted axis names, escaped tokens, numbers."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

from mha_core.palette import Palette

MONO = "'Source Code Pro', 'DejaVu Sans Mono', Menlo, Consolas, monospace"

# What has no ink of its own is shown by a sign, so that no label is empty.
_SIGNS = {"": "∅", " ": "␣", "\n": "⏎", "\t": "⇥", "\x00": "␀"}


def tinted(shape: Sequence[str], colours: Palette) -> str:
    """("batch", "h") -> "(batch, h)" in HTML, each axis name in its tint."""
    names = (f'<span style="color:{colours.tints[name]}">{name}</span>' for name in shape)
    return f"({', '.join(names)})"


def tinted_sizes(shape: Sequence[int], names: Sequence[str], colours: Palette) -> str:
    """(2, 4) -> "(2, 4)" in HTML, each size in the tint of its axis."""
    sizes = (
        f'<span style="color:{colours.tints[name]}">{size}</span>'
        for size, name in zip(shape, names, strict=True)
    )
    return f"({', '.join(sizes)})"


def label(token: str, *, width: int = 12) -> str:
    """A token as it can be read on an axis: as typed, escaped, long ones cut in the middle."""
    shown = _SIGNS.get(token, token)
    if shown.isspace():
        shown = "␣" * len(shown)
    if len(shown) > width:
        shown = f"{shown[: width - 4]}…{shown[-3:]}"
    return html.escape(shown, quote=False)


def labels(tokens: Sequence[str] | None, time: int) -> list[str]:
    """One label a position: the tokens, or the positions themselves."""
    if tokens is None:
        return [str(i) for i in range(time)]
    return [label(token) for token in tokens]


def number(value: float, digits: int = 4) -> str:
    """A value as a person reads it; infinities and NaN by name."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    return f"{value:.{digits}g}".replace("-", "−")


def breakable(operation: str) -> str:
    """An operation as HTML that may be broken where a reader would, where its row is narrow."""
    text = re.sub(r"\((?!\))", "(<wbr>", html.escape(operation))
    whole = re.sub(r"\d+(?:, \d+)+", r'<span class="nb">\g<0></span>', text)
    return whole.replace(".", "<wbr>.")


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
