"""The PyTorch that compares one flat matrix, h separate ones and a fused one: a whole program."""

from __future__ import annotations

from mha_core.config import MHAConfig

_PROGRAM = '''"""One flat matrix, h separate ones, one fused: the same numbers. Torch alone."""

import time as clock
from statistics import median

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

batch, time, d_model, h = {batch}, {time}, {d_model}, {heads}
d_k = d_model // h  # {d_k}
dtype, device = torch.{dtype}, "{device}"

torch.manual_seed({seed})
x = torch.randn(batch, time, d_model, dtype=dtype, device=device)
W_q, W_k, W_v = (
    nn.Linear(d_model, d_model, bias={bias}, dtype=dtype, device=device) for _ in "qkv"
)


def rows(linear, start, stop):
    """A layer of its own with some rows of nn.Linear.weight: columns of W in x @ W."""
    part = nn.Linear(d_model, stop - start, bias={bias}, dtype=dtype, device=device)
    with torch.no_grad():
        part.weight.copy_(linear.weight[start:stop])
        if linear.bias is not None:
            part.bias.copy_(linear.bias[start:stop])
    return part


heads = [[rows(W, i * d_k, (i + 1) * d_k) for i in range(h)] for W in (W_q, W_k, W_v)]
W_qkv = nn.Linear(d_model, 3 * d_model, bias={bias}, dtype=dtype, device=device)
with torch.no_grad():
    W_qkv.weight.copy_(torch.cat([W.weight for W in (W_q, W_k, W_v)]))
    if W_qkv.bias is not None:
        W_qkv.bias.copy_(torch.cat([W.bias for W in (W_q, W_k, W_v)]))


def flat():
    # (batch, time, d_model) -> (batch, time, h, d_k) -> (batch, h, time, d_k)
    return [W(x).view(batch, time, h, d_k).transpose(1, 2) for W in (W_q, W_k, W_v)]


def separate():
    # h times (batch, time, d_k) -> (batch, h, time, d_k)
    return [torch.stack([W(x) for W in own], dim=1) for own in heads]


def fused():
    # (batch, time, 3·d_model) -> (batch, time, 3, h, d_k) -> (3, batch, h, time, d_k)
    return list(W_qkv(x).view(batch, time, 3, h, d_k).permute(2, 0, 3, 1, 4))


class Kernels(TorchDispatchMode):
    """Counts the operators that write memory of their own; views do not."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {{}}))
        self.count += not func.is_view and "view" not in func.overloadpacket.__name__
        return result


with torch.no_grad():
    expected, times = flat(), {{}}
    for name, way in (("flat", flat), ("separate", separate), ("fused", fused)):
        with Kernels() as kernels:
            result = way()
        largest = max(float((a - b).abs().max()) for a, b in zip(result, expected))
        print(f"{{name:9}} {{kernels.count:4}} kernels, largest difference {{largest:.2g}}")
    for turn in range(51):  # in turn, so that what slows the machine meets all alike
        for name, way in (("flat", flat), ("separate", separate), ("fused", fused)):
            start = clock.perf_counter()
            way()
{wait}            times.setdefault(name, []).append(clock.perf_counter() - start)
for name, taken in times.items():
    ratio = median(a / b for a, b in zip(taken, times["flat"]))
    print(f"{{name:9}} {{1e3 * median(taken):.3f}} ms, {{ratio:.2f}} times the flat matrix")
'''


def program(config: MHAConfig) -> str:
    """A complete Python program at the configuration's sizes, with weights of torch's own."""
    waits = {"cuda": "torch.cuda.synchronize()", "mps": "torch.mps.synchronize()"}
    wait = waits.get(config.device)
    return _PROGRAM.format(
        batch=config.batch,
        time=config.time,
        d_model=config.d_model,
        heads=config.heads,
        d_k=config.d_k,
        dtype=config.dtype,
        device=config.device,
        seed=config.seed,
        bias=config.bias,
        wait=f"            {wait}\n" if wait else "",
    )
