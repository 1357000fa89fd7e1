"""Tokens as a person reads them: word pieces joined to their word, byte pieces as text."""

from __future__ import annotations

from collections.abc import Sequence

from mha_core.export.labels import labels

JOINED = "·"  # before a piece that goes on with the word before it


def pieces(tokens: Sequence[str]) -> tuple[str, ...]:
    """One legible token each, in order.

    WordPiece (BERT) writes "##ing" for what goes on with a word, shown as "·ing"; SentencePiece
    writes "▁word" for what begins one, shown as "word". Byte-level BPE is decoded.
    """
    continues = any(token.startswith("##") and len(token) > 2 for token in tokens)
    begins = any(token.startswith("▁") for token in tokens)
    shown = []
    for token in labels(tokens):
        if continues and token.startswith("##") and len(token) > 2:
            shown.append(JOINED + token[2:])
        elif begins and token.startswith("▁") and len(token) > 1:
            shown.append(token[1:])
        else:
            shown.append(token)
    return tuple(shown)
