"""The words of a text tinted by weight, every one legible on its tint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mha_core.figures.text import label, number
from mha_core.one_line import Line
from mha_core.palette import Palette, ramp, rgb

MOST = 2000  # words shown
_LEVELS = 32  # tints


def words_html(line: Line, tokens: Sequence[str], *, colours: Palette, most: int = MOST) -> str:
    """The words around the line's own, each on the tint of its weight.

    The tint follows the root of the weight, so that small ones show beside a large one; masked
    words have none, and the line's own word is outlined.

    Args:
        tokens: one a position.
        most: words shown at most, with the line's own in the middle.
    """
    count = len(tokens)
    start = max(0, min(line.index - most // 2, count - most))
    stop = min(count, start + most)
    root = np.sqrt(np.nan_to_num(line.values) / (line.largest or 1.0))
    levels = (root * (_LEVELS - 1)).round().astype(int)
    words = []
    for place in range(start, stop):
        value = float(line.values[place])
        masked = np.isnan(value)
        kind = "gone" if masked else f"t{levels[place]}"
        kind += " own" if place == line.index else ""
        told = "masked" if masked else number(value, 4)
        words.append(
            f'<span class="{kind}" title="{line.others} {place:,}: {told}">'
            f"{label(tokens[place], width=40)}</span>"
        )
    before = f"<i>… {start:,} words before</i> " if start else ""
    after = f" <i>{count - stop:,} words after …</i>" if stop < count else ""
    scale = f"linear-gradient(to right,{','.join(colours.sequential)})"
    gone = " · hatched: masked" if line.seen < count else ""
    return (
        f'<div class="line-words"><style>{tints(colours)}</style>'
        f"<p>{before}{' '.join(words)}{after}</p>"
        f'<div class="patch-scale"><span>weight, as its root</span><span>0</span>'
        f'<i style="background:{scale}"></i><span>{number(line.largest, 2)}</span>'
        f"<span>outlined: the {line.direction}{gone}</span></div></div>"
    )


def tints(colours: Palette) -> str:
    """Ground and ink of every level, as a style sheet."""
    found = []
    for level, channels in enumerate(ramp(colours.sequential, _LEVELS)):
        ground = "#" + "".join(f"{int(channel):02x}" for channel in channels)
        found.append(f".line-words .t{level}{{background:{ground};color:{ink(ground)}}}")
    return "".join(found)


def ink(ground: str) -> str:
    """Black or white, whichever stands out more: at least 4.58 : 1 on any ground (WCAG 2.2)."""
    light = luminance(ground)
    return "#000000" if (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) else "#ffffff"


def luminance(colour: str) -> float:
    """Relative luminance of an sRGB colour, 0 to 1, as WCAG 2.2 defines it."""
    parts = [channel / 255 for channel in rgb(colour)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
