"""Input as a model reads it: tokens, and what it is called with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Encoded:
    """Texts, or a picture, as a model reads them.

    Attributes:
        inputs: keyword arguments of the model's forward, (batch, time).
        tokens: one tuple a batch item, padding included, as the tokenizer writes them.
        special: True where a token is one the tokenizer adds, e.g. [CLS], or padding.
        lengths: tokens of each item without padding.
    """

    inputs: dict[str, Tensor]
    tokens: tuple[tuple[str, ...], ...]
    special: tuple[tuple[bool, ...], ...]
    lengths: tuple[int, ...]
