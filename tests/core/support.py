"""What the tests of the core share: sizes, seeded tensors, and oracles that share no code with it.

Sizes differ pairwise on every axis, and are primes where they can be, so that a swapped axis
cannot pass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mha_core import MHAConfig, MultiHeadAttention
from mha_core.inputs import build_module

BATCH, HEADS, TIME, D_K = 2, 3, 5, 7
D_MODEL = HEADS * D_K
TIME_K, D_V = 11, 13

SIZES: dict[str, Any] = {"batch": BATCH, "time": TIME, "d_model": D_MODEL, "heads": HEADS}


def config(**changes: Any) -> MHAConfig:
    """The odd sizes in float64, unless changed."""
    return MHAConfig(**(SIZES | {"dtype": "float64"} | changes))


def configs(**fixed: Any) -> st.SearchStrategy[MHAConfig]:
    """Configurations small enough to run, of every shape: one head, one position, one of each."""

    def build(heads: int, d_k: int, **fields: Any) -> MHAConfig:
        return MHAConfig(**({"heads": heads, "d_model": heads * d_k} | fields | fixed))

    return st.builds(
        build,
        heads=st.integers(1, 5),
        d_k=st.integers(1, 7),
        batch=st.integers(1, 3),
        time=st.integers(1, 9),
        causal=st.booleans(),
        bias=st.booleans(),
        dtype=st.sampled_from(["float32", "float64"]),
        seed=st.integers(0, 2**32),
    )


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype)


def qkv(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v with as many keys as no other axis has, and d_v other than d_k."""
    return (
        randn(BATCH, HEADS, TIME, D_K, seed=1, dtype=dtype),
        randn(BATCH, HEADS, TIME_K, D_K, seed=2, dtype=dtype),
        randn(BATCH, HEADS, TIME_K, D_V, seed=3, dtype=dtype),
    )


def seeded(**changes: Any) -> MultiHeadAttention:
    """A module of the odd sizes in float64, with seeded weights."""
    return build_module(config(**changes))


def torch_twin(module: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's own module with the same weights: its three input matrices are stacked in one."""
    layers = (module.W_q, module.W_k, module.W_v)
    bias = module.W_q.bias is not None
    twin = nn.MultiheadAttention(
        module.d_model, module.heads, bias=bias, batch_first=True, dtype=module.W_q.weight.dtype
    )
    with torch.no_grad():
        twin.in_proj_weight.copy_(torch.cat([layer.weight for layer in layers]))
        twin.out_proj.weight.copy_(module.W_o.weight)
        if bias:
            twin.in_proj_bias.copy_(torch.cat([layer.bias for layer in layers]))
            twin.out_proj.bias.copy_(module.W_o.bias)
    return twin


def softmax(scores: np.ndarray) -> np.ndarray:
    """Over the last axis, for rows with at least one finite score."""
    spread = np.exp(scores - scores.max(-1, keepdims=True))
    return spread / spread.sum(-1, keepdims=True)


def numpy_attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, keep: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Attention of one head by the book: q (Tq, d_k), k (Tk, d_k), v (Tk, d_v)."""
    scores = q @ k.T / math.sqrt(q.shape[1])
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


class Listing(TorchDispatchMode):
    """The names of the operators that torch dispatched, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func.overloadpacket))
        return func(*args, **(kwargs or {}))


def close(one: Tensor, other: Tensor, tolerance: float = 1e-12) -> bool:
    """Equal to an absolute tolerance; never where either has a NaN."""
    return one.shape == other.shape and bool((one - other).abs().max() <= tolerance)
