"""The PyTorch that counts and measures one forward, over time: a whole program."""

from __future__ import annotations

from mha_core.config import MHAConfig

_PROGRAM = '''"""FLOPs, time and peak memory of attention over time. Needs torch alone."""

import math
import time as clock

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

batch, d_model, h = {batch}, {d_model}, {heads}
d_k = d_model // h  # {d_k}
causal, dtype = {causal}, torch.{dtype}

torch.manual_seed({seed})
W_q, W_k, W_v, W_o = (nn.Linear(d_model, d_model, bias={bias}, dtype=dtype) for _ in "qkvo")


def whole(q, k, v):
    """Attention whose (batch, h, time, time) scores and weights are whole tensors."""
    scores = {scaled}
    if causal:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~keep, -math.inf)
    weights = scores.softmax(-1)
    del scores  # as large as the weights, and done with
    return weights @ v


def fused(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=causal, scale={scale})


def forward(x):
    batch, time, _ = x.shape
    q, k, v = (W(x).view(batch, time, h, d_k).transpose(1, 2) for W in (W_q, W_k, W_v))
    out = whole(q, k, v).transpose(1, 2).contiguous().view(batch, time, d_model)
    return W_o(out)


def peak(call):
    """The most bytes in use at once, from every allocation and release that the profiler saw."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        result = call()
    del result
    events = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


with torch.no_grad():
    for time in {times}:
        x = torch.randn(batch, time, d_model, dtype=dtype)
        q, k, v = (torch.randn(batch, h, time, d_k, dtype=dtype) for _ in "qkv")
        with FlopCounterMode(display=False) as counter:
            forward(x)
        # Four projections, then Q @ K^T and weights @ V; 2·m·n·k for each product.
        closed = 4 * 2 * batch * time * d_model**2 + 2 * 2 * batch * time**2 * d_model
        assert counter.get_total_flops() == closed
        start = clock.perf_counter()
        forward(x)
        took = clock.perf_counter() - start
        print(
            f"time {{time:5}}: {{closed:.3g}} FLOPs, {{1e3 * took:.2f}} ms, peak bytes of "
            f"attention {{peak(lambda: whole(q, k, v))}} whole, "
            f"{{peak(lambda: fused(q, k, v))}} fused"
        )
'''


def program(config: MHAConfig) -> str:
    """A complete Python program at the configuration's sizes, on the CPU."""
    scaled = "q @ k.transpose(-2, -1)"
    factor = config.scale
    return _PROGRAM.format(
        batch=config.batch,
        d_model=config.d_model,
        heads=config.heads,
        d_k=config.d_k,
        causal=config.causal,
        dtype=config.dtype,
        seed=config.seed,
        bias=config.bias,
        scaled=f"{scaled} / math.sqrt(d_k)" if factor is None else f"{scaled} * {factor!r}",
        scale=repr(factor),
        times=tuple(sorted({16, 64, 256, config.time})),
    )
