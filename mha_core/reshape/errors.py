"""The one error of a reshape: it knows where in what was typed the fault lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mha_core.errors import ConfigError

_AROUND = 60  # characters shown on each side of the fault
FIELDS = {"pattern": "pattern", "chain": "steps", "shape": "shape of x", "axes": "sizes"}


class ReshapeError(ConfigError):
    """A pattern, a chain, a shape or sizes that cannot be reshaped.

    Attributes:
        field: which text is at fault: "pattern", "chain", "shape" or "axes".
        text: the whole of that text, as typed.
        start, end: the fault, as positions in the text; `start == end` where something is missing.
        rule, works, repairs: as in `ConfigError`; repairs name fields by the same four words.
    """

    def __init__(
        self,
        field: str,
        text: str,
        start: int,
        end: int,
        rule: str,
        *,
        works: str = "",
        repairs: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.text = text
        self.start = min(start, len(text))
        self.end = max(self.start, min(end, len(text)))
        super().__init__(field, text[self.start : self.end], rule, works=works, repairs=repairs)
        said = f"{FIELDS[field]}, character {self.start + 1}: {rule}."
        self.args = (f"{said} {works}." if works else said,)

    def parts(self) -> tuple[str, str, str]:
        """The text before the fault, the fault, and the text after; long ones cut, on one line.

        The fault is never empty: where something is missing it is the place itself, as "␣".
        """
        start, end = self.start, min(self.end, self.start + _AROUND)
        before, fault, after = self.text[:start], self.text[start:end], self.text[end:]
        if len(before) > _AROUND:
            before = "…" + before[-_AROUND:]
        if len(after) > _AROUND:
            after = after[:_AROUND] + "…"
        return _line(before), _line(fault) or "␣", _line(after)

    def pointed(self) -> str:
        """Two lines: what was typed, and carets under the fault."""
        before, fault, after = self.parts()
        return f"{before}{fault}{after}\n{' ' * len(before)}{'^' * len(fault)}"


def _line(text: str) -> str:
    """Without line breaks and other characters that have no width of their own."""
    return "".join(" " if c.isspace() else c if c.isprintable() else "�" for c in text)
