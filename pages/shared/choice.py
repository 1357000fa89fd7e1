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
        download: whether a hub id may be fetched.
        picture: digest of the picture that a vision model is given; "" for text.
    """

    model: str
    layer: int
    texts: tuple[str, ...]
    pair: str | None
    name: str
    download: bool = False
    picture: str = ""


@dataclass(frozen=True)
class Picture:
    """A layer of the vision model on a picture.

    Attributes:
        digest: of the picture; "sample" is the one that comes with the project.
        layer: counted from 0.
    """

    digest: str
    layer: int
    name: str = "DINOv2-small"


@dataclass(frozen=True)
class Weights:
    """A layer's weights from a file.

    Attributes:
        digest: of the file.
        file: its name.
        prefix: of the layer's tensors.
        answers: what the file does not say, (field, value) each.
    """

    digest: str
    file: str
    prefix: str
    answers: tuple[tuple[str, int | str], ...]


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
        origin: of weights that are not random; words: the tokens of a real model's input.
    """

    config: MHAConfig
    tokens: tuple[str, ...] | None = None
    origin: Origin | Picture | Weights | None = None
    words: Words | None = None

    def labels(self, item: int) -> tuple[str, ...] | None:
        """The legible tokens of a batch item; None where positions are only numbered."""
        return self.tokens if self.words is None else pieces(self.words.tokens[item])


@dataclass(frozen=True)
class Given:
    """Maps alone: there is no pipeline to show.

    Attributes:
        source: what they came from, hashable.
        title: for people.
        batch, heads, time: of the maps; time is the longer axis.
        tokens: of every batch item; None where positions are only numbered.
        words: as of a choice, where a tokenizer made the tokens.
        notes: what there is to know about them, a sentence each.
    """

    source: Origin | tuple[str, int]
    title: str
    batch: int
    heads: int
    time: int
    tokens: tuple[str, ...] | None = None
    words: Words | None = None
    notes: tuple[str, ...] = ()

    def labels(self, item: int) -> tuple[str, ...] | None:
        """The legible tokens of a batch item; None where positions are only numbered."""
        return self.tokens if self.words is None else pieces(self.words.tokens[item])
