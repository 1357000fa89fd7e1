"""A run's maps with causal turned over, from its own q and k."""

from __future__ import annotations

import torch

from mha_core.blockwise.long_maps import LongMaps
from mha_core.errors import ConfigError
from mha_core.trace import Trace


def is_causal(trace: Trace, item: int) -> bool:
    """Whether no query of a batch item sees a later key, by the mask that ran."""
    if trace.visible is None:
        return False
    shape = trace.tensor("softmax").shape
    seen = trace.visible.broadcast_to(shape)[item]
    return shape[-1] > 1 and not bool(seen.triu(1).any())


def flipped_causal(trace: Trace, item: int) -> LongMaps:
    """Causal where the run was not, and not causal where it was; padded keys stay masked.

    Raises:
        ConfigError: no such batch item.
    """
    q, k = (trace.tensor(f"transpose_{name}") for name in "qk")
    if not 0 <= item < q.shape[0]:
        raise ConfigError("batch item", item, f"must be from 0 to {q.shape[0] - 1}")
    q, k = (one[item].detach().cpu() for one in (q, k))
    if q.dtype is not torch.float64:
        q, k = q.float(), k.float()
    keep = None
    if trace.visible is not None:
        shape = trace.tensor("softmax").shape
        # A key that some query sees is there; one that none sees is padding.
        keep = trace.visible.broadcast_to(shape)[item].any(0).any(0).cpu()
        keep = None if keep.all() else keep
    return LongMaps(
        q.contiguous(), k.contiguous(), trace.config.scale, not is_causal(trace, item), keep
    )
