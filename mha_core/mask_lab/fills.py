"""What a fill becomes in a dtype: stored, refused or infinite."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mha_core.errors import ConfigError

DTYPES = ("float32", "float16", "bfloat16")
# The names; a number of the user's own may stand beside them.
LOWEST, LOWEST_32 = "finfo(dtype).min", "finfo(float32).min"
FILLS: tuple[str, ...] = ("-inf", LOWEST, LOWEST_32, "-1e9", "-1e4")


def value_of(fill: str, dtype: torch.dtype) -> float:
    """The number that a fill's name means for scores of `dtype`.

    Raises:
        ConfigError: neither a name in `FILLS` nor a negative number.
    """
    if fill == LOWEST:
        return float(torch.finfo(dtype).min)
    if fill == LOWEST_32:
        return float(torch.finfo(torch.float32).min)
    try:
        value = float(fill)
    except ValueError:
        value = math.nan
    if not value < 0:
        raise ConfigError(
            "fill", fill, "must be a negative number or -inf", works="Nearest that works: -inf"
        )
    return value


@dataclass(frozen=True)
class Stored:
    """A fill in a dtype.

    Attributes:
        asked: the number meant.
        becomes: what a float32 tensor of it is after `.to(dtype)`.
        refused: what `masked_fill` raised, given the number; "" where it took it.
    """

    asked: float
    becomes: float
    refused: str

    @property
    def exact(self) -> bool:
        return self.becomes == self.asked


def stored(fill: str, dtype: torch.dtype) -> Stored:
    """Writes the fill into tensors of `dtype`, in both ways that code does."""
    asked = value_of(fill, dtype)
    refused = ""
    try:
        torch.zeros(1, dtype=dtype).masked_fill(torch.tensor([True]), asked)
    except RuntimeError as error:
        refused = str(error).splitlines()[0]
    becomes = float(torch.tensor(asked, dtype=torch.float64).to(torch.float32).to(dtype))
    return Stored(asked, becomes, refused)
