"""The einops pattern of a whole chain, where there is one."""

from __future__ import annotations

import keyword
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase

from mha_core.reshape.atoms import Atom, Axes
from mha_core.reshape.plan import Plan


@dataclass(frozen=True)
class EinopsCall:
    """A call of einops.

    Attributes:
        function: "rearrange", or "repeat" where elements are copied.
        pattern: as einops takes it.
        sizes: of the axes that it must be told.
    """

    function: str
    pattern: str
    sizes: tuple[tuple[str, int], ...]

    @property
    def code(self) -> str:
        """As written in Python."""
        told = "".join(f", {name}={size}" for name, size in self.sizes)
        return f'{self.function}(x, "{self.pattern}"{told})'


def einops_call(plan: Plan) -> EinopsCall | None:
    """The call of einops that does the same; None where a view regroups across axes."""
    last = plan.parts.steps[-1]
    copies = any(atom.copies for axis in last for atom in axis)
    function = "repeat" if plan.repeats or copies else "rearrange"
    if plan.pattern is not None:
        return EinopsCall(function, plan.pattern, plan.sizes)
    if plan.parts.since:
        return None
    first = plan.parts.steps[0]
    called = _called(first, last)
    left, right = (" ".join(_written(axis, called) for axis in side) for side in (first, last))
    told = [
        (called[id(atom)], atom.size)
        for axis in first if len(axis) > 1 for atom in axis[:-1]
    ]  # fmt: skip
    told += [(called[id(atom)], atom.size) for axis in last for atom in axis if atom.copies]
    return EinopsCall(function, f"{left} -> {right}".strip(), tuple(told))


def _written(axis: list[Atom], called: dict[int, str]) -> str:
    """One axis as in a pattern: b, (h d), or 1 where it has no extent."""
    if not axis:
        return "1"
    names = " ".join(called[id(atom)] for atom in axis)
    return names if len(axis) == 1 else f"({names})"


def _called(first: Axes, last: Axes) -> dict[int, str]:
    """A name for each atom: its own where it has one, else the next free letter."""
    atoms = list(dict.fromkeys(atom for axis in (*first, *last) for atom in axis))
    called: dict[int, str] = {}
    taken: set[str] = set()
    for atom in atoms:
        name = atom.name
        usable = name.strip("_") == name and not keyword.iskeyword(name)
        if name and usable and name not in taken:
            called[id(atom)] = name
            taken.add(name)
    free = _letters(taken)
    for atom in atoms:
        if id(atom) not in called:
            called[id(atom)] = next(free)
    return called


def _letters(taken: set[str]) -> Iterator[str]:
    for length in (1, 2):
        for letters in product(ascii_lowercase, repeat=length):
            name = "".join(letters)
            if name not in taken and name != "x" and not keyword.iskeyword(name):
                yield name
