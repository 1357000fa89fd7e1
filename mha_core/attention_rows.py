"""Whether weights are weights: finite, not negative, every row a share of 1."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.attention_given import SHAPES, GivenAttention
from mha_core.errors import ConfigError

# Rows that a softmax made sum to 1 but for rounding, which grows with the number of keys.
# float64 has float32's: often it is only the container of numbers that were computed in float32.
TOLERANCES = {"float16": 1e-2, "bfloat16": 2e-2, "float32": 1e-4, "float64": 1e-4}
_COARSE = 0.1  # of dtypes of 8 bits
_FIRST = 5  # rows that are named
# Dropout scales what it keeps by 1/(1 - p), up to 2 for p = 0.5, and leaves the rows' mean near 1.
_MOST, _MEAN = 2.0, (0.5, 1.5)
_SCORES = "these look like scores (logits), or like no map at all"
_ADVICE = f"Give the weights after softmax, in evaluation: model.eval(). {SHAPES}"


@dataclass(frozen=True)
class Row:
    """A row of a map and what its weights sum to."""

    layer: int
    item: int
    head: int
    query: int
    total: float


@dataclass(frozen=True)
class RowCheck:
    """What the rows of weights sum to.

    Attributes:
        rows: how many there are.
        unseen: of them all zero: their query sees no key.
        off: of the others, how many do not sum to 1.
        first: the first few of those that do not.
        largest: the largest |sum - 1| of the rows that are not all zero.
        tolerance: up to which a sum counts as 1; the widest of the layers'.
    """

    rows: int
    unseen: int
    off: int
    first: tuple[Row, ...]
    largest: float
    tolerance: float

    @property
    def warning(self) -> str | None:
        """What is off, in words; None where every row that sees a key sums to 1."""
        if not self.off:
            return None
        row = self.first[0]
        return (
            f"{self.off:,} of {self.rows:,} rows do not sum to 1 (± {self.tolerance:g}): the "
            f"furthest is off by {self.largest:.3g}, and the first, layer {row.layer}, batch item "
            f"{row.item}, head {row.head}, query {row.query}, sums to {row.total:.4g}. Dropout "
            f"does this in training: model.eval() turns it off."
        )


def check_rows(given: GivenAttention, *, tolerance: float | None = None, item: int = 0) -> RowCheck:
    """Refuses what cannot be weights; reports rows that do not sum to 1.

    Args:
        given: weights, layers of (B, h, Tq, Tk).
        tolerance: up to which a row's sum counts as 1; None for what the dtype allows.
        item: what the first batch item is called, where the others were left out.

    Raises:
        ConfigError: a value that is not finite or is negative, with the first index; values over
            2, or rows that on average do not sum to near 1, which are scores and not weights.
    """
    allowed = [
        TOLERANCES.get(dtype, _COARSE) if tolerance is None else tolerance for dtype in given.dtypes
    ]
    first: list[Row] = []
    rows = unseen = off = 0
    largest = 0.0
    for layer, (weights, most) in enumerate(zip(given.layers, allowed, strict=True)):
        totals = _row_totals(weights, given.names[layer], item)
        dead = weights.amax(-1) == 0
        gap = (totals - 1).abs().masked_fill(dead, 0.0)
        wrong = gap > most
        rows += totals.numel()
        unseen += int(dead.sum())
        off += int(wrong.sum())
        largest = max(largest, float(gap.max()))
        first += [
            Row(layer, item + place, head, query, float(totals[place, head, query]))
            for place, head, query in wrong.nonzero()[: _FIRST - len(first)].tolist()
        ]
    return RowCheck(rows, unseen, off, tuple(first), largest, max(allowed))


def _row_totals(weights: Tensor, name: str, item: int) -> Tensor:
    """What each row sums to, (B, h, Tq, Tk) -> float64 (B, h, Tq), of weights that can be some.

    Raises:
        ConfigError: as `check_rows`.
    """
    totals = weights.sum(-1, dtype=torch.float64)
    # A value that is not finite makes its row's sum one: no need to look at every number.
    if not totals.isfinite().all():
        scores = bool((weights == -torch.inf).any())
        raise _refused(weights, name, item, ~weights.isfinite(), "must be finite", scores)
    if weights.min() < 0:
        raise _refused(weights, name, item, weights < 0, "must not be negative")
    if weights.max() > _MOST:
        raise _refused(weights, name, item, weights > _MOST, "must be from 0 to 1")
    # Rows without a key would pull the mean down.
    seeing = totals[weights.amax(-1) > 0]
    mean = float(seeing.mean()) if seeing.numel() else 1.0
    if not _MEAN[0] <= mean <= _MEAN[1]:
        raise ConfigError(
            name,
            tuple(weights.shape),
            f"rows must sum to 1 over the keys, the last axis; on average they sum to {mean:.4g}, "
            f"so {_SCORES}",
            works=_ADVICE,
        )
    return totals


def _refused(
    weights: Tensor, name: str, item: int, wrong: Tensor, rule: str, scores: bool = True
) -> ConfigError:
    place, head, query, key = wrong.nonzero()[0].tolist()
    return ConfigError(
        name,
        float(weights[place, head, query, key]),
        f"weights {rule}; the first of {int(wrong.sum()):,} that break this is at batch item "
        f"{item + place}, head {head}, query {query}, key {key} of shape {tuple(weights.shape)}"
        + (f", so {_SCORES}" if scores else ""),
        works=_ADVICE,
    )
