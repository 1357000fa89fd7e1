"""One flat matrix for all heads, h matrices one a head, and one for q, k and v together.

All three hold the same numbers and give the same q, k and v of (batch, h, time, d_k). They differ
in how many parameter tensors there are, and in how many operators torch dispatches.

`nn.Linear` keeps its weight transposed: (out, in). So the columns i·d_k to (i+1)·d_k − 1 of W_q in
x @ W_q, which are head i's, are the *rows* i·d_k to (i+1)·d_k − 1 of `W_q.weight`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mha_core.aten import DispatchRecorder
from mha_core.attention import MultiHeadAttention, split, swap_time_and_heads

QKV = tuple[Tensor, Tensor, Tensor]
Linears = tuple[nn.Linear, nn.Linear, nn.Linear]

# What each is called, in the order of tables and legends.
LABELS = {
    "flat": "one flat matrix each",
    "separate": "h matrices each, stacked",
    "apart": "h matrices each, left apart",
    "fused": "one fused QKV matrix",
}


class FlatProjection(nn.Module):
    """W_q, W_k and W_v of (d_model, d_model) each: heads are columns of the result."""

    def __init__(self, linears: Linears, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v = (_linear(one.weight, one.bias) for one in linears)

    def forward(self, x: Tensor) -> QKV:
        """(batch, time, d_model) -> three of (batch, h, time, d_k), views of one product each."""
        q, k, v = (
            swap_time_and_heads(split(linear(x), self.heads))
            for linear in (self.W_q, self.W_k, self.W_v)
        )
        return q, k, v


class SeparateProjections(nn.Module):
    """h matrices of (d_model, d_k) for q, as many for k and for v: one a head."""

    def __init__(self, linears: Linears, heads: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (_by_head(one, heads) for one in linears)

    def apart(self, x: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Three lists of h tensors (batch, time, d_k), for attention head by head."""
        q, k, v = ([head(x) for head in heads] for heads in (self.q, self.k, self.v))
        return q, k, v

    def forward(self, x: Tensor) -> QKV:
        """Three of (batch, h, time, d_k): stacked, for attention over all heads at once."""
        q, k, v = (torch.stack(heads, dim=1) for heads in self.apart(x))
        return q, k, v


