"""An einops pattern as the steps that einops runs: split, permute, repeat, merge."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from einops import EinopsError
from einops.parsing import ParsedExpression

from mha_core.reshape import limits
from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.ops import Op
from mha_core.reshape.pattern import ARROW, ELLIPSIS, Axis, Group, Pattern
from mha_core.reshape.values import Item
from mha_core.sizes import divisors

Sizes = Mapping[str, Item]


@dataclass(frozen=True)
class Compiled:
    """What a pattern comes to: shape and names of x, steps, and the sizes that einops is told."""

    shape: tuple[int, ...]
    names: tuple[str, ...]
    ops: tuple[Op, ...]
    told: tuple[tuple[str, int], ...]


def compile_pattern(
    tree: Pattern, items: Sequence[Item], sizes: Sizes, *, shape_text: str, axes_text: str
) -> Compiled:
    """Steps for a pattern, as einops takes them.

    Raises:
        ReshapeError: a size that does not fit, is missing, or is too large.
    """
    _check_by_einops(tree)
    left, right = _spread(tree, len(items))
    _check_used(left, right, sizes, axes_text)
    if not items:
        shape = tuple(_given(tree, group, sizes) for group in left)
    else:
        _check_rank(tree, left, items, shape_text)
        shape = tuple(item.value for item in items)
    if len(shape) > limits.MAX_AXES:
        raise _fail(tree, left[limits.MAX_AXES], f"{len(shape)} axes, at most 6 are drawn")
    found: dict[str, int] = {}
    for group, size in zip(left, shape, strict=True):
        _solve(tree, group, size, found, sizes, axes_text)
    for group in right:
        for axis in group.axes:
            _solve_new(tree, axis, found, sizes)
    _check_numel(tree, shape, right, found)
    told = tuple((name, item.value) for name, item in sizes.items())
    return Compiled(shape, tuple(map(_label, left)), _steps(tree, left, right, found), told)


def _fail(
    tree: Pattern, at: Axis | Group, rule: str, works: str = "",
    repairs: Sequence[Mapping[str, str]] = (),
) -> ReshapeError:  # fmt: skip
    return ReshapeError("pattern", tree.text, at.start, at.end, rule, works=works, repairs=repairs)


def _check_by_einops(tree: Pattern) -> None:
    """einops parses both sides too: what it refuses is refused, and it must read the same axes."""
    left, right = tree.for_einops.split(ARROW)
    for side, groups in ((left, tree.left), (right, tree.right)):
        try:
            parsed = ParsedExpression(side)
        except EinopsError as error:
            raise ReshapeError(
                "pattern", tree.text, 0, len(tree.text), f"einops refuses: {error}"
            ) from error
        ours = [ELLIPSIS if g.is_ellipsis else [a.name for a in g.axes if a.literal != 1]
                for g in groups]  # fmt: skip
        theirs = [ELLIPSIS if isinstance(axes, str) else [_einops_name(a) for a in axes]
                  for axes in parsed.composition]  # fmt: skip
        if ours != theirs:
            raise AssertionError(f"{side}: read as {ours}, by einops as {theirs}")


def _einops_name(axis: object) -> str:
    """A name, or the number of an axis without one."""
    name = axis if isinstance(axis, str) else str(getattr(axis, "value", axis))
    return ELLIPSIS if name == "…" else name


def _spread(tree: Pattern, rank: int) -> tuple[list[Group], list[Group]]:
    """Both sides with the ellipsis spelt out as as many axes as the shape has left."""
    ellipsis = [group for group in tree.left if group.is_ellipsis]
    if not ellipsis:
        return list(tree.left), list(tree.right)
    count = rank - (len(tree.left) - 1)
    if rank == 0 or count < 0:
        least = len(tree.left) - 1
        raise _fail(
            tree, ellipsis[0],
            "an ellipsis needs the shape of x, to stand for what is left of it" if rank == 0
            else f"the pattern needs {least} axes or more, and x has {rank}",
            "Type the shape of x" if rank == 0 else "",
        )  # fmt: skip

    def spelt(axis: Axis) -> list[Axis]:
        if axis.name != ELLIPSIS:
            return [axis]
        return [Axis(f"…{n}", axis.start, axis.end) for n in range(count)]

    def side(groups: Sequence[Group]) -> list[Group]:
        found: list[Group] = []
        for group in groups:
            axes = [axis for old in group.axes for axis in spelt(old)]
            if group.is_ellipsis:
                found += [Group((axis,), axis.start, axis.end, False) for axis in axes]
            else:
                found.append(Group(tuple(axes), group.start, group.end, group.bracketed))
        return found

    return side(tree.left), side(tree.right)


def _check_used(left: list[Group], right: list[Group], sizes: Sizes, text: str) -> None:
    """A size for what is not in the pattern is a mistake, as in einops."""
    used = {axis.name for group in (*left, *right) for axis in group.axes}
    for name, item in sizes.items():
        if name not in used:
            start = text.rfind(name, 0, item.start)
            raise ReshapeError(
                "axes", text, start, item.end, f"{name} is not in the pattern",
                works=f"The pattern has {', '.join(sorted(n for n in used if n.isidentifier()))}",
                repairs=[{"axes": (text[:start] + text[item.end :].lstrip(", ")).strip(", ")}],
            )  # fmt: skip


def _check_rank(tree: Pattern, left: list[Group], items: Sequence[Item], text: str) -> None:
    if len(left) == len(items):
        return
    shape = ", ".join(str(item.value) for item in items)
    rule = f"the left side has {len(left)} axes, and x has {len(items)}: ({shape})"
    if len(left) > len(items):
        raise _fail(tree, left[len(items)], rule, "Leave it out, or give x one more size")
    extra = items[len(left)]
    raise ReshapeError(
        "shape", text, extra.start, items[-1].end, rule,
        works="Leave this out, or name it on the left",
    )  # fmt: skip


def _given(tree: Pattern, group: Group, sizes: Sizes) -> int:
    """The size of an axis of x from the sizes alone."""
    product = 1
    for axis in group.axes:
        if axis.literal is None and axis.name not in sizes:
            raise _fail(
                tree, axis, f"{axis.name} has no size, and neither has x a shape",
                f"Add {axis.name}=4 to the sizes, or type the shape of x",
            )  # fmt: skip
        product *= axis.literal or sizes[axis.name].value
    return product


def _solve(
    tree: Pattern, group: Group, size: int, found: dict[str, int], sizes: Sizes, axes_text: str
) -> None:
    """The sizes of a group's axes, from the size of the whole and those that are given."""
    known = [a for a in group.axes if a.literal is not None or a.name in sizes]
    unknown = [a for a in group.axes if a not in known]
    product = math.prod(a.literal or sizes[a.name].value for a in known)
    found |= {a.name: sizes[a.name].value for a in known if a.literal is None}
    whole = _label(group)
    told = ", ".join(f"{a.name}={sizes[a.name].value}" for a in known if a.literal is None)
    if len(unknown) > 1:
        both = " and ".join(a.name for a in unknown)
        fit = ", ".join(map(str, divisors(size)[:8]))
        raise _fail(
            tree, unknown[0], f"{both} have no size: all of {whole} but one must be given",
            f"Add {unknown[0].name}=… to the sizes; {size} can be split by {fit}",
            [{"axes": f"{axes_text.strip()} {unknown[0].name}={_middle(size)}".strip()}],
        )  # fmt: skip
    if unknown:
        if size % product:
            fit = ", ".join(map(str, sorted(divisors(size), key=lambda d: abs(d - product))[:6]))
            raise _fail(
                tree, group, f"{whole} has size {size}, which {told} does not divide",
                f"{known[0].name if len(known) == 1 else 'They'} could be {fit}",
            )  # fmt: skip
        found[unknown[0].name] = size // product
    elif product != size:
        makes = f"makes {product}" if len(known) > 1 else "is given"
        rule = f"{whole} has size {size} in x, " + (
            f"but {told} {makes}" if told else f"and must have size {product}"
        )
        raise _fail(tree, group, rule, f"Give it no size, or give x {product} there")


