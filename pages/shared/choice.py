"""What the user asked for, complete: what the runs are made from and kept by."""

from __future__ import annotations

from dataclasses import dataclass

from mha_core import MHAConfig
from mha_core.models.pieces import pieces


@dataclass(frozen=True)
class Origin:
    """A layer of a real model, on texts.

    Attributes:
        model: "minilm", a folder or a hub id.
        layer: counted from 0.
        texts: one a batch item.
        pair: a second sentence beside the only text.
        name: of the model, for people.
    """

    model: str
    layer: int
    texts: tuple[str, ...]
    pair: str | None
    name: str


@dataclass(frozen=True)
class Words:
    """The tokens of each batch item.

    Attributes:
        tokens: as the tokenizer writes them, padding included.
        special: True for what the tokenizer added.
        lengths: tokens that are not padding.
    """

    tokens: tuple[tuple[str, ...], ...]
    special: tuple[tuple[bool, ...], ...]
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Choice:
    """What the user asked for.

    Attributes:
        config: what runs.
        tokens: the words of a typed text; None for a random input.
        origin, words: where a layer of a real model runs, and on which tokens.
    """

    config: MHAConfig
    tokens: tuple[str, ...] | None = None
    origin: Origin | None = None
    words: Words | None = None

    def labels(self, item: int) -> tuple[str, ...] | None:
        """The legible tokens of a batch item; None where positions are only numbered."""
        return self.tokens if self.words is None else pieces(self.words.tokens[item])
