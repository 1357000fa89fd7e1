"""The program behind the memory page: it prints where every step keeps its tensor."""

from __future__ import annotations

from mha_core.config import MHAConfig
from mha_core.window import Element

_PROGRAM = '''"""Memory of every step of multi-head attention. Needs torch alone."""

import math

import torch
from torch import nn

batch, time, d_model, h = {batch}, {time}, {d_model}, {heads}
d_k = d_model // h  # {d_k}
dtype, device = torch.{dtype}, "{device}"
b, t, c = {b}, {t}, {c}  # the element followed
head, j = divmod(c, d_k)

# Strides, offsets and copies do not depend on the numbers: any will do.
W_q, W_k, W_v, W_o = (
    nn.Linear(d_model, d_model, bias={bias}, device=device, dtype=dtype) for _ in range(4)
)
x = torch.randn(batch, time, d_model, device=device, dtype=dtype)


def show(name, tensor, *index):
    start = tensor.untyped_storage().data_ptr()
    offset = (tensor[index].data_ptr() - start) // tensor.element_size()
    print(
        f"{{name:16}} {{tuple(tensor.shape)!s:20}} strides {{tensor.stride()!s:20}} "
        f"contiguous {{tensor.is_contiguous()!s:5}} storage {{start:#x}} {{index}} -> {{offset}}"
    )


with torch.no_grad():
    q, k, v = W_q(x), W_k(x), W_v(x)
    show("project_q", q, b, t, c)
    q, k, v = (one.view(batch, time, h, d_k) for one in (q, k, v))
    show("split_q", q, b, t, head, j)
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    show("transpose_q", q, b, head, t, j)
    scores = q @ k.transpose(-2, -1)
    show("scores", scores, b, head, t, {key})
    scores = {scaled}
{mask}    weights = scores.softmax(-1)
    show("softmax", weights, b, head, t, {key})
    out = weights @ v
    show("weighted_values", out, b, head, t, j)
    out = out.transpose(1, 2)
    show("transpose_back", out, b, t, head, j)
    try:
        out.view(batch, time, d_model)
        print("view after transpose: allowed at these sizes")
    except RuntimeError as error:
        print("view after transpose:", error)
    out = out.contiguous().view(batch, time, d_model)
    show("merge", out, b, t, c)
    show("output", W_o(out), b, t, c)
'''

_MASK = """    keep = torch.ones(time, time, dtype=torch.bool, device=device).tril()
    scores = scores.masked_fill(~keep, -math.inf)
"""


def program(config: MHAConfig, element: Element, key: int = 0) -> str:
    """A complete program that prints strides, storages and the element's offsets."""
    scale = "scores / math.sqrt(d_k)" if config.scale is None else f"scores * {config.scale!r}"
    return _PROGRAM.format(
        batch=config.batch,
        time=config.time,
        d_model=config.d_model,
        heads=config.heads,
        d_k=config.d_k,
        dtype=config.dtype,
        device=config.device,
        bias=config.bias,
        b=element.b,
        t=element.t,
        c=element.c,
        key=key,
        scaled=scale,
        mask=_MASK if config.causal else "",
    )
