"""Names and sizes of axes in words: each elementary axis in one tint, wherever it stands."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from itertools import cycle

from mha_core.palette import Palette
from mha_core.reshape.run import Run

# What people call the axes of attention: these keep the tints that they have on the other pages.
_KNOWN = {
    "batch": ("b", "batch", "B", "n"),
    "time": ("t", "time", "T", "s", "seq", "l", "n_ctx", "w"),
    "h": ("h", "heads", "head", "nh", "n_head", "g"),
    "d_k": ("d", "d_k", "dk", "hs", "head_dim", "q"),
    "d_model": ("c", "C", "d_model", "dim", "channels", "qkv"),
}
_WORD = re.compile(r"[^\W\d]\w*|…\d+")


class Names:
    """The tints of a run's axes, on one ground."""

    def __init__(self, run: Run, colours: Palette) -> None:
        self._colours = colours
        words = dict.fromkeys(
            word for step in run.steps for name in step.names for word in _WORD.findall(name)
        )
        tints = dict(colours.tints)
        self._of: dict[str, str] = {}
        for word in words:
            kind = next((kind for kind, known in _KNOWN.items() if word in known), None)
            if kind is not None and kind in tints:
                self._of[word] = tints.pop(kind)
        others = (9, 14, 12, 8, 10, 11, 13, 15)  # of the heads' colours, those that read as text
        spare = cycle([*tints.values(), *(colours.heads[n] for n in others)])
        for word in words:
            if word not in self._of:
                self._of[word] = next(spare)

    def name(self, name: str, axis: int) -> str:
        """One axis in HTML: its name in its tints, or "axis 2" where it has none."""
        if not name:
            return f"axis {axis}"
        return _WORD.sub(self._tinted, html.escape(name, quote=False))

    def _tinted(self, match: re.Match[str]) -> str:
        tint = self._of.get(match[0])
        return f'<span style="color:{tint}">{match[0]}</span>' if tint else match[0]

    def tint(self, name: str) -> str:
        """The tint of an axis that is one word; the text colour for any other."""
        return self._of.get(name, self._colours.text)

    def shape(self, names: Sequence[str]) -> str:
        """(b, t, (h d)) in HTML; "" where an axis has no name."""
        if not all(names):
            return ""
        return f"({', '.join(self.name(name, n) for n, name in enumerate(names))})"

    def sizes(self, shape: Sequence[int], names: Sequence[str]) -> str:
        """(2, 6, 32) in HTML, each size in the tint of its axis where that is one word."""
        listed = [
            f'<span style="color:{self._of[name]}">{size}</span>' if name in self._of else str(size)
            for size, name in zip(shape, names, strict=True)
        ]
        return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"
