"""Ranges of positions as people type them: both ends are meant."""

from __future__ import annotations

import re

from mha_core.errors import ConfigError

Span = tuple[int, int]

_TYPED = re.compile(r"\s*(-?\d[\d,_ ]*)\s*(?:(?:–|—|-|:|\.\.+|to)\s*(-?\d[\d,_ ]*))?\s*", re.A)
_LONGEST = 60  # letters of what was typed that an error repeats


def read_range(text: str, time: int, field: str) -> Span:
    """ "1,000–1,200" -> (1000, 1201): start, and stop, which is not included.

    A single position is a range of one; nothing typed is all of them.

    Args:
        text: two positions with "–", "-", ":", ".." or "to" between them.
        time: positions there are.
        field: what the range is of, "queries" or "keys".

    Raises:
        ConfigError: no range, or one that is reversed or out of bounds.
    """
    if not text.strip():
        return 0, time
    found = _TYPED.fullmatch(text)
    if found is None:
        raise ConfigError(
            field, text[:_LONGEST], "must be two positions, such as 0–99",
            works=f"These work: 0–{time - 1}, or nothing for all",
        )  # fmt: skip
    first = _number(found[1], time)
    last = first if found[2] is None else _number(found[2], time)
    if first > last:
        raise ConfigError(
            field, text[:_LONGEST], "is reversed: the first position comes first",
            works=f"Nearest that works: {last}–{first}",
        )  # fmt: skip
    if first < 0 or last >= time:
        start = min(max(0, first), time - 1)
        stop = min(max(start, last), time - 1)
        raise ConfigError(
            field, text[:_LONGEST], f"must lie within 0–{time - 1}",
            works=f"Nearest that works: {start}–{stop}",
        )  # fmt: skip
    return first, last + 1


def write_range(span: Span, time: int) -> str:
    """(1000, 1201) -> "1000–1200"; nothing for all of them."""
    if span == (0, time):
        return ""
    return str(span[0]) if span[1] - span[0] == 1 else f"{span[0]}–{span[1] - 1}"


def _number(digits: str, time: int) -> int:
    """Of however many digits: what is far out of bounds is out of bounds."""
    plain = re.sub(r"[,_ ]", "", digits)
    return int(plain) if len(plain) <= 12 else (-1 if plain.startswith("-") else 10 * time)