def _middle(size: int) -> int:
    """The divisor nearest to the root: neither 1 nor all of it, where there is one."""
    return min(divisors(size), key=lambda d: (abs(d - math.isqrt(size)), d))


def _solve_new(tree: Pattern, axis: Axis, found: dict[str, int], sizes: Sizes) -> None:
    """The size of an axis that is new on the right: the elements are repeated along it."""
    if axis.literal is not None or axis.name in found:
        return
    if axis.name not in sizes:
        raise _fail(
            tree, axis, f"{axis.name} is new on the right, and has no size",
            f"Add {axis.name}=4 to the sizes: the elements are repeated along it",
        )  # fmt: skip
    found[axis.name] = sizes[axis.name].value


def _check_numel(
    tree: Pattern, shape: Sequence[int], right: Sequence[Group], found: Mapping[str, int]
) -> None:
    made = math.prod(axis.literal or found[axis.name] for group in right for axis in group.axes)
    arrow = tree.text.index(ARROW)
    if math.prod(shape) > limits.MAX_NUMEL:
        raise ReshapeError(
            "pattern", tree.text, 0, arrow, limits.too_many(math.prod(shape)), works="Lower a size"
        )
    if made > limits.MAX_NUMEL:
        raise ReshapeError(
            "pattern", tree.text, arrow + 2, len(tree.text), limits.too_many(made),
            works="Lower a size",
        )  # fmt: skip


