"""The finest axes of a chain: what every axis of every step is made of.

A view splits axes and merges them; the parts that stay whole through all of it are the atoms. Each
axis of a step is a list of atoms, outermost first, so that a window chosen on atoms is a window on
every step, and the whole chain is one einops pattern. Where a view regroups elements across atoms,
(6, 4) to (4, 6), there is no such list, and the atoms begin anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mha_core.reshape.ops import Op


@dataclass(eq=False)
class Atom:
    """One part of an axis; compared by identity.

    Attributes:
        size: of it.
        copies: whether the elements along it are copies of one another.
        name: where it has one of its own.
        parts: what it was split into later; () while it is whole.
    """

    size: int
    copies: bool = False
    name: str = ""
    parts: tuple[Atom, ...] = field(default=())

    def leaves(self) -> list[Atom]:
        """The atoms it was split into, in order; itself while it is whole."""
        if not self.parts:
            return [self]
        return [leaf for part in self.parts for leaf in part.leaves()]


Axes = list[list[Atom]]


@dataclass(frozen=True)
class Parts:
    """The atoms of every step.

    Attributes:
        steps: for x and each step, its axes as lists of atoms, none of size 1.
        since: the first step from which on the atoms hold to the end; 0 where they always do.
        regroups: the steps whose new axes cut across the old ones.
    """

    steps: tuple[Axes, ...]
    since: int
    regroups: frozenset[int]


def parts(shape: Sequence[int], names: Sequence[str], ops: Sequence[Op]) -> Parts:
    """Follows the atoms through a chain."""
    axes = [_axis(size, name) for size, name in zip(shape, names, strict=True)]
    steps = [axes]
    regroups: list[int] = []
    for n, op in enumerate(ops, start=1):
        moved = _moved(axes, op)
        if moved is None:
            regroups.append(n)
            moved = [_axis(size, "") for size in op.shape]
        axes = moved
        _name(axes, op.names)
        steps.append(axes)
    whole = tuple([_whole(axis) for axis in step] for step in steps)
    return Parts(whole, max(regroups, default=0), frozenset(regroups))


def _axis(size: int, name: str) -> list[Atom]:
    return [Atom(size, name=_simple(name))] if size > 1 else []


def _simple(name: str) -> str:
    return name if name.isidentifier() else ""


def _whole(axis: list[Atom]) -> list[Atom]:
    return [leaf for atom in axis for leaf in atom.leaves()]


def _name(axes: Axes, names: Sequence[str]) -> None:
    """An axis that is one atom gives it its name."""
    for axis, name in zip(axes, names, strict=True):
        leaves = _whole(axis)
        if len(leaves) == 1 and not leaves[0].name:
            leaves[0].name = _simple(name)


def _moved(axes: Axes, op: Op) -> Axes | None:
    """The axes after a step; None where it regroups across atoms."""
    numbers = [arg for arg in op.args if isinstance(arg, int)]
    lists = [arg for arg in op.args if isinstance(arg, tuple)]
    match op.name:
        case "transpose":
            order = list(range(len(axes)))
            if order:
                one, other = numbers
                order[one], order[other] = order[other], order[one]
            return [axes[n] for n in order]
        case "permute":
            return [axes[n] for n in lists[0]]
        case "contiguous":
            return axes
        case "unsqueeze":
            return [*axes[: numbers[0]], [], *axes[numbers[0] :]]
        case "expand":
            new = len(op.shape) - len(axes)
            old: Axes = [[] for _ in range(new)] + axes
            return [
                axis if math.prod(a.size for a in axis) == size else _copies(size)
                for axis, size in zip(old, op.shape, strict=True)
            ]
        case "repeat":
            new = len(op.shape) - len(axes)
            old = [[] for _ in range(new)] + axes
            return [_copies(n) + axis for axis, n in zip(old, lists[0], strict=True)]
        case "repeat_interleave":
            if len(numbers) == 1:
                return [[*(atom for axis in axes for atom in axis), *_copies(numbers[0])]]
            if not axes:
                return [_copies(numbers[0])]
            return [
                [*axis, *_copies(numbers[0])] if n == numbers[1] else axis
                for n, axis in enumerate(axes)
            ]
    return _regrouped([atom for axis in axes for atom in axis], op.shape)


def _copies(count: int) -> list[Atom]:
    return [Atom(count, copies=True)] if count > 1 else []


def _regrouped(row: list[Atom], shape: Sequence[int]) -> Axes | None:
    """The atoms in order, dealt out to new axes, split where a border falls inside one."""
    waiting = [leaf for atom in row for leaf in atom.leaves()]
    # Nothing is split before all of it fits: a chain that regroups leaves the old atoms whole.
    plan: list[list[tuple[Atom, int]]] = []
    inner: list[tuple[Atom, int]] = [(atom, atom.size) for atom in waiting]
    for size in shape:
        need = size
        axis: list[tuple[Atom, int]] = []
        while need > 1:
            atom, left = inner.pop(0)
            if need % left == 0:
                axis.append((atom, left))
                need //= left
            elif left % need == 0:
                axis.append((atom, need))
                inner.insert(0, (atom, left // need))
                need = 1
            else:
                return None
        plan.append(axis)
    return _split(plan)


def _split(plan: list[list[tuple[Atom, int]]]) -> Axes:
    """Splits each atom into the sizes that the plan takes of it."""
    sizes: dict[int, list[int]] = {}
    for axis in plan:
        for atom, size in axis:
            sizes.setdefault(id(atom), []).append(size)
    taken: dict[int, list[Atom]] = {}
    for axis in plan:
        for atom, _ in axis:
            if id(atom) not in taken:
                many = sizes[id(atom)]
                if len(many) == 1:
                    taken[id(atom)] = [atom]
                else:
                    atom.parts = tuple(Atom(size, atom.copies) for size in many)
                    taken[id(atom)] = list(atom.parts)
    return [[taken[id(atom)].pop(0) for atom, _ in axis] for axis in plan]
