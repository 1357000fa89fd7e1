"""Each step's rules: what its arguments must be for a tensor of this shape, and what comes out.

The rules are torch's (torch.Tensor documentation), checked here first, so that an error can name
the argument at fault and what would work. Tests hold them to torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mha_core.reshape.limits import MAX_AXES, MAX_NUMEL, too_many
from mha_core.reshape.ops import Op
from mha_core.reshape.site import Site
from mha_core.reshape.values import Item


def resolve(site: Site) -> Op:
    """The step with its result's shape and names.

    Raises:
        ReshapeError: at the argument that breaks a rule.
    """
    op = _RULES[site.call.name](site)
    if len(op.shape) > MAX_AXES:
        raise site.fail(
            f"{len(op.shape)} axes come out, and at most {MAX_AXES} are drawn",
            works="Merge axes before, with flatten or reshape",
        )
    if math.prod(op.shape) > MAX_NUMEL:
        raise site.fail(too_many(math.prod(op.shape)))
    return op


def _op(site: Site, args: tuple[int | tuple[int, ...], ...], shape: Sequence[int],
        names: Sequence[str]) -> Op:  # fmt: skip
    call = site.call
    return Op(call.name, args, tuple(shape), tuple(names), call.start, call.end)


def _sizes(site: Site, items: tuple[Item, ...], numel: int, what: str) -> tuple[int, ...]:
    """Sizes that make `numel` elements; one may be -1 and is found, as torch finds it."""
    unknown = [item for item in items if item.value == -1]
    for item in items:
        if item.value < -1 or item.value == 0:
            raise site.fail(
                "a size must be at least 1, or -1 for the one that follows from the others", item
            )
    if len(unknown) > 1:
        raise site.fail("only one size can be -1", unknown[1], "Give this one a number")
    product = math.prod(item.value for item in items if item.value != -1)
    if unknown:
        if numel % product:
            raise site.fail(
                f"-1 cannot be found: {numel:,} elements {what} are not a multiple of {product:,}",
                unknown[0], instead=_fixes(site, items, numel),
            )  # fmt: skip
        return tuple(numel // product if i.value == -1 else i.value for i in items)
    if product != numel:
        made = " × ".join(str(item.value) for item in items)
        raise site.fail(
            f"{made} = {product:,} elements, but there are {numel:,} {what}"
            if len(items) != 1 else f"{product:,} elements, but there are {numel:,} {what}",
            site.call if not items else Item(0, "", items[0].start, items[-1].end),
            instead=_fixes(site, items, numel),
        )  # fmt: skip
    return tuple(item.value for item in items)


def _fixes(site: Site, items: tuple[Item, ...], numel: int) -> list[str]:
    """The call with one of its sizes put right, the last that can be first."""
    if site.call.name not in ("view", "reshape"):
        return []
    fixed: list[str] = []
    for n in reversed(range(len(items))):
        others = math.prod(abs(item.value) for k, item in enumerate(items) if k != n)
        if others and numel % others == 0 and numel // others != items[n].value:
            sizes = [abs(item.value) for item in items]
            sizes[n] = numel // others
            fixed.append(f"{site.call.name}({', '.join(map(str, sizes))})")
    return list(dict.fromkeys(fixed))[:2] or [f"{site.call.name}(-1)"]


def _view(site: Site) -> Op:
    items = site.listed()
    sizes = _sizes(site, items, math.prod(site.shape), f"in {site.shape}")
    return _op(site, (sizes,), sizes, [item.name for item in items])


def _transpose(site: Site) -> Op:
    bound = site.bound()
    one, other = (site.axis(site.one(bound[key])) for key in ("dim0", "dim1"))
    order = list(range(len(site.shape)))
    if order:
        order[one], order[other] = order[other], order[one]
    return _op(site, (one, other), [site.shape[i] for i in order], [site.names[i] for i in order])


def _permute(site: Site) -> Op:
    items = site.listed()
    rank = len(site.shape)
    order: list[int] = []
    for item in items:
        axis = site.axis(item)
        if axis in order:
            missing = [str(n) for n in range(rank) if n not in order]
            raise site.fail(
                f"axis {axis} stands here for the second time", item,
                f"Not yet named: {', '.join(missing)}",
            )  # fmt: skip
        order.append(axis)
    if len(order) != rank:
        missing = [str(n) for n in range(rank) if n not in order]
        raise site.fail(
            f"{len(order)} axes are named, and {site.shape} has {rank}",
            works=f"Missing: {', '.join(missing)}",
            instead=[f"permute({', '.join([*map(str, order), *missing])})"],
        )
    return _op(site, (tuple(order),), [site.shape[i] for i in order],
               [site.names[i] for i in order])  # fmt: skip


def _flatten(site: Site) -> Op:
    bound = site.bound()
    start = site.axis(site.one(bound["start_dim"])) if "start_dim" in bound else 0
    end = (
        site.axis(site.one(bound["end_dim"])) if "end_dim" in bound
        else max(len(site.shape) - 1, 0)
    )  # fmt: skip
    if start > end:
        raise site.fail(
            f"start_dim {start} comes after end_dim {end}", instead=[f"flatten({end}, {start})"]
        )
    if not site.shape:
        return _op(site, (0, -1), (1,), ("",))
    merged = math.prod(site.shape[start : end + 1])
    inner = [name for name in site.names[start : end + 1] if name]
    name = inner[0] if start == end and inner else f"({' '.join(inner)})" if inner else ""
    return _op(
        site, (start, end),
        (*site.shape[:start], merged, *site.shape[end + 1 :]),
        (*site.names[:start], name, *site.names[end + 1 :]),
    )  # fmt: skip


def _unflatten(site: Site) -> Op:
    bound = site.bound()
    dim = site.axis(site.one(bound["dim"]))
    given = bound["sizes"]
    if not given.bracketed:
        raise site.fail(
            "the sizes stand in brackets", given, f"unflatten({dim}, ({given.items[0].value}, …))"
        )
    if not site.shape:
        raise site.fail("a tensor of no axes cannot be unflattened")
    if not given.items:
        raise site.fail("at least one size should stand in the brackets", given)
    sizes = _sizes(site, given.items, site.shape[dim], f"on axis {dim}")
    return _op(
        site, (dim, sizes),
        (*site.shape[:dim], *sizes, *site.shape[dim + 1 :]),
        (*site.names[:dim], *(item.name for item in given.items), *site.names[dim + 1 :]),
    )  # fmt: skip


def _contiguous(site: Site) -> Op:
    site.bound()
    return _op(site, (), site.shape, site.names)


def _unsqueeze(site: Site) -> Op:
    dim = site.axis(site.one(site.bound()["dim"]), room=1)
    return _op(site, (dim,), (*site.shape[:dim], 1, *site.shape[dim:]),
               (*site.names[:dim], "1", *site.names[dim:]))  # fmt: skip


def _squeeze(site: Site) -> Op:
    bound = site.bound()
    if "dim" not in bound:
        gone = [n for n, size in enumerate(site.shape) if size == 1]
        args: tuple[int | tuple[int, ...], ...] = ()
    else:
        dims: list[int] = []
        for item in bound["dim"].items:
            axis = site.axis(item)
            if axis in dims:
                raise site.fail(f"axis {axis} stands here for the second time", item)
            dims.append(axis)
        gone = [n for n in dims if site.shape and site.shape[n] == 1]
        args = (tuple(dims),) if bound["dim"].bracketed else (dims[0],)
    kept = [n for n in range(len(site.shape)) if n not in gone]
    return _op(site, args, [site.shape[n] for n in kept], [site.names[n] for n in kept])


def _aligned(site: Site, items: tuple[Item, ...]) -> int:
    """How many new axes come before those of the tensor."""
    new = len(items) - len(site.shape)
    if new < 0:
        raise site.fail(
            f"{len(items)} sizes are too few for the {len(site.shape)} axes of {site.shape}",
            works="New axes come first, then one number for each there is",
        )
    return new


def _expand(site: Site) -> Op:
    items = site.listed()
    new = _aligned(site, items)
    shape: list[int] = []
    names: list[str] = []
    for n, item in enumerate(items):
        old = site.shape[n - new] if n >= new else None
        if item.value == -1 and old is None:
            raise site.fail("a new axis needs a size: -1 keeps one that is there", item)
        if item.value < -1 or item.value == 0:
            raise site.fail("a size must be at least 1, or -1 to keep the axis as it is", item)
        if old is not None and old != 1 and item.value not in (-1, old):
            raise site.fail(
                f"axis {n - new} has size {old}, and only one of size 1 can be expanded", item,
                f"Nearest that works: {old} or -1",
            )  # fmt: skip
        shape.append(old if old is not None and item.value == -1 else item.value)
        kept = site.names[n - new] if n >= new else ""
        names.append(item.name or (kept if shape[-1] == old else ""))
    return _op(site, (tuple(item.value for item in items),), shape, names)


def _repeat(site: Site) -> Op:
    items = site.listed()
    new = _aligned(site, items)
    shape: list[int] = []
    names: list[str] = []
    for n, item in enumerate(items):
        if item.value < 1:
            raise site.fail("a number of repeats must be at least 1", item)
        old, kept = (site.shape[n - new], site.names[n - new]) if n >= new else (1, "")
        shape.append(old * item.value)
        names.append(kept if item.value == 1 else _joined(item.name, kept, old))
    return _op(site, (tuple(item.value for item in items),), shape, names)


def _repeat_interleave(site: Site) -> Op:
    bound = site.bound()
    item = site.one(bound["repeats"])
    if item.value < 1:
        raise site.fail("a number of repeats must be at least 1", item)
    if "dim" not in bound:  # torch then repeats the flattened tensor
        return _op(site, (item.value,), (math.prod(site.shape) * item.value,), ("",))
    dim = site.axis(site.one(bound["dim"]))
    if not site.shape:
        return _op(site, (item.value, 0), (item.value,), (item.name,))
    shape, names = list(site.shape), list(site.names)
    names[dim] = names[dim] if item.value == 1 else _joined(names[dim], item.name, shape[dim])
    shape[dim] *= item.value
    return _op(site, (item.value, dim), shape, names)


def _joined(outer: str, inner: str, old: int) -> str:
    """The name of an axis that is two in one; "" where one of them has none."""
    if old == 1:
        return outer or inner
    return f"({outer} {inner})" if outer and inner else ""


_RULES: dict[str, Callable[[Site], Op]] = {
    "view": _view,
    "reshape": _view,
    "transpose": _transpose,
    "permute": _permute,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "contiguous": _contiguous,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "expand": _expand,
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
}
