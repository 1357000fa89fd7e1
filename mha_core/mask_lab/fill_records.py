"""What is known of a run under a fill: what leaked, and what is not finite at each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mha_core.mask_lab.fills import Stored

How = Literal["replace", "add", "add twice"]
HOWS: tuple[How, ...] = ("replace", "add", "add twice")


@dataclass(frozen=True)
class Found:
    """What is not finite in the tensor of a step, or in its gradient.

    Attributes:
        step: of FORWARD or BACKWARD.
        shape: of the tensor.
        nan, infinite: how many; the -inf that a mask writes is meant, and not counted.
        total: numbers in it.
        first: index of the first NaN, else of the first infinity; None where all is finite.
        value: what stands there.
    """

    step: str
    shape: tuple[int, ...]
    nan: int
    infinite: int
    total: int
    first: tuple[int, ...] | None
    value: float


@dataclass(frozen=True)
class Leak:
    """What masked keys were left with.

    Attributes:
        largest: weight on a masked key, in a row that sees a key.
        at: (batch item, head, query, key) of it; None where it is 0.
        total: the largest sum over the masked keys of one such row.
        blind: rows that see no key.
        blind_weights: what they became: "", "0", "NaN", "even" or "other".
    """

    largest: float
    at: tuple[int, ...] | None
    total: float
    blind: int
    blind_weights: str


@dataclass(frozen=True)
class FillRun:
    """One fill in one dtype.

    Attributes:
        fill, dtype, how: what ran; `ours` in place of the fill for our own softmax.
        stored: what the fill became.
        error: what torch raised, in place of all that follows.
        leak: what masked keys and rows without a visible key were left with.
        forward, backward: every step, in order; backward is empty where it was not asked for.
    """

    fill: str
    dtype: str
    how: How
    stored: Stored
    error: str = ""
    leak: Leak | None = None
    forward: tuple[Found, ...] = ()
    backward: tuple[Found, ...] = ()

    @property
    def born(self) -> Found | None:
        """The first step with a NaN."""
        return next((found for found in self.forward if found.nan), None)

    @property
    def overflowed(self) -> Found | None:
        """The first step with an infinity that no mask wrote."""
        return next((found for found in self.forward if found.infinite), None)

    @property
    def spoilt(self) -> tuple[Found, ...]:
        """The gradients with a NaN."""
        return tuple(found for found in self.backward if found.nan)
