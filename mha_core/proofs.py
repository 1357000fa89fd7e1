"""Live proofs on the run in view: each says what was measured, and whether it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_core import masks
from mha_core.attention import MultiHeadAttention
from mha_core.inputs import generator
from mha_core.trace import Trace

# Largest differences allowed, by dtype, relative to the largest value compared. Two orders of
# summation differ by a few units in the last place; the half types have 8 and 11 bits.
_TOLERANCE = {
    torch.float64: 1e-12,
    torch.float32: 2e-5,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}


@dataclass(frozen=True)
class Proof:
    """What was checked, whether it holds, and the figures behind it.

    Attributes:
        name: e.g. "rows sum to 1".
        holds: None where there is nothing to check, with `detail` saying why.
        figure: the number measured, in words.
        detail: what it means.
    """

    name: str
    holds: bool | None
    figure: str
    detail: str


def prove(trace: Trace) -> list[Proof]:
    """All proofs of a trace whose tensors were kept."""
    return [row_sums(trace), leak(trace), parity(trace), finite(trace)]


def row_sums(trace: Trace) -> Proof:
    """Every row of weights sums to 1 over its visible keys."""
    weights = trace.weights
    total = weights.sum(-1, dtype=torch.promote_types(weights.dtype, torch.float32))
    sees = torch.ones_like(total, dtype=torch.bool)
    # A finite fill leaves a row that sees no key an even spread; only -inf makes it 0.
    added = trace.mask is not None and trace.mask.dtype is not torch.bool
    if trace.visible is not None and (added or math.isinf(trace.config.fill)):
        sees = trace.visible.any(-1).broadcast_to(total.shape)
    deviation = (total - sees.to(total.dtype)).abs()
    worst = float(deviation.max())
    # A sum of `time` rounded weights is off by half a unit in the last place, at worst for each.
    allowed = max(1e-6, torch.finfo(weights.dtype).eps * 4)
    blind = int((~sees).sum())
    note = f"; {blind:,} rows see no key and are all 0" if blind else ""
    dropped = "; after dropout they do not" if "dropout" in trace else ""
    return Proof(
        "rows sum to 1",
        bool(worst <= allowed),
        f"largest deviation {worst:.1e}",
        f"{total.numel():,} rows of weights over their visible keys{note}{dropped}",
    )


def leak(trace: Trace) -> Proof:
    """Tokens after position t are replaced: do outputs up to t change, with causal and without?"""
    config = trace.config
    if config.time < 2:
        return Proof("no leak from the future", None, "time is 1", "there is no future to replace")
    t = (config.time - 1) // 2
    changed = trace.x.clone()
    rng = generator(config.seed, "leak")
    fresh = torch.randn(changed[:, t + 1 :].shape, generator=rng, dtype=torch.float32)
    changed[:, t + 1 :] = fresh.to(changed.device, changed.dtype)
    with_causal = _difference_until(trace, changed, t, causal=True)
    without = _difference_until(trace, changed, t, causal=False)
    used = with_causal if config.causal else without
    if config.causal:
        figure = f"{used:.2g} (without causal: {without:.2g})"
    else:
        figure = f"leaks {used:.2g} (with causal: {with_causal:.2g})"
    return Proof(
        "no leak from the future",
        used == 0.0,
        figure,
        f"change of the outputs at positions 0–{t} when the tokens after {t} are replaced",
    )


def _difference_until(trace: Trace, changed: Tensor, t: int, *, causal: bool) -> float:
    def output(x: Tensor) -> Tensor:
        rng = generator(trace.config.seed, "dropout", x.device.type)
        with torch.no_grad():
            result: Tensor = trace.module(x, causal=causal, mask=trace.mask, generator=rng)
        return result[:, : t + 1]

    return _largest_difference(output(trace.x), output(changed))


def parity(trace: Trace) -> Proof:
    """The same weights in torch's own attention give the same numbers."""
    config = trace.config
    q, k, v = (trace.tensor(f"transpose_{n}") for n in "qkv")
    full = masks.combine(_causal(trace), trace.mask)
    if full is not None:
        full = torch.atleast_2d(full)  # torch's function takes no mask of one axis
    with torch.no_grad():
        theirs = F.scaled_dot_product_attention(
            q, k, v, attn_mask=_additive(full, trace), scale=config.scale
        )
    heads = _undropped(trace, "weighted_values")
    difference = _largest_difference(heads, theirs)
    figures = [f"SDPA {difference:.1e}"]
    # Each by its own comparison: `max` would pass over a NaN.
    relative = [difference / max(1.0, float(theirs.abs().max()))]
    note = "; nn.MultiheadAttention knows no other scale"
    if config.scale is None:
        difference, size, blind = _multihead(trace, full)
        relative.append(difference / size)
        figures.insert(0, f"nn.MHA {difference:.1e}")
        note = f"; {blind:,} positions see no key, where it has NaN" if blind else ""
    return Proof(
        "equals torch",
        all(value <= _TOLERANCE[config.torch_dtype] for value in relative),
        ", ".join(figures),
        "largest difference from nn.MultiheadAttention and F.scaled_dot_product_attention "
        f"with the same weights{note}",
    )


