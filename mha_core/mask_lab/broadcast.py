"""How a mask's shape broadcasts to (batch, h, Tq, Tk), axis by axis, and who refuses it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from mha_core import masks
from mha_core.errors import ConfigError
from mha_core.mask_lab.lab import Lab
from mha_core.proofs import as_multihead_attention

NAMES = ("batch", "h", "Tq", "Tk")
MOST_AXES = 8
MOST_CELLS = 2**22


@dataclass(frozen=True)
class Axis:
    """One axis of the scores, and what the mask has there.

    Attributes:
        name, size: of the scores; name "" for an axis that only the mask has.
        given: size in the mask; None where the mask has no such axis.
        verdict: "same", "stretched", "added" (as 1, then stretched), "wrong" or "extra".
    """

    name: str
    size: int
    given: int | None
    verdict: str

    @property
    def fits(self) -> bool:
        return self.verdict not in ("wrong", "extra")


@dataclass(frozen=True)
class Attempt:
    """What became of handing a mask of that shape over.

    Attributes:
        call: what was run.
        error: what it raised; "" where it ran.
    """

    call: str
    error: str


def parse_shape(text: str, sizes: dict[str, int]) -> tuple[int, ...]:
    """A shape as it is typed: sizes, or names of axes and products of them, with commas between.

    Args:
        text: "2, 1, 6, 6", "(batch, 1, Tq, Tk)", "batch*h, Tq, Tk".
        sizes: of the names.

    Raises:
        ConfigError: naming the part that cannot be read, or a shape too large to try.
    """
    inner = text.strip().removeprefix("(").removesuffix(")").strip().removesuffix(",")
    parts = [part.strip() for part in re.split(r"[,×x](?![a-z])", inner)] if inner else []
    shape = tuple(_size(part, sizes) for part in parts)
    if len(shape) > MOST_AXES:
        raise ConfigError("shape", text, f"must have at most {MOST_AXES} axes, not {len(shape)}")
    if math.prod(shape) > MOST_CELLS:
        raise ConfigError("shape", text, f"must have at most {MOST_CELLS:,} cells to be tried")
    return shape


def _size(part: str, sizes: dict[str, int]) -> int:
    product = 1
    for factor in re.split(r"[*·]", part):
        name = factor.strip()
        if name in sizes:
            product *= sizes[name]
        elif re.fullmatch(r"\d{1,9}", name, flags=re.ASCII):
            product *= int(name)
        else:
            raise ConfigError(
                "shape", name, "is neither a size nor the name of an axis",
                works=f"Names: {', '.join(sizes)}",
            )  # fmt: skip
    return product


def axes(shape: Sequence[int], target: Sequence[int]) -> list[Axis]:
    """The axes from the left, aligned at the right as broadcasting does."""
    width = max(len(shape), len(target))
    given = [None] * (width - len(shape)) + list(shape)
    wanted = [None] * (width - len(target)) + list(target)
    names = [""] * (width - len(target)) + list(NAMES)
    found = []
    for name, size, has in zip(names, wanted, given, strict=True):
        if size is None:
            assert has is not None
            found.append(Axis(name, 1, has, "extra"))
        elif has is None:
            found.append(Axis(name, size, None, "added"))
        elif has == size:
            found.append(Axis(name, size, has, "same"))
        else:
            found.append(Axis(name, size, has, "stretched" if has == 1 else "wrong"))
    return found


def expanded(shape: Sequence[int], target: Sequence[int]) -> Tensor | None:
    """A mask of that shape broadcast by torch, a view; None where it cannot be."""
    try:
        return torch.ones(tuple(shape), dtype=torch.bool).expand(tuple(target))
    except RuntimeError:
        return None


def traps(shape: Sequence[int], target: Sequence[int]) -> list[str]:
    """Where sizes that happen to be equal let a mask through with another meaning."""
    batch, heads, time_q, time_k = target
    found = []
    if tuple(shape) == (time_q, time_k) and batch == time_q:
        found.append(
            f"({batch}, {time_k}) could also be meant as (batch, Tk): batch and Tq are both "
            f"{batch}, so a padding mask passes here and is read as (Tq, Tk). Write it as "
            f"({batch}, 1, 1, {time_k})."
        )
    if tuple(shape) == (heads, time_q, time_k) and batch == heads:
        found.append(
            f"({batch}, {time_q}, {time_k}) could also be meant as (batch, Tq, Tk): batch and h "
            f"are both {batch}, so it passes here and item b's mask is read as head b's. Write it "
            f"as ({batch}, 1, {time_q}, {time_k})."
        )
    if len(shape) >= 2 and shape[-2:] == (time_k, time_q) and time_q == time_k > 1:
        found.append(
            "Tq and Tk are equal, so a transposed mask (Tk, Tq) has the same shape: only its "
            "values tell."
        )
    return found


def ours(shape: Sequence[int], target: Sequence[int]) -> str:
    """This package's refusal of the shape; "" where it broadcasts."""
    try:
        masks.check_shape(torch.ones(tuple(shape), dtype=torch.bool), target)
    except ConfigError as error:
        return str(error)
    return ""


def attempts(shape: Sequence[int], lab: Lab) -> list[Attempt]:
    """Hands a mask of that shape, with every key visible, to torch: what passes, what raises."""
    device = lab.x.device
    keep = torch.ones(tuple(shape), dtype=torch.bool, device=device)
    q, k, v = lab.qkv
    scores = torch.zeros(lab.shape, device=device)
    theirs = as_multihead_attention(lab.module)

    def multihead(**given: Tensor) -> object:
        return theirs(lab.x, lab.x, lab.x, **given)

    tried: list[tuple[str, Callable[[], object]]] = [
        (
            "F.scaled_dot_product_attention(q, k, v, attn_mask=mask)",
            lambda: F.scaled_dot_product_attention(q, k, v, attn_mask=keep),
        ),
        ("scores.masked_fill(~mask, -torch.inf)", lambda: scores.masked_fill(~keep, -torch.inf)),
        ("mha(x, x, x, attn_mask=~mask)", lambda: multihead(attn_mask=~keep)),
        ("mha(x, x, x, key_padding_mask=~mask)", lambda: multihead(key_padding_mask=~keep)),
    ]
    return [Attempt(call, _raised(run)) for call, run in tried]


def _raised(run: Callable[[], object]) -> str:
    try:
        with torch.no_grad():
            run()
    except (RuntimeError, ValueError, AssertionError, IndexError) as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return ""
