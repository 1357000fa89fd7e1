"""Where mistakes run: the configuration in view, clamped to what a page can show at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mha_core.attention import MultiHeadAttention
from mha_core.config import MHAConfig
from mha_core.inputs import build_module, random_input, text_input
from mha_core.proofs import eval_twin
from mha_core.trace import Trace

BATCH, TIME, D_MODEL = 4, 16, 512


@dataclass(frozen=True)
class Bench:
    """A module and an input small enough to run two dozen times over.

    Attributes:
        module: in evaluation, on the CPU.
        x: (batch, time, d_model).
        clamped: what was made smaller, e.g. "time 16 of 512"; empty where nothing was.
    """

    module: MultiHeadAttention
    x: Tensor
    clamped: tuple[str, ...]

    @property
    def sizes(self) -> dict[str, int]:
        """Axis name -> size."""
        batch, time, d_model = self.x.shape
        return {
            "batch": batch, "time": time, "d_model": d_model,
            "h": self.module.heads, "d_k": self.module.d_k,
        }  # fmt: skip


def seeded(config: MHAConfig, tokens: Sequence[str] | None = None) -> Bench:
    """Seeded weights and input of the configuration, clamped.

    h stays as it is: a d_model beyond the limit gives way in d_k. Half types run as float32.

    Args:
        config: what is in view.
        tokens: the words of a text input; a random input when None.
    """
    d_model = config.d_model
    if d_model > D_MODEL:
        d_model = config.heads * max(1, D_MODEL // config.heads)
    small = replace(
        config,
        batch=min(config.batch, BATCH), time=min(config.time, TIME), d_model=d_model,
        dtype=config.dtype if config.dtype == "float64" else "float32",
        device="cpu", dropout=0.0, scale=None, fill=-torch.inf,
    )  # fmt: skip
    x = random_input(small) if tokens is None else text_input(small, tokens[: small.time])
    changed = [
        f"{name} {getattr(small, name)} of {getattr(config, name)}"
        for name in ("batch", "time", "d_model")
        if getattr(small, name) != getattr(config, name)
    ]
    if small.dtype != config.dtype:
        changed.append(f"{small.dtype} for {config.dtype}")
    return Bench(build_module(small), x, tuple(changed))


def of_trace(trace: Trace, lengths: Sequence[int] | None = None) -> Bench:
    """The module and input of a run, a real model's for example; batch and time clamped.

    Args:
        trace: with its module and input.
        lengths: tokens of each batch item that are not padding: no padding is taken along.
    """
    batch, time, _ = trace.x.shape
    fewer = min(batch, BATCH)
    shorter = min(time, TIME, *(() if lengths is None else lengths[:fewer]))
    dtype = torch.promote_types(trace.x.dtype, torch.float32)
    module = eval_twin(trace.module).to("cpu", dtype)
    x = trace.x[:fewer, :shorter].detach().to("cpu", dtype)
    changed = [
        f"{name} {now} of {was}"
        for name, now, was in (("batch", fewer, batch), ("time", shorter, time))
        if now != was
    ]
    if dtype != trace.x.dtype:
        changed.append(f"float32 for {str(trace.x.dtype).removeprefix('torch.')}")
    return Bench(module, x, tuple(changed))
