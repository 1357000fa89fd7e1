"""The steps of a reshape as a table."""

from __future__ import annotations

import pandas as pd

from mha_core.reshape.run import Run


def table(run: Run) -> pd.DataFrame:
    """One row for x and each step: what it is, its memory, the operators torch dispatched."""
    rows = [
        {
            "step": step.number,
            "operation": step.code,
            "axes": ", ".join(step.names),
            "shape": str(step.shape),
            "strides": str(step.strides),
            "contiguous": step.contiguous,
            "memory": step.storage,
            "allocated_bytes": step.allocated,
            "nbytes": step.nbytes,
            "operators": " ".join(step.operators),
        }
        for step in run.steps
    ]
    return pd.DataFrame(rows)
