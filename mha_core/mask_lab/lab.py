"""What the experiments run on: a run's own weights and input, cut to a size that runs at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mha_core.attention import MultiHeadAttention, merge, split, swap_time_and_heads
from mha_core.trace import Trace

CELLS = 2**18  # cells of the (batch, h, time, time) weights, at most
MOST_ITEMS = 4


@dataclass(frozen=True)
class Lab:
    """Attention with 1/sqrt(d_k) and no mask of its own, in eval mode, and its input.

    Attributes:
        module: shares the run's weights.
        x: (batch, time, d_model), the first items and positions of the run's input.
        full: batch and time of the run.
    """

    module: MultiHeadAttention
    x: Tensor
    full: tuple[int, int]

    @property
    def batch(self) -> int:
        return self.x.shape[0]

    @property
    def time(self) -> int:
        return self.x.shape[1]

    @property
    def heads(self) -> int:
        return self.module.heads

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, h, Tq, Tk) of the weights."""
        return self.batch, self.heads, self.time, self.time

    @cached_property
    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v by head: (batch, h, time, d_k) each."""
        module = self.module
        with torch.no_grad():
            q, k, v = (
                swap_time_and_heads(split(layer(self.x), module.heads))
                for layer in (module.W_q, module.W_k, module.W_v)
            )
        return q, k, v

    def finish(self, heads: Tensor) -> Tensor:
        """Merges the heads and applies W_o: (batch, h, Tq, d_k) -> (batch, Tq, d_model)."""
        with torch.no_grad():
            out: Tensor = self.module.W_o(merge(swap_time_and_heads(heads)))
        return out

    def cut(self, batch: int, time: int) -> Lab:
        """The same with at most so many items and positions."""
        return Lab(self.module, self.x[:batch, :time].contiguous(), self.full)

    def said(self) -> str:
        """What was left out, or nothing."""
        batch, time = self.full
        if (self.batch, self.time) == self.full:
            return ""
        parts = []
        if self.time < time:
            parts.append(f"the first {self.time} of {time:,} positions")
        if self.batch < batch:
            parts.append(f"the first {self.batch} of {batch} batch items")
        return " and ".join(parts)


def lab_of(trace: Trace) -> Lab:
    """The lab of a run: its weights and as much of its input as fits `CELLS`."""
    module = trace.module
    twin = MultiHeadAttention(
        module.d_model, module.heads, bias=module.W_q.bias is not None,
        device="meta", dtype=module.W_q.weight.dtype,
    )  # fmt: skip
    state = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    twin.load_state_dict(state, assign=True)
    twin.requires_grad_(False).eval()
    batch, time = trace.x.shape[:2]
    items = min(batch, MOST_ITEMS)
    positions = min(time, max(1, math.isqrt(CELLS // (items * module.heads))))
    # GPT-2's Conv1D calls view on its input, which a part of one does not allow.
    x = trace.x[:items, :positions].detach().contiguous()
    return Lab(twin, x, (batch, time))
