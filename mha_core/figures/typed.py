"""Arrays as Plotly's typed-array specification: base64 of the bytes, a quarter of the digits.

Plotly.py encodes arrays like this itself when it validates a figure; figures that skip its
validation do it here.
"""

from __future__ import annotations

import base64
import json
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


def dumps(spec: Any) -> str:
    """A specification as JSON; numpy scalars as numbers, arrays as typed arrays."""
    return json.dumps(spec, default=_plain, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return typed(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON")
