"""What the tests of the mistakes share: a module, its input, and oracles that share no code."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core import MHAConfig, MultiHeadAttention
from mha_core.inputs import build_module
from mha_core.mistakes import MISTAKES
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, randn, torch_twin

# Every mistake that was asked for by name, and those that people reported besides.
LOUD = {"view_transposed", "indivisible", "mask_shape", "mask_dtype", "fill_overflow"}
SILENT = set(MISTAKES) - LOUD
HALF = {"fill_added", "fill_overflow"}  # their scores are float16 in both forwards


def bench(
    batch: int = BATCH, time: int = TIME, d_model: int = D_MODEL, heads: int = HEADS, seed: int = 3
) -> tuple[MultiHeadAttention, Tensor]:
    """A seeded module in evaluation and an input, float64."""
    config = MHAConfig(
        batch=batch, time=time, d_model=d_model, heads=heads, dtype="float64", seed=seed
    )
    return build_module(config), randn(batch, time, d_model, seed=seed)


def even(batch: int = 1, time: int = 4, d_model: int = 6, heads: int = 2):
    """As `bench`, with scores that are all zero: only the mask shapes the weights."""
    module, x = bench(batch, time, d_model, heads)
    with torch.no_grad():
        for linear in (module.W_q, module.W_k):
            linear.weight.zero_()
            linear.bias.zero_()
    return module, x


def run(which: str, name: str, module: MultiHeadAttention, x: Tensor):
    """(output, weights) of the "wrong" or "right" forward of a mistake."""
    with torch.no_grad():
        return getattr(MISTAKES[name], which)(module, x)


def split(module: MultiHeadAttention, x: Tensor):
    """q, k and v of every head by slices of the weight matrices: (batch, h, time, d_k) each."""
    found = []
    for linear in (module.W_q, module.W_k, module.W_v):
        heads = [
            x @ linear.weight[i * module.d_k : (i + 1) * module.d_k].T
            + linear.bias[i * module.d_k : (i + 1) * module.d_k]
            for i in range(module.heads)
        ]
        found.append(torch.stack(heads, dim=1).detach())
    return found


def sdpa(module: MultiHeadAttention, x: Tensor, keep: Tensor | None = None):
    """(output, weights) by F.scaled_dot_product_attention, heads cut and joined by slices."""
    q, k, v = split(module, x)
    if keep is not None:
        keep = keep.expand(x.shape[0], module.heads, x.shape[1], x.shape[1])
    ones = torch.eye(x.shape[1], dtype=x.dtype).expand(*q.shape[:2], -1, -1)
    with torch.no_grad():
        weights = F.scaled_dot_product_attention(q, k, ones, attn_mask=keep)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        joined = torch.cat([out[:, i] for i in range(module.heads)], dim=-1)
        return module.W_o(joined), weights


def multihead(module: MultiHeadAttention, x: Tensor, keep: Tensor | None = None):
    """(output, weights a head) by nn.MultiheadAttention; True = may attend here too."""
    twin = torch_twin(module).eval()
    ignore = None
    if keep is not None:
        full = keep.expand(x.shape[0], module.heads, x.shape[1], x.shape[1])
        ignore = ~full.reshape(-1, x.shape[1], x.shape[1])
    # With gradients on, torch takes its plain path, whatever shortcut it has for evaluation.
    output, weights = twin(x, x, x, attn_mask=ignore, average_attn_weights=False)
    return output.detach(), weights.detach()


def far(a: Tensor, b: Tensor) -> float:
    """Largest difference; infinite where one has a NaN."""
    assert a.shape == b.shape, (a.shape, b.shape)
    apart = (a.double() - b.double()).abs().max()
    return math.inf if apart.isnan() else float(apart)