def _causal(trace: Trace) -> Tensor | None:
    if not trace.config.causal:
        return None
    return masks.causal(trace.config.time, device=trace.x.device)


def _additive(full: Tensor | None, trace: Trace) -> Tensor | None:
    """The mask as torch's functions take it; a finite fill only exists as an additive one."""
    if full is None or math.isinf(trace.config.fill) or full.dtype is not torch.bool:
        return full
    zeros = torch.zeros_like(full, dtype=trace.x.dtype)
    return zeros.masked_fill(~full, trace.config.fill)


def _undropped(trace: Trace, step: str) -> Tensor:
    """The tensor of a step: the trace's own, or where dropout ran, that of a run without it."""
    if "dropout" not in trace:
        return trace.tensor(step)
    found: dict[str, Tensor] = {}

    def observe(name: str, tensor: Tensor) -> Tensor:
        if name == step:
            found[name] = tensor
        return tensor

    # A copy: the module of a cached trace is shared between sessions and stays as it is.
    twin = eval_twin(trace.module)
    with torch.no_grad():
        twin(trace.x, causal=trace.config.causal, mask=trace.mask, observe=observe)
    return found[step]


def eval_twin(module: MultiHeadAttention) -> MultiHeadAttention:
    """The same weights, shared, in eval mode; the module given is left as it is."""
    twin = MultiHeadAttention(
        module.d_model,
        module.heads,
        bias=module.W_q.bias is not None,
        scale=module.scale,
        fill=module.fill,
        device="meta",
        dtype=module.W_q.weight.dtype,
    )
    twin.load_state_dict(module.state_dict(), assign=True)
    return twin.eval()


def _multihead(trace: Trace, full: Tensor | None) -> tuple[float, float, int]:
    """Difference in output from nn.MultiheadAttention, the size of its output, and how many
    positions were left out of it because a head of them sees no key."""
    theirs = as_multihead_attention(trace.module)
    batch, heads, time = trace.config.batch, trace.config.heads, trace.config.time
    sees = torch.ones(batch, time, dtype=torch.bool, device=trace.x.device)
    blocked = _additive(full, trace)
    if blocked is not None:
        if blocked.dtype is torch.bool:
            blocked = masks.flip(blocked)  # True = ignore there
        blocked = blocked.broadcast_to(batch, heads, time, time)
        hidden = blocked if blocked.dtype is torch.bool else blocked == -torch.inf
        sees = ~hidden.all(-1).any(1)
        # (batch, h, time, time) -> (batch * h, time, time)
        blocked = blocked.reshape(-1, time, time)
    ours = _undropped(trace, "output")
    with torch.no_grad():
        out, _ = theirs(trace.x, trace.x, trace.x, attn_mask=blocked, need_weights=True)
    blind = int((~sees).sum())
    if blind == sees.numel():
        return 0.0, 1.0, blind
    return _largest_difference(ours[sees], out[sees]), max(1.0, float(out[sees].abs().max())), blind


def as_multihead_attention(module: MultiHeadAttention) -> nn.MultiheadAttention:
    """torch's own module with the same weights, batch first, in eval mode."""
    bias = module.W_q.bias is not None
    theirs = nn.MultiheadAttention(
        module.d_model, module.heads, bias=bias, batch_first=True, device="meta"
    )
    packed = (module.W_q, module.W_k, module.W_v)
    state = {
        "in_proj_weight": torch.cat([linear.weight.detach() for linear in packed]),
        "out_proj.weight": module.W_o.weight.detach(),
    }
    if bias:
        state["in_proj_bias"] = torch.cat([linear.bias.detach() for linear in packed])
        state["out_proj.bias"] = module.W_o.bias.detach()
    theirs.load_state_dict(state, assign=True)
    return theirs.eval()


def finite(trace: Trace) -> Proof:
    """NaN and infinity at each step; the −∞ that a mask writes is meant, and not counted."""
    checked = bad = 0
    first = ""
    for step in trace.steps:
        if step.tensor is None:
            continue
        checked += 1
        wrong = ~torch.isfinite(step.tensor)
        if step.id == "mask" and trace.visible is not None:
            wrong &= trace.visible | (step.tensor != -torch.inf)
        count = int(wrong.sum())
        if count and not first:
            place = tuple(int(i) for i in wrong.nonzero()[0])
            first = f"first in {step.id}{list(place)} = {float(step.tensor[place])}"
        bad += count
    return Proof(
        "finite everywhere",
        bad == 0,
        f"{bad:,} NaN or infinite in {checked} tensors" + (f", {first}" if first else ""),
        "every number of every step, but the −∞ that a mask writes",
    )


def _largest_difference(a: Tensor, b: Tensor) -> float:
    wide = torch.promote_types(a.dtype, torch.float32)
    return float((a.to(wide) - b.to(wide)).abs().max())
