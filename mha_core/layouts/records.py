"""What a search of a file returns, in plain data."""

from __future__ import annotations

from dataclasses import dataclass

from mha_core.errors import ConfigError


@dataclass(frozen=True)
class Question:
    """What a file does not say and nobody may guess.

    Attributes:
        field: the argument of `build` that answers it.
        choices: what may be answered.
        text: why it is asked, in one sentence.
    """

    field: str
    choices: tuple[int, ...] | tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Found:
    """One attention layer of a file.

    Attributes:
        prefix: what stands before the layout's names, with its dot; "" at the top.
        layout: key in `LAYOUTS`.
        d_model: its width.
        dtype: of all its tensors, as in `MHAConfig`.
        bias: whether any projection has one.
        weights: names in the file, in the layout's order; the last is W_o.
        biases: likewise; None where the file has none.
        asks: what `build` must be told; heads always.
        notes: what is not as in the file, each as one sentence.
    """

    prefix: str
    layout: str
    d_model: int
    dtype: str
    bias: bool
    weights: tuple[str, ...]
    biases: tuple[str | None, ...]
    asks: tuple[Question, ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that is used."""
        return self.weights + tuple(name for name in self.biases if name is not None)


@dataclass(frozen=True)
class Survey:
    """All that looks like attention in a file: what can be built, and why the rest cannot."""

    found: tuple[Found, ...]
    refused: tuple[ConfigError, ...]
