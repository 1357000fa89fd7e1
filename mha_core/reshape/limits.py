"""How much a reshape may hold: checked before anything is allocated."""

from __future__ import annotations

from mha_core.errors import human_bytes

MAX_AXES = 6
MAX_NUMEL = 2**24
MAX_STEPS = 12
MAX_DIGITS = 12  # of one typed number
MAX_DEPTH = 6  # of brackets in brackets
MAX_TEXT = {"pattern": 400, "chain": 1200, "shape": 200, "axes": 200}
ITEM = 4  # bytes of an element: the index tensor is int32, as wide as float32


def too_many(numel: int) -> str:
    """Why a tensor is refused, in one sentence."""
    return (
        f"{numel:,} elements are {human_bytes(numel * ITEM)}, over the limit of {MAX_NUMEL:,} "
        f"({human_bytes(MAX_NUMEL * ITEM)})"
    )