class FusedProjection(nn.Module):
    """W_q, W_k and W_v side by side in one (d_model, 3·d_model), as GPT-2 and torch keep them."""

    def __init__(self, linears: Linears, heads: int) -> None:
        super().__init__()
        self.heads = heads
        weights: list[Tensor] = [one.weight for one in linears]
        biases: list[Tensor] = [one.bias for one in linears if one.bias is not None]
        self.W_qkv = _linear(torch.cat(weights), torch.cat(biases) if biases else None)

    def forward(self, x: Tensor) -> QKV:
        """(batch, time, d_model) -> three of (batch, h, time, d_k), views of one product."""
        batch, time, d_model = x.shape
        # (batch, time, 3·d_model) -> (batch, time, 3, h, d_k) -> (3, batch, h, time, d_k)
        parts = self.W_qkv(x).view(batch, time, 3, self.heads, d_model // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        return q, k, v


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A layer with these numbers in memory of its own."""
    out, width = weight.shape
    linear = nn.Linear(width, out, bias=bias is not None, device="meta", dtype=weight.dtype)
    linear = linear.to_empty(device=weight.device)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def _by_head(linear: nn.Linear, heads: int) -> nn.ModuleList:
    """Rows of the weight, which are columns of the matrix, cut into one layer a head."""
    weights = linear.weight.chunk(heads)
    biases: Sequence[Tensor | None] = (
        [None] * heads if linear.bias is None else linear.bias.chunk(heads)
    )
    return nn.ModuleList(_linear(*pair) for pair in zip(weights, biases, strict=True))


@dataclass(frozen=True)
class Facts:
    """One way to project, as it ran.

    Attributes:
        name: key in `LABELS`.
        shape: of one weight as `nn.Linear` keeps it, (out, in).
        matrices: weights of that shape.
        tensors: parameter tensors, biases too.
        parameters: numbers in them.
        operators: operator -> how often torch dispatched one that writes memory. Views launch no
            kernel and are left out.
        difference: largest difference from the flat matrix's q, k and v.
        exact: the same with weights and input in float64.
    """

    name: str
    shape: tuple[int, int]
    matrices: int
    tensors: int
    parameters: int
    operators: dict[str, int]
    difference: float
    exact: float

    @property
    def kernels(self) -> int:
        return sum(self.operators.values())


def linears(module: MultiHeadAttention) -> Linears:
    return module.W_q, module.W_k, module.W_v


def rows_compared(x: Tensor) -> int:
    """Positions that the differences are taken over: all, or as many as take half a GFLOP."""
    batch, time, d_model = x.shape
    return max(1, min(batch * time, 2**29 // (6 * d_model * d_model)))


def compare(module: MultiHeadAttention, x: Tensor) -> list[Facts]:
    """Runs all ways to project on the module's weights, and says how they differ.

    A position's q, k and v depend on nothing but its own row of x, so a part of them tells.

    Args:
        module: its W_q, W_k and W_v.
        x: (batch, time, d_model).
    """
    some = x.detach().reshape(1, -1, module.d_model)[:, : rows_compared(x)]
    single = _modules(linears(module), module.heads)
    double = _modules(_doubled(linears(module)), module.heads)
    with torch.no_grad():
        flat = _flat(single["flat"](some))
        exact = _flat(double["flat"](some.double()))
    return [_facts(name, single[name], double[name], some, flat, exact) for name in LABELS]


def _modules(weights: Linears, heads: int) -> dict[str, nn.Module]:
    """The module of each way; left apart or stacked, the separate ones are the same."""
    made = {name: built(name, weights, heads) for name in ("flat", "separate", "fused")}
    return made | {"apart": made["separate"]}


def _doubled(single: Linears) -> Linears:
    q, k, v = (
        _linear(one.weight.double(), None if one.bias is None else one.bias.double())
        for one in single
    )
    return q, k, v


def _facts(
    name: str, made: nn.Module, double: nn.Module, x: Tensor, flat: Tensor, exact: Tensor
) -> Facts:
    with torch.no_grad():
        with DispatchRecorder() as recorder:
            result = called(name, made)(x)
            operators = recorder.take()
        wide = called(name, double)(x.double())
        difference = (_flat(result).double() - flat.double()).abs().max()
        error = (_flat(wide) - exact).abs().max()
    weights = [p for p in made.parameters() if p.dim() == 2]
    writing = Counter(op.name.removeprefix("aten.") for op in operators if op.allocated)
    return Facts(
        name=name,
        shape=(weights[0].shape[0], weights[0].shape[1]),
        matrices=len(weights),
        tensors=len(list(made.parameters())),
        parameters=sum(p.numel() for p in made.parameters()),
        operators=dict(writing),
        difference=float(difference),
        exact=float(error),
    )


def built(name: str, weights: Linears, heads: int) -> nn.Module:
    """The module of a way to project."""
    if name == "flat":
        return FlatProjection(weights, heads)
    if name == "fused":
        return FusedProjection(weights, heads)
    return SeparateProjections(weights, heads)


def called(name: str, module: nn.Module) -> Callable[[Tensor], object]:
    """What runs it."""
    return module.apart if isinstance(module, SeparateProjections) and name == "apart" else module


def _flat(result: object) -> Tensor:
    """q, k and v in one tensor (3, batch, h, time, d_k), whatever they were returned as."""
    assert isinstance(result, tuple)
    return torch.stack([torch.stack(p, 1) if isinstance(p, list) else p for p in result])


@dataclass(frozen=True)
class OneHead:
    """One head's share of W_q, on the first position of x.

    Attributes:
        start, stop: its columns of W_q, which are rows of `W_q.weight`.
        offset: of its first number in the storage of `W_q.weight`, whose rows lie one after
            the other, so that the head's numbers are one block.
        alone: (d_k,), the product with its own (d_model, d_k) matrix.
        flat: (d_k,), its columns of the flat product.
    """

    start: int
    stop: int
    offset: int
    alone: Tensor
    flat: Tensor


def one_head(module: MultiHeadAttention, x: Tensor, head: int) -> OneHead:
    """The product of one head alone beside the columns of the flat one."""
    start, stop = head * module.d_k, (head + 1) * module.d_k
    rows = module.W_q.weight.detach()[start:stop]
    bias = None if module.W_q.bias is None else module.W_q.bias.detach()[start:stop]
    first = x[:1, 0]
    with torch.no_grad():
        alone = nn.functional.linear(first, rows, bias)[0]
        flat = module.W_q(first)[0, start:stop]
    return OneHead(start, stop, int(rows.storage_offset()), alone, flat)


def summary(facts: Sequence[Facts], heads: int) -> str:
    """What the facts come to, in a sentence or two."""
    by_name = {one.name: one for one in facts}
    flat, separate, fused = (by_name[name] for name in ("flat", "separate", "fused"))
    times = separate.tensors / flat.tensors
    same = len({one.parameters for one in facts}) == 1
    largest, exact = max(one.difference for one in facts), max(one.exact for one in facts)
    apart = f"differ by at most {largest:.2g}, in float64 by {exact:.2g}"
    if largest == exact == 0:
        apart = "are equal bit for bit, in float64 too"
    return (
        f"{flat.parameters:,} numbers{' whichever way' if same else ' in the flat matrices'}. "
        f"At h = {heads}, separate matrices are {separate.tensors:,} parameter tensors instead of "
        f"{flat.tensors}, {times:g} times as many, and launch {separate.kernels:,} kernels instead "
        f"of {flat.kernels}; the fused matrix launches {fused.kernels}. Views (view, transpose, "
        f"chunk) launch none. q, k and v {apart}."
    )