def _label(group: Group) -> str:
    """As in the pattern: b, or (h d)."""
    inside = " ".join(axis.name for axis in group.axes)
    return f"({inside})" if group.bracketed else inside


def _steps(
    tree: Pattern, left: Sequence[Group], right: Sequence[Group], found: Mapping[str, int]
) -> tuple[Op, ...]:
    """Split, permute, repeat, merge: each only where it changes something."""
    size = dict(found)
    coming = [a.name for g in left for a in g.axes if a.literal is None]
    going: list[str] = []
    for group in right:
        for axis in group.axes:
            if axis.literal is None:
                going.append(axis.name)
            elif axis.literal > 1:  # a number repeats too; each is an axis of its own
                going.append(f"{axis.name}@{axis.start}")
                size[going[-1]] = axis.literal
    for names in (coming, going):
        if len(names) > limits.MAX_AXES:
            raise ReshapeError(
                "pattern", tree.text, 0, len(tree.text),
                f"{len(names)} axes once all are split, and at most {limits.MAX_AXES} are drawn",
                works="Give axes that stay together one name",
            )  # fmt: skip
    ops: list[Op] = []

    def add(name: str, args: tuple[int | tuple[int, ...], ...], axes: Sequence[str]) -> None:
        shown = tuple(axis.split("@")[0] for axis in axes)
        ops.append(Op(name, args, tuple(size[axis] for axis in axes), shown))

    if any(group.bracketed or group.axes[0].literal for group in left):
        add("view", (tuple(size[name] for name in coming),), coming)
    kept = [name for name in going if name in coming]
    order = [coming.index(name) for name in kept]
    moved = [n for n, place in enumerate(order) if n != place]
    if len(moved) == 2:
        add("transpose", (moved[0], moved[1]), kept)
    elif moved:
        add("permute", (tuple(order),), kept)
    at = list(kept)
    for n, name in enumerate(going):
        if name not in coming:
            at.insert(n, name)
            shape = tuple(1 if axis not in coming else size[axis] for axis in at)
            ops.append(Op("unsqueeze", (n,), shape, tuple(axis.split("@")[0] for axis in at)))
    if len(going) > len(kept):
        add("expand", (tuple(size[name] for name in going),), going)
    if any(group.bracketed or group.axes[0].literal == 1 for group in right):
        made = tuple(
            math.prod(axis.literal or size[axis.name] for axis in group.axes) for group in right
        )
        ops.append(Op("reshape", (made,), made, tuple(map(_label, right))))
    return tuple(ops)
