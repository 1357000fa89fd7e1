"""What a mistake did to the maps: one head of one batch item, right, wrong, and the difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mha_core.head_stats import head_stats
from mha_core.maps import Floats, HeadMaps, Scaled, scaled_together
from mha_core.mistakes.examine import Finding


@dataclass(frozen=True)
class Measures:
    """Numbers of one map.

    Attributes:
        row_sums: smallest and largest sum of a row that is no NaN; None where all are.
        entropy: mean over the queries that have weights, in nats.
        effective_keys: exp(entropy), mean likewise.
        hidden: share of all weight on keys that were meant to be hidden; None where none were.
        rows, broken_rows: how many there are, and how many have a NaN.
    """

    row_sums: tuple[float, float] | None
    entropy: float
    effective_keys: float
    hidden: float | None
    rows: int
    broken_rows: int


@dataclass(frozen=True)
class MapsSeen:
    """One head's maps in the right and in the wrong forward.

    Attributes:
        item, head: which; head is None where the code returns one map.
        right, wrong: h = 1 each; cells that are meant to be hidden and have no weight are absent.
    """

    item: int
    head: int | None
    right: HeadMaps
    wrong: HeadMaps

    def scaled(self) -> tuple[Scaled, Scaled]:
        """Right and wrong on one scale."""
        right, wrong = scaled_together([_present(self.right), _present(self.wrong)], weights=True)
        return right, wrong

    def difference(self) -> Scaled | None:
        """wrong − right, centred at 0; None where their sizes differ.

        A hidden key counts as the weight 0 that it has; where both hide it, it stays absent.
        """
        a, b = self.right.values.numpy(), self.wrong.values.numpy()
        if a.shape != b.shape:
            return None
        apart: Floats = b - a
        apart[np.isnan(_present(self.right)) & np.isnan(_present(self.wrong)) & ~np.isnan(b)] = (
            np.nan
        )
        finite = np.abs(apart[np.isfinite(apart)])
        end = np.full(1, float(finite.max()) if finite.size and finite.max() > 0 else 1.0)
        ends = end.astype(np.float32)
        return Scaled(apart, -ends, ends, "wrong − right", clipped=False, diverging=True)

    def faults(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(rows, columns) of the right and of the wrong map: True where a weight is NaN."""
        right, wrong = (maps.values[0].isnan().numpy() for maps in (self.right, self.wrong))
        return right, wrong

    def measures(self) -> tuple[Measures, Measures]:
        """Of the right and of the wrong map."""
        hidden = None if self.right.visible is None else ~self.right.visible
        return _measures(self.right, hidden), _measures(self.wrong, hidden)


def maps_seen(finding: Finding, head: int) -> MapsSeen | None:
    """The maps of a head, of the batch item where they differ most; None where one raised.

    Args:
        finding: of a mistake.
        head: a head that is not there gives way to the last.
    """
    right, wrong = finding.right.weights, finding.wrong.weights
    if right is None or wrong is None:
        return None
    item = apart(finding)
    place = min(head, right.shape[1] - 1) if right.dim() == 4 else None
    mask = None if finding.mask is None else finding.mask[item, place or 0][None]
    one = _one(right, item, place)
    other = _one(wrong, item, place)
    seen_right = HeadMaps("softmax", one, mask)
    # A hidden key that keeps a weight is shown: it leaks.
    shown = None if mask is None or mask.shape != other.shape else mask | (other != 0)
    seen_wrong = HeadMaps("softmax", other, shown)
    return MapsSeen(item, place, seen_right, seen_wrong)


def apart(finding: Finding) -> int:
    """The batch item whose maps, or else outputs, differ most; NaN is as far as can be."""
    for right, wrong in (
        (finding.right.weights, finding.wrong.weights),
        (finding.right.output, finding.wrong.output),
    ):
        if right is None or wrong is None or right.shape != wrong.shape or right.dim() < 3:
            continue
        each = (right.double() - wrong.double()).abs().nan_to_num(nan=torch.inf).flatten(1).amax(1)
        if float(each.max()) > 0:
            return int(each.argmax())
    return 0


def _present(maps: HeadMaps) -> Floats:
    """NaN where a cell is absent, or where its weight is."""
    values = maps.values
    if maps.visible is not None:
        values = values.masked_fill(~maps.visible, torch.nan)
    found: Floats = values.numpy()
    return found


def _one(weights: Tensor, item: int, head: int | None) -> Tensor:
    """(1, queries, keys), float32, of weights with or without batch and head axes."""
    if weights.dim() == 4:
        weights = weights[min(item, len(weights) - 1), min(head or 0, weights.shape[1] - 1)]
    elif weights.dim() == 3:
        weights = weights[min(item, len(weights) - 1)]
    return weights[None].float()


def _measures(maps: HeadMaps, hidden: Tensor | None) -> Measures:
    values = maps.values
    broken = values.isnan().any(-1)
    sums = values.sum(-1)[~broken]
    # Rows that are no numbers have no statistics: left out, like rows of zeros.
    stats = head_stats(HeadMaps(maps.step, values.nan_to_num(0.0), None))
    on_hidden = None
    if hidden is not None and hidden.shape == values.shape:
        total = float(values.nansum())
        on_hidden = float(values[hidden].nansum()) / total if total > 0 else 0.0
    return Measures(
        row_sums=(float(sums.min()), float(sums.max())) if sums.numel() else None,
        entropy=stats.entropy[0],
        effective_keys=stats.effective_keys[0],
        hidden=on_hidden,
        rows=len(broken[0]),
        broken_rows=int(broken.sum()),
    )
