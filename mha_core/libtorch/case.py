"""One run as tensors by name, which both programs can run, and what Python makes of it.

The names are those that cases.cpp reads: the weights, x, heads, causal, and where they are set
mask, scale, fill, dropout and seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from mha_core.attention import MultiHeadAttention
from mha_core.errors import ConfigError, human_bytes
from mha_core.inputs import generator
from mha_core.steps import MAP_STEPS
from mha_core.trace import Trace

State = dict[str, Tensor]

# A share of a step's largest finite value that two machines' kernels may differ by: a sum in
# another order is off by some roundings of the dtype, and softmax makes a little more of it.
TOLERANCE: Mapping[torch.dtype, float] = {
    torch.float64: 1e-12,
    torch.float32: 1e-5,
    torch.float16: 0.02,
    torch.bfloat16: 0.1,
}


def check_bytes(trace: Trace, limit: int) -> int:
    """Bytes of the case and of what every step gives, before any is copied.

    Raises:
        ConfigError: they are more than `limit`; with the largest time that fits.
    """
    needed = _bytes(trace, trace.config.time)
    if needed <= limit:
        return needed
    low, high = 0, trace.config.time
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _bytes(trace, middle) <= limit else (low, middle - 1)
    raise ConfigError(
        "time",
        trace.config.time,
        f"the tensors of all steps come to {human_bytes(needed)}, over the limit of "
        f"{human_bytes(limit)}",
        works=f"The largest time that fits is {low}" if low else "Lower d_model, batch or heads",
        repairs=[{"time": low}] if low else [],
    )


def _bytes(trace: Trace, time: int) -> int:
    """At another time: maps grow with its square, a mask as its own shape says."""
    share = time / trace.config.time
    steps = sum(step.nbytes * (share**2 if step.id in MAP_STEPS else share) for step in trace.steps)
    fixed = sum(parameter.nbytes for parameter in trace.module.parameters())
    mask = 0 if trace.mask is None else trace.mask.nbytes * share**2
    return math.ceil(steps + fixed + trace.x.nbytes * share + mask)


def case_of(trace: Trace) -> State:
    """What ran, on the CPU."""
    config = trace.config
    case = {
        name: weight.detach().cpu().contiguous() for name, weight in trace.module.named_parameters()
    }
    case["x"] = trace.x.detach().cpu().contiguous()
    case["heads"] = torch.tensor(config.heads)
    case["causal"] = torch.tensor(config.causal)
    if trace.mask is not None:
        case["mask"] = trace.mask.cpu().contiguous()
    if config.scale is not None:
        case["scale"] = torch.tensor(config.scale, dtype=torch.float64)
    if config.fill != -math.inf:
        case["fill"] = torch.tensor(config.fill, dtype=torch.float64)
    if config.dropout > 0.0:
        case["dropout"] = torch.tensor(config.dropout, dtype=torch.float64)
        case["seed"] = torch.tensor(config.seed)
    return case


def run_case(case: State) -> State:
    """What Python gives at every step, by step id; run_module of cases.cpp does the same."""
    x = case["x"]
    dropout = float(case["dropout"]) if "dropout" in case else 0.0
    module = MultiHeadAttention(
        x.shape[-1],
        int(case["heads"]),
        bias="W_q.bias" in case,
        dropout=dropout,
        scale=float(case["scale"]) if "scale" in case else None,
        fill=float(case["fill"]) if "fill" in case else -math.inf,
        device="meta",
        dtype=x.dtype,
    )
    names = [name for name, _ in module.named_parameters()]
    module.load_state_dict({name: case[name] for name in names}, assign=True)
    module.train(dropout > 0.0)
    found: State = {}

    def observe(step: str, tensor: Tensor) -> Tensor:
        found[step] = tensor
        return tensor

    with torch.no_grad():
        module(
            x,
            causal=bool(case["causal"]),
            mask=case.get("mask"),
            generator=generator(int(case["seed"]), "dropout") if "seed" in case else None,
            observe=observe,
        )
    # Each in memory of its own: a file holds no views.
    return {
        step: tensor.clone(memory_format=torch.contiguous_format) for step, tensor in found.items()
    }
