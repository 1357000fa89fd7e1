"""Arrays as Plotly's typed-array specification: base64 of the bytes, a quarter of the digits.

Plotly.py encodes arrays like this itself when it validates a figure; figures that skip its
validation do it here.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray


def typed(array: NDArray[Any]) -> dict[str, str]:
    """A numpy array of numbers -> {"dtype", "bdata"} and, from two axes on, {"shape"}."""
    array = np.ascontiguousarray(array)
    spec = {
        "dtype": f"{array.dtype.kind}{array.dtype.itemsize}",
        "bdata": base64.b64encode(array.tobytes()).decode("ascii"),
    }
    if array.ndim > 1:
        spec["shape"] = ", ".join(map(str, array.shape))
    return spec


def to_json(value: Any) -> Any:
    """A specification with every numpy scalar and array as JSON has it."""
    if isinstance(value, dict):
        return {name: to_json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(part) for part in value]
    if isinstance(value, np.ndarray):
        return typed(value)
    return value.item() if isinstance(value, np.generic) else value
