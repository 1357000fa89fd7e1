"""Where a model's attention layers are: projections found by the names that models give them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mha_core.attention import MultiHeadAttention

# Names of the three projections: BERT, RoBERTa, ViT; GPT-like and Whisper; DistilBERT; T5, MPNet;
# DeBERTa; ours.
_SEPARATE = (
    ("query", "key", "value"),
    ("q_proj", "k_proj", "v_proj"),
    ("q_lin", "k_lin", "v_lin"),
    ("q", "k", "v"),
    ("query_proj", "key_proj", "value_proj"),
    ("W_q", "W_k", "W_v"),
)
_FUSED = ("c_attn", "query_key_value", "Wqkv", "qkv", "in_proj")
_OUT = ("o_proj", "out_proj", "out_lin", "c_proj", "dense", "o", "Wo", "proj", "W_o")
# Attention from one sequence to another is not self-attention.
_CROSS = ("encoder_attn", "EncDecAttention", "crossattention", "cross_attn", "multihead_attn")


@dataclass(frozen=True)
class Site:
    """One attention module of a model.

    Attributes:
        path: its name in the model.
        core: the module that holds the projections and returns the weights.
        inputs: the modules of W_q, W_k, W_v, or the one that is all three.
        out: the module of W_o; None where it was not found.
    """

    path: str
    core: nn.Module
    inputs: tuple[nn.Module, ...]
    out: nn.Module | None

    @property
    def fused(self) -> bool:
        return len(self.inputs) == 1

    @property
    def heads(self) -> int | None:
        """Number of heads, as the module or its configuration says."""
        for owner in (self.core, getattr(self.core, "config", None)):
            for name in ("num_attention_heads", "num_heads", "n_heads", "n_head", "heads"):
                value = getattr(owner, name, None)
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        return None


def sites(model: nn.Module) -> list[Site]:
    """The self-attention modules of a model, in the order of its modules."""
    modules = dict(model.named_modules())
    found = []
    for path, core in modules.items():
        if any(part in _CROSS for part in path.split(".")):
            continue
        inputs = _inputs(core)
        if inputs is not None:
            parent = modules.get(path.rpartition(".")[0]) if path else None
            found.append(Site(path, core, inputs, _out(core, parent)))
    return found


def _inputs(core: nn.Module) -> tuple[nn.Module, ...] | None:
    children = dict(core.named_children())
    for names in _SEPARATE:
        three = [children[name] for name in names if name in children]
        if len(three) == 3 and all(weight_of(module) is not None for module in three):
            return tuple(three)
    for name in _FUSED:
        if name in children and weight_of(children[name]) is not None and _out(core, None):
            return (children[name],)
    return None


def _out(core: nn.Module, parent: nn.Module | None) -> nn.Module | None:
    """W_o: in the module, or in BERT's way in the `output` beside it."""
    beside = getattr(parent, "output", None)
    for owner in (core, beside):
        if isinstance(owner, nn.Module):
            for name in _OUT:
                child = getattr(owner, name, None)
                if isinstance(child, nn.Module) and weight_of(child) is not None:
                    return child
    return None


def weight_of(module: nn.Module) -> Tensor | None:
    """(out, in), as nn.Linear keeps it; GPT-2's Conv1D keeps the transposed one."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        return None
    return weight.detach().T if type(module).__name__ == "Conv1D" else weight.detach()


def bias_of(module: nn.Module) -> Tensor | None:
    bias = getattr(module, "bias", None)
    return bias.detach() if isinstance(bias, Tensor) else None


def arguments(
    core: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
) -> dict[str, object]:
    """A call's arguments by name, those given as **kwargs among them."""
    try:
        bound = inspect.signature(core.forward).bind_partial(*args, **kwargs).arguments
    except TypeError:
        return dict(kwargs)
    named = {name: value for name, value in bound.items() if name != "kwargs"}
    extra = bound.get("kwargs")
    return named | (extra if isinstance(extra, dict) else {})


def candidates(site: Site, heads: int, scale: float | None) -> Iterator[MultiHeadAttention]:
    """The site's weights as ours: one reading, or for a fused projection both.

    Stacked, rows are [q; k; v]; interleaved, they are [q; k; v] head by head (GPT-NeoX, BLOOM).
    Shapes do not tell them apart; the run does.
    """
    if site.out is None:
        return
    if not site.fused:
        three = [(weight_of(module), bias_of(module)) for module in site.inputs]
        yield _module(three, site.out, heads, scale)
        return
    weight, bias = weight_of(site.inputs[0]), bias_of(site.inputs[0])
    assert weight is not None
    d_model = weight.shape[1]
    stacked = torch.arange(3 * d_model).view(3, -1)
    interleaved = torch.arange(3 * d_model).view(heads, 3, -1).transpose(0, 1).reshape(3, -1)
    for rows in (stacked, interleaved):
        three = [(weight[part], None if bias is None else bias[part]) for part in rows]
        yield _module(three, site.out, heads, scale)


def _module(
    three: list[tuple[Tensor | None, Tensor | None]],
    out: nn.Module,
    heads: int,
    scale: float | None,
) -> MultiHeadAttention:
    pairs = [*three, (weight_of(out), bias_of(out))]
    first = pairs[0][0]
    assert first is not None
    # A bias that one of them lacks (Whisper's keys) is zero.
    bias = any(b is not None for _, b in pairs)
    module = MultiHeadAttention(
        first.shape[1], heads, bias=bias, scale=scale, device=first.device, dtype=first.dtype
    )
    linears = (module.W_q, module.W_k, module.W_v, module.W_o)
    with torch.no_grad():
        for linear, (weight, own) in zip(linears, pairs, strict=True):
            assert weight is not None
            linear.weight.copy_(weight)
            if bias:
                linear.bias.copy_(torch.zeros_like(linear.bias) if own is None else own)
    return module.eval().requires_grad_(False)
