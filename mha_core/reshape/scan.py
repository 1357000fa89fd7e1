"""Tokens of a chain, a shape or sizes, each with its place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.limits import MAX_DIGITS, MAX_TEXT

_TOKEN = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<int>[0-9]+)|(?P<sign>//|[.,()\[\]=*-])")


@dataclass(frozen=True)
class Token:
    """One token.

    Attributes:
        kind: "name", "int", "sign" or "end".
        text: as typed; "" at the end.
        start, end: its place.
    """

    kind: str
    text: str
    start: int
    end: int


def check_length(field: str, text: str) -> None:
    """Refuses a text longer than any reshape needs."""
    most = MAX_TEXT[field]
    if len(text) > most:
        raise ReshapeError(
            field, text, most, most + 1,
            f"{len(text):,} characters are more than the {most} that are read",
            works=f"Nearest that works: the first {most}, if they are whole",
        )  # fmt: skip


def scan(field: str, text: str) -> list[Token]:
    """The tokens of a text, an end token last.

    Raises:
        ReshapeError: a character that means nothing here, or a number with too many digits.
    """
    check_length(field, text)
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        match = _TOKEN.match(text, at)
        if match is None:
            raise ReshapeError(
                field, text, at, at + 1, f"{_shown(text[at])} has no meaning here",
                works=_ALLOWED[field],
            )  # fmt: skip
        kind = str(match.lastgroup)
        if kind == "int" and len(match.group()) > MAX_DIGITS:
            raise ReshapeError(
                field, text, at, match.end(), f"a number of {len(match.group())} digits",
                works=f"Numbers have at most {MAX_DIGITS}",
            )  # fmt: skip
        found.append(Token(kind, match.group(), at, match.end()))
        at = match.end()
    found.append(Token("end", "", len(text), len(text)))
    return found


_ALLOWED = {
    "chain": "Steps are written as view(2, 6, 4, 8).transpose(1, 2)",
    "shape": "A shape is written as 2, 6, 32",
    "axes": "Sizes are written as h=4, d=8",
}


def _shown(character: str) -> str:
    """A character as a person can read it: itself, or its number where it has no ink."""
    return f"“{character}”" if character.isprintable() else f"U+{ord(character):04X}"
