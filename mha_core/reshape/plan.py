"""From what was typed to a chain of resolved steps that torch will run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mha_core.reshape import einops_plan
from mha_core.reshape.atoms import Parts, parts
from mha_core.reshape.chain import Call, parse_chain
from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.limits import ITEM, MAX_AXES, MAX_NUMEL, too_many
from mha_core.reshape.ops import Op, apply
from mha_core.reshape.pattern import parse_pattern
from mha_core.reshape.resolve import resolve
from mha_core.reshape.site import Site
from mha_core.reshape.values import Item, parse_axes, parse_shape
from mha_core.reshape.why import REGROUPS, blocking, merging


@dataclass(frozen=True)
class Plan:
    """A reshape that can run.

    Attributes:
        shape, names: of x; "" for an axis without a name.
        ops: the steps.
        pattern: as typed, for einops; None for a chain.
        repeats: whether that pattern has new axes, which einops.repeat makes.
        sizes: of the named axes that einops is told, by name.
        parts: the atoms of every step.
    """

    shape: tuple[int, ...]
    names: tuple[str, ...]
    ops: tuple[Op, ...]
    pattern: str | None
    repeats: bool
    sizes: tuple[tuple[str, int], ...]
    parts: Parts

    @property
    def numel(self) -> int:
        """Elements of x."""
        return math.prod(self.shape)


def plan_pattern(pattern: str, shape: str = "", axes: str = "") -> Plan:
    """An einops pattern as a chain of steps.

    Args:
        pattern: e.g. "b t (h d) -> b h t d"; new axes on the right repeat.
        shape: of x, e.g. "2, 6, 32"; may be left out where `axes` gives every size.
        axes: sizes of named axes, e.g. "h=4".

    Raises:
        ReshapeError: names the text, the place in it, and what would work.
    """
    sizes = parse_axes(axes)
    known = {name: item.value for name, item in sizes.items()}
    items = parse_shape(shape, known)
    tree = parse_pattern(pattern)
    made = einops_plan.compile_pattern(tree, items, sizes, shape_text=shape, axes_text=axes)
    return Plan(
        made.shape, made.names, made.ops, tree.for_einops, tree.repeats, made.told,
        parts(made.shape, made.names, made.ops),
    )  # fmt: skip


def plan_chain(chain: str, shape: str, axes: str = "") -> Plan:
    """A chain of torch steps.

    Args:
        chain: e.g. "view(2, 6, 4, 8).transpose(1, 2)"; names in it stand for `axes`.
        shape: of x, e.g. "2, 6, 32" or "b, t, h*d".
        axes: sizes of names, e.g. "b=2 t=6 h=4 d=8".

    Raises:
        ReshapeError: names the text, the place in it, and what would work. A view that the strides
            do not allow is torch's own refusal, explained.
    """
    sizes = {name: item.value for name, item in parse_axes(axes).items()}
    items = parse_shape(shape, sizes)
    check_shape(shape, items)
    start = tuple(item.value for item in items)
    names = tuple(item.name for item in items)
    ops: list[Op] = []
    x = torch.empty(start, dtype=torch.int32, device="meta")
    for call in parse_chain(chain, sizes):
        before = (start, names) if not ops else (ops[-1].shape, ops[-1].names)
        op = resolve(Site(chain, call, *before))
        ops.append(op)
        mixes = len(ops) in parts(start, names, ops).regroups
        x = _tried(op, x, Site(chain, call, *before), mixes=mixes)
    return Plan(start, names, tuple(ops), None, False, (), parts(start, names, ops))


def check_shape(text: str, items: list[Item]) -> None:
    """Refuses a shape that is missing, has too many axes, or holds too much."""
    if not items:
        raise ReshapeError(
            "shape", text, len(text), len(text), "the shape of x is missing",
            works="A shape is written as 2, 6, 32",
        )  # fmt: skip
    if len(items) > MAX_AXES:
        extra = items[MAX_AXES]
        raise ReshapeError(
            "shape", text, extra.start, items[-1].end,
            f"{len(items)} axes, and at most {MAX_AXES} are drawn",
            works=f"The first {MAX_AXES} would work",
        )  # fmt: skip
    numel = math.prod(item.value for item in items)
    if numel > MAX_NUMEL:
        largest = max(items, key=lambda item: item.value)
        fits = MAX_NUMEL * largest.value // numel
        works = f"{largest.value:,} could be {fits:,} at most" if fits else "Lower several sizes"
        raise ReshapeError(
            "shape", text, items[0].start, items[-1].end, too_many(numel), works=works
        )


def _tried(op: Op, x: torch.Tensor, site: Site, *, mixes: bool) -> torch.Tensor:
    """The step on a tensor without memory: torch checks strides there as it does anywhere."""
    call: Call = site.call
    try:
        made = apply(op, x)
    except RuntimeError as error:
        if op.name in ("view", "unflatten"):
            raise _not_a_view(op, x, site, mixes=mixes) from error
        raise site.fail(f"torch refuses: {str(error).splitlines()[0][:160]}", call) from error
    if tuple(made.shape) != op.shape:
        raise AssertionError(f"{op.code}: {op.shape} expected, torch gives {tuple(made.shape)}")
    return made


def _not_a_view(op: Op, x: torch.Tensor, site: Site, *, mixes: bool) -> ReshapeError:
    shape, strides = tuple(x.shape), tuple(x.stride())
    pair = blocking(shape, strides, op.shape)
    why = f". {merging(shape, strides, site.names, pair)}".rstrip(".") if pair else ""
    typed = site.text[site.call.start : site.call.end]
    sizes = ", ".join(map(str, op.shape))
    instead = [f"reshape({sizes})", f"contiguous().{typed}"]
    return site.fail(
        f"torch refuses: view size is not compatible with the strides {strides} of {shape}{why}",
        works=f"Nearest that works: {instead[1]} or {instead[0]}: both copy "
        f"{math.prod(shape) * ITEM:,} bytes{f'. {REGROUPS}'.rstrip('.') if mixes else ''}",
        instead=instead,
    )
