"""What the tests of the flow share: elements to follow, whole windows, and torch's own moves."""

from __future__ import annotations

import torch
from hypothesis import strategies as st

from mha_core import MHAConfig
from mha_core.window import Element, Window
from tests.core.support import configs


def whole(config: MHAConfig) -> Window:
    """Every index of every axis."""
    sizes = (config.batch, config.time, config.heads, config.d_k)
    return Window(*(tuple(range(size)) for size in sizes))


def followed(config: MHAConfig) -> st.SearchStrategy[Element]:
    return st.builds(
        Element,
        b=st.integers(0, config.batch - 1),
        t=st.integers(0, config.time - 1),
        c=st.integers(0, config.d_model - 1),
    )


def runs(**fixed: object) -> st.SearchStrategy[tuple[MHAConfig, Element]]:
    """A configuration and an element of it."""
    return configs(**fixed).flatmap(lambda made: st.tuples(st.just(made), followed(made)))


def moved(config: MHAConfig) -> dict[str, torch.Tensor]:
    """Which element stands where: distinct numbers, moved by plain torch calls."""
    batch, time, heads, d_k = config.batch, config.time, config.heads, config.d_k
    flat = torch.arange(batch * time * heads * d_k).view(batch, time, heads * d_k)
    by_time = flat.view(batch, time, heads, d_k)
    by_head = by_time.transpose(1, 2)
    back = by_head.transpose(1, 2)
    return {
        "input": flat,
        "project_q": flat,
        "split_q": by_time,
        "transpose_q": by_head,
        "weighted_values": by_head,
        "transpose_back": back,
        "merge": back.contiguous().view(batch, time, heads * d_k),
        "output": flat,
    }


def storage(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor's memory, in order, as one axis."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((count,), (1,), 0)
