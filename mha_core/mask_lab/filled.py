"""Forward and backward under a fill, as in textbook code: what leaks, and where NaN is born.

Our own attention sets rows without a visible key to 0, in value and gradient; textbook code does
not, and that is what is run here. `ours=True` runs the same with our softmax, for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mha_core import masks
from mha_core.attention import merge, split, swap_time_and_heads
from mha_core.devices import DTYPES
from mha_core.errors import ConfigError
from mha_core.mask_lab.check import kind_of_rows
from mha_core.mask_lab.fill_records import HOWS, FillRun, Found, How, Leak
from mha_core.mask_lab.fills import Stored, stored
from mha_core.mask_lab.lab import Lab

FORWARD = (
    "input", "q", "k", "v", "scores", "scale", "mask", "softmax", "weighted_values", "merge",
    "output",
)  # fmt: skip
# In the order in which a gradient reaches them.
BACKWARD = (
    "output", "W_o", "merge", "weighted_values", "softmax", "v", "mask", "scale", "scores",
    "q", "k", "W_v", "W_q", "W_k", "input",
)  # fmt: skip


def run(
    lab: Lab,
    parts: tuple[Tensor, Tensor | None],
    fill: str,
    dtype: str,
    *,
    how: How = "replace",
    times: float = 1.0,
    backward: bool = False,
    ours: bool = False,
) -> FillRun:
    """Runs the lab's attention in `dtype` under a fill.

    Args:
        lab: weights and input, converted to `dtype`.
        parts: pattern (Tq, Tk) and padding (batch, 1, 1, Tk) or None, boolean, True = may attend.
        fill: a name in `fills.FILLS`, or a negative number.
        how: "replace" writes it with masked_fill; "add" adds a mask of 0 and the fill; "add twice"
            adds one such mask for the pattern and one for the padding, as code that keeps both
            apart does.
        times: factor on q, to see large scores.
        backward: also backpropagates the sum of the outputs at positions that see a key: those
            that see none are sliced off first, as a loss would.
        ours: rows that see no key become 0 (`masks.Fill.softmax`); the fill is -inf.

    Raises:
        ConfigError: an unknown dtype, fill or way.
    """
    if dtype not in DTYPES or how not in HOWS:
        field, value = ("dtype", dtype) if dtype not in DTYPES else ("how", how)
        works = ", ".join(DTYPES if field == "dtype" else HOWS)
        raise ConfigError(field, value, "is not offered", works=f"These work: {works}")
    keep = _joined(lab, parts)
    entry = stored("-inf" if ours else fill, DTYPES[dtype])
    if how == "replace" and entry.refused and not ours:
        return FillRun(fill, dtype, how, entry, error=entry.refused)
    tensors: dict[str, Tensor] = {}
    with torch.set_grad_enabled(backward):
        before = _scaled(lab, DTYPES[dtype], times, tensors)
        weights = _weights(before, parts, keep, entry, how, tensors, ours=ours)
        _after(lab, weights, tensors)
    return FillRun(
        "ours" if ours else fill,
        dtype,
        how,
        entry,
        leak=_leak(weights.detach(), keep),
        forward=tuple(_found(step, tensors[step], keep) for step in FORWARD),
        backward=_backward(tensors, keep) if backward else (),
    )


def survey(
    lab: Lab,
    parts: tuple[Tensor, Tensor | None],
    fills: Sequence[str],
    dtypes: Sequence[str],
    *,
    how: How = "replace",
    times: float = 1.0,
) -> list[list[FillRun]]:
    """Every fill in every dtype, forward as far as the weights, on the same scores of each dtype.

    Args:
        fills: names as in `run`, or "ours" for our own softmax.

    Returns:
        One list a fill, one run a dtype.
    """
    keep = _joined(lab, parts)
    columns = []
    with torch.no_grad():
        for dtype in dtypes:
            common: dict[str, Tensor] = {}
            scaled = _scaled(lab, DTYPES[dtype], times, common)
            begun = tuple(_found(step, tensor, None) for step, tensor in common.items()
                          if step in FORWARD)  # fmt: skip
            columns.append([_cell(scaled, begun, parts, keep, fill, dtype, how) for fill in fills])
    return [list(row) for row in zip(*columns, strict=True)]


def _cell(
    scaled: Tensor,
    begun: tuple[Found, ...],
    parts: tuple[Tensor, Tensor | None],
    keep: Tensor,
    fill: str,
    dtype: str,
    how: How,
) -> FillRun:
    ours = fill == "ours"
    entry = stored("-inf" if ours else fill, DTYPES[dtype])
    if how == "replace" and entry.refused and not ours:
        return FillRun(fill, dtype, how, entry, error=entry.refused)
    tensors: dict[str, Tensor] = {}
    weights = _weights(scaled, parts, keep, entry, how, tensors, ours=ours)
    ended = tuple(_found(step, tensor, keep) for step, tensor in tensors.items())
    return FillRun(fill, dtype, how, entry, leak=_leak(weights, keep), forward=begun + ended)


def _joined(lab: Lab, parts: tuple[Tensor, Tensor | None]) -> Tensor:
    keep = masks.combine(*parts)
    assert keep is not None
    return keep.broadcast_to(lab.batch, 1, lab.time, lab.time)


def _additive(
    parts: tuple[Tensor, Tensor | None], value: float, dtype: torch.dtype, how: How
) -> list[Tensor]:
    if how == "add":
        joined = masks.combine(*parts)
        assert joined is not None
        given = [joined]
    else:
        given = [part for part in parts if part is not None]
    # where(), not masked_fill, which refuses what does not fit; a cast lets it become -inf.
    hidden = torch.tensor(value, dtype=dtype, device=parts[0].device)
    return [torch.where(part, torch.zeros_like(hidden), hidden) for part in given]


def _note(tensors: dict[str, Tensor], name: str, tensor: Tensor) -> Tensor:
    if tensor.requires_grad:
        tensor.retain_grad()
    tensors[name] = tensor
    return tensor


def _project(tensors: dict[str, Tensor], name: str, linear: nn.Linear, x: Tensor) -> Tensor:
    """A projection in the dtype of x; its weight is a leaf where gradients are on."""
    weight = linear.weight.detach().to(x.dtype).requires_grad_(torch.is_grad_enabled())
    bias = None if linear.bias is None else linear.bias.detach().to(x.dtype)
    return nn.functional.linear(x, _note(tensors, name, weight), bias)


def _scaled(lab: Lab, dtype: torch.dtype, times: float, tensors: dict[str, Tensor]) -> Tensor:
    """The scaled scores, with every step up to them noted."""
    module = lab.module
    x = lab.x.detach().to(dtype).requires_grad_(torch.is_grad_enabled())
    _note(tensors, "input", x)
    q, k, _ = (
        _note(
            tensors,
            name,
            swap_time_and_heads(split(_project(tensors, f"W_{name}", linear, x), module.heads)),
        )
        for name, linear in (("q", module.W_q), ("k", module.W_k), ("v", module.W_v))
    )
    scores = (q if times == 1.0 else q * times) @ k.transpose(-2, -1)
    return _note(tensors, "scale", _note(tensors, "scores", scores) / module.d_k**0.5)


def _weights(
    scaled: Tensor,
    parts: tuple[Tensor, Tensor | None],
    keep: Tensor,
    fill: Stored,
    how: How,
    tensors: dict[str, Tensor],
    *,
    ours: bool,
) -> Tensor:
    """Mask and softmax, both noted."""
    masked = scaled
    if ours:
        masked = scaled.masked_fill(~keep, -torch.inf)
    elif how == "replace":
        masked = scaled.masked_fill(~keep, fill.asked)
    else:
        for add in _additive(parts, fill.becomes, scaled.dtype, how):
            masked = masked + add
    _note(tensors, "mask", masked)
    weights = masks.Fill().softmax(masked, keep) if ours else masked.softmax(-1)
    return _note(tensors, "softmax", weights)


def _after(lab: Lab, weights: Tensor, tensors: dict[str, Tensor]) -> None:
    """From the weights to the output."""
    heads = _note(tensors, "weighted_values", weights @ tensors["v"])
    merged = _note(tensors, "merge", merge(swap_time_and_heads(heads)))
    _note(tensors, "output", _project(tensors, "W_o", lab.module.W_o, merged))


def _backward(tensors: dict[str, Tensor], keep: Tensor) -> tuple[Found, ...]:
    alive = keep[:, 0].any(-1)  # (batch, Tq)
    loss = tensors["output"][alive].sum()
    if not alive.any():
        return ()
    loss.backward()
    found = []
    for step in BACKWARD:
        gradient = tensors[step].grad
        if gradient is not None:
            found.append(_found(step, gradient, None))
    return tuple(found)


def _found(step: str, tensor: Tensor, keep: Tensor | None) -> Found:
    tensor = tensor.detach()
    nan = tensor.isnan()
    infinite = tensor.isinf()
    if step == "mask" and keep is not None:
        infinite &= keep | (tensor != -torch.inf)
    count, other = int(nan.sum()), int(infinite.sum())
    first: tuple[int, ...] | None = None
    value = 0.0
    if count or other:
        first = tuple(int(i) for i in (nan if count else infinite).nonzero()[0])
        value = float(tensor[first])
    return Found(step, tuple(tensor.shape), count, other, tensor.numel(), first, value)


def _leak(weights: Tensor, keep: Tensor) -> Leak:
    """Of weights (batch, h, Tq, Tk) under keep (batch, 1, Tq, Tk)."""
    sees = keep.any(-1, keepdim=True)
    rows = ~sees.expand(*weights.shape[:-1], 1)[..., 0]
    masked = weights.float().masked_fill(keep | ~sees, 0.0).nan_to_num(0.0)
    largest = float(masked.max())
    place = None
    if largest > 0:
        place = tuple(int(i) for i in (masked == largest).nonzero()[0])
    return Leak(
        largest, place, float(masked.sum(-1).max()), int(rows.sum()), kind_of_rows(weights[rows])
    )
