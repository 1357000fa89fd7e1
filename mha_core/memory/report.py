"""The memory of every step as one table."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mha_core.memory.journey import Stop
from mha_core.memory.walk import jumps, unbroken
from mha_core.tables import shape_text


def frame(stops: Sequence[Stop]) -> pd.DataFrame:
    """One row a step: the tensor's layout, what was copied, and where the element is.

    Bytes, offsets and counts are numbers; shapes and indices are text.
    """
    return pd.DataFrame([_row(stop) for stop in stops])


def _row(stop: Stop) -> dict[str, object]:
    step = stop.step
    distances = jumps(step.shape, step.strides)
    return {
        "step": step.number,
        "id": step.id,
        "operation": step.spec.operation,
        "shape": shape_text(step.shape),
        "strides": shape_text(step.strides),
        "storage offset": step.offset,
        "contiguous": step.contiguous,
        "memory": step.storage,
        "view of": step.view_of or "",
        "bytes": step.nbytes,
        "copied": step.copied,
        "operators": " ".join(operator.name for operator in step.operators),
        "element": shape_text(stop.place.index),
        "element offset": stop.place.offset,
        "element byte": stop.place.byte,
        "element unmoved": stop.unmoved,
        "element value": stop.value,
        "side by side": unbroken(step.shape, step.strides),
        "jumps": sum(times for distance, times in distances.items() if distance != 1),
    }
