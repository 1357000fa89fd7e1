"""The tokens that go with given weights, read as typed and counted against the map's axes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from mha_core.errors import ConfigError, human_bytes

_LIMIT = 8 * 2**20  # bytes: a hundred times the tokens of the largest map that can be drawn


def read_tokens(data: bytes | str) -> list[str]:
    """Tokens of a file or of a text box, each kept as typed.

    A JSON list of strings; else one token a line where there are several lines (an empty line
    is an empty token, the end of the last line is none); else what white space separates.

    Raises:
        ConfigError: not UTF-8, too large, broken JSON, something in the list that is not a
            string, half a character, or no token.
    """
    text = _text(data)
    tokens = _from_json(text)
    if tokens is None:
        tokens = _lines(text) if "\n" in text.rstrip("\r\n") else text.split()
    if not tokens:
        raise ConfigError("tokens", text[:20], "must have at least one token")
    for place, token in enumerate(tokens):
        if any("\ud800" <= letter <= "\udfff" for letter in token):
            raise ConfigError(
                "tokens", token[:20], f"token {place} has half of a character (a lone surrogate)"
            )
    return tokens


def check_tokens(
    tokens: Sequence[str], weights: Tensor, *, axis: Literal["query", "key"] | None = None
) -> None:
    """Refuses tokens that are not one a position. Nothing is cut, and no axis is guessed.

    Args:
        tokens: one a position of the axis.
        weights: (B, h, Tq, Tk), or any map of (..., Tq, Tk).
        axis: which axis they label; None for both, which must then be equal.

    Raises:
        ConfigError: naming both numbers.
    """
    queries, keys = int(weights.shape[-2]), int(weights.shape[-1])
    shape = tuple(weights.shape)
    given = f"{len(tokens)} tokens"
    if axis is None and queries != keys:
        raise ConfigError(
            "tokens",
            given,
            f"one list cannot label {queries} queries and {keys} keys; the shape is {shape}",
            works=f"Give {queries} tokens for the queries and {keys} for the keys, apart",
        )
    wanted = keys if axis == "key" else queries
    if len(tokens) != wanted:
        what = "queries and keys" if axis is None else "keys" if axis == "key" else "queries"
        raise ConfigError(
            "tokens",
            given,
            f"must be {wanted}, one a position: the map has {wanted} {what}; its shape is {shape}",
            works="Count special tokens and padding too, and check that no batch axis was squeezed",
        )


def _text(data: bytes | str) -> str:
    if len(data) > _LIMIT:
        raise ConfigError(
            "tokens", human_bytes(len(data)), f"must be at most {human_bytes(_LIMIT)}"
        )
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise ConfigError(
            "tokens",
            data[wrong.start : wrong.start + 8],
            f"must be UTF-8; byte {wrong.start} is not",
            works="Save the file as UTF-8",
        ) from None


def _from_json(text: str) -> list[str] | None:
    """The list, or None where the text is none: "[CLS] the" opens with a bracket, too."""
    bare = text.strip()
    if not bare.startswith("["):
        return None
    try:
        found = json.loads(bare)
    except (ValueError, RecursionError) as wrong:
        if not bare[1:].lstrip().startswith('"'):
            return None
        raise ConfigError(
            "tokens", bare[:20], f"is a JSON list that cannot be read: {wrong}"
        ) from None
    for place, token in enumerate(found):
        if not isinstance(token, str):
            raise ConfigError(
                "tokens",
                repr(token)[:20],
                f"must be a list of strings; token {place} is not one",
                works='Write it in quotes: ["the", "7"]',
            )
    return list(found)


def _lines(text: str) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    # Only where every line ends so is a carriage return an end of line and not a token's.
    ends = lines if text.endswith("\n") else lines[:-1]
    if all(line.endswith("\r") for line in ends):
        return [line.removesuffix("\r") for line in lines]
    return lines
