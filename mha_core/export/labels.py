"""Token labels that can be read, drawn and opened anywhere.

Labels are positions with text: repeated, number-like and markup-like tokens show as typed. What
has no ink of its own (a space, a line feed, nothing at all) shows as a symbol, so that no label
is empty. Files that keep tokens as data (NPZ, safetensors, JSON) keep them as they came.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

EMPTY = "∅"
_SYMBOLS = {"\n": "↵", "\t": "⇥", "\r": "␍"}
# Joiners shape emoji and several scripts; other format characters reorder or hide text.
_JOINERS = "\u200c\u200d"
# A spreadsheet reads a cell that starts with one of these as a formula, full-width ones too.
_FORMULA = frozenset("=+-@\t\r＝＋－＠")


def labels(tokens: Sequence[str]) -> list[str]:
    """One visible label a token; pieces of a byte-level tokenizer as the text they stand for."""
    pieces = _byte_pieces(tokens)
    return [_visible(token) for token in (tokens if pieces is None else pieces)]


def clip(label: str, width: int) -> str:
    """At most `width` characters, the last an ellipsis where some are left out."""
    return label if len(label) <= width else f"{label[: width - 1]}…"


def neutral(token: str, label: str) -> str:
    """The label with an apostrophe before it where a spreadsheet would run it as a formula."""
    bare = token.lstrip(" \n")
    harmful = token[:1] in _FORMULA or bare[:1] in _FORMULA or label[:1] in _FORMULA
    return f"'{label}" if token and harmful else label


def _visible(token: str) -> str:
    if not token:
        return EMPTY
    # Within a label a space shows by its neighbours; at an end, or alone, it does not.
    start = len(token) - len(token.lstrip())
    end = max(start, len(token.rstrip()))
    return "".join(
        "␣" if unicodedata.category(letter) == "Zs" and not start <= place < end else _ink(letter)
        for place, letter in enumerate(token)
    )


def _ink(letter: str) -> str:
    """The letter, or what stands for one that has no ink or reorders what follows."""
    if letter in _SYMBOLS:
        return _SYMBOLS[letter]
    code = ord(letter)
    hidden = unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    nothing = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return f"\\u{code:04x}" if (hidden and letter not in _JOINERS) or nothing else letter


def _byte_alphabet() -> dict[str, int]:
    """The letter that byte-level BPE (Radford et al. 2019) writes for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + place): byte for place, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


_BYTES = _byte_alphabet()


def _byte_pieces(tokens: Sequence[str]) -> list[str] | None:
    """The tokens decoded, if together they are byte-level BPE; None for any other text.

    They are if a marker (Ġ for a space, Ċ for a line feed) leads a token, every letter stands
    for a byte, and all the bytes together are UTF-8 without control characters. A typed word
    with such a letter fails one of these, but for a capital Ġ among nothing but ASCII.
    """
    if not any(token[:1] in ("Ġ", "Ċ") for token in tokens):
        return None
    coded = [token for token in tokens if token.strip()]
    if any(letter not in _BYTES for token in coded for letter in token):
        return None
    raw = [bytes(_BYTES[letter] for letter in token) for token in coded]
    try:
        text = b"".join(raw).decode()
    except UnicodeDecodeError:
        return None
    if any(unicodedata.category(letter) == "Cc" and letter not in "\n\r\t" for letter in text):
        return None
    decoded = iter(raw)
    # A letter of several bytes can be cut between two tokens: its halves show as \xc3 and \xa9.
    return [
        next(decoded).decode(errors="backslashreplace") if token.strip() else token
        for token in tokens
    ]
