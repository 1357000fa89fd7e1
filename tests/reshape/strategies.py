"""What hypothesis draws: shapes, einops patterns that are right, chains that may be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from mha_core.reshape import ReshapeError

NAMES = ("b", "t", "h", "d", "c", "e1")


def refusal(make: Callable[[], object]) -> ReshapeError | None:
    """The error that a call ends with, which may only be ours; None where there is none."""
    try:
        make()
    except ReshapeError as error:
        return error
    return None


def shapes(most: int = 4, largest: int = 5) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, largest), min_size=1, max_size=most).map(tuple)


@dataclass(frozen=True)
class Pattern:
    """A pattern that einops takes, and the tensor it is for."""

    text: str
    shape: tuple[int, ...]
    sizes: dict[str, int]
    repeats: bool

    @property
    def typed_shape(self) -> str:
        return ", ".join(map(str, self.shape))

    @property
    def typed_sizes(self) -> str:
        return " ".join(f"{name}={size}" for name, size in self.sizes.items())


@st.composite
def patterns(draw: st.DrawFn, *, copies: bool = True) -> Pattern:
    """Axes of two sizes at least, grouped and ordered at will; sometimes new ones, sometimes 1s."""
    count = draw(st.integers(1, 4))
    names = list(NAMES[:count])
    size = {name: draw(st.integers(1, 4)) for name in names}
    left = _groups(draw, names)
    order = list(draw(st.permutations(names)))
    repeats = copies and draw(st.booleans())
    if repeats:
        new = draw(st.sampled_from(["r", "3", "r s"])).split()
        for name in new:
            order.insert(draw(st.integers(0, len(order))), name)
            if name.isidentifier():
                size[name] = draw(st.integers(1, 3))
    right = _groups(draw, order)
    shape = [_product(group, size) for group in left]
    written = [[_written(group, draw) for group in side] for side in (left, right)]
    for side, sizes in zip(written, (shape, None), strict=True):
        if draw(st.booleans()):
            at = draw(st.integers(0, len(side)))
            side.insert(at, draw(st.sampled_from(["1", "()"])))
            if sizes is not None:
                sizes.insert(at, 1)
    # All but one size of each group must be given; the rest may be.
    given: dict[str, int] = {}
    for group in left:
        free = draw(st.sampled_from(group))
        for name in group:
            if name != free or draw(st.booleans()):
                given[name] = size[name]
    given |= {name: size[name] for name in ("r", "s") if name in size}
    text = f"{' '.join(written[0])} -> {' '.join(written[1])}"
    return Pattern(text, tuple(shape), given, repeats)


def _groups(draw: st.DrawFn, names: list[str]) -> list[list[str]]:
    groups: list[list[str]] = []
    for name in names:
        if groups and draw(st.booleans()):
            groups[-1].append(name)
        else:
            groups.append([name])
    return groups


def _written(group: list[str], draw: st.DrawFn) -> str:
    bracketed = len(group) > 1 or draw(st.integers(0, 5)) == 0
    return f"({' '.join(group)})" if bracketed else group[0]


def _product(group: list[str], size: dict[str, int]) -> int:
    made = 1
    for name in group:
        made *= size[name]
    return made


@dataclass(frozen=True)
class Step:
    """One step: its text, and torch's own call of it."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def text(self) -> str:
        listed = [_text(arg) for arg in self.args]
        listed += [f"{key}={_text(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(listed)})"

    def by_torch(self, x: Tensor) -> Tensor:
        made: Tensor = getattr(x, self.name)(*self.args, **self.kwargs)
        return made


def _text(arg: Any) -> str:
    if isinstance(arg, tuple):
        return f"({', '.join(map(str, arg))}{',' if len(arg) == 1 else ''})"
    return str(arg)


@st.composite
def steps(draw: st.DrawFn, shape: tuple[int, ...]) -> Step:
    """A step that is likely, not sure, to fit a tensor of this shape."""
    rank = len(shape)
    dim = st.integers(-rank - 1, rank)
    name = draw(st.sampled_from([
        "view", "reshape", "transpose", "permute", "flatten", "unflatten", "contiguous",
        "unsqueeze", "squeeze", "expand", "repeat", "repeat_interleave",
    ]))  # fmt: skip
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    match name:
        case "view" | "reshape":
            args = tuple(draw(_factored(_numel(shape))))
            if draw(st.integers(0, 9)) == 0:
                args = tuple(draw(st.lists(st.integers(-1, 6), min_size=1, max_size=4)))
            elif args and draw(st.booleans()):
                at = draw(st.integers(0, len(args) - 1))
                args = (*args[:at], -1, *args[at + 1 :])
            if draw(st.booleans()):
                args = (args,)
        case "transpose":
            args = (draw(dim), draw(dim))
        case "permute":
            args = tuple(draw(st.permutations(range(rank))))
            if draw(st.integers(0, 9)) == 0:
                args = tuple(draw(st.lists(dim, min_size=1, max_size=4)))
            if draw(st.booleans()) or not args:
                args = (args,)
        case "flatten":
            kwargs = {key: draw(dim) for key in ("start_dim", "end_dim") if draw(st.booleans())}
        case "unflatten":
            at = draw(dim)
            size = shape[at] if -rank <= at < rank else 4
            args = (at, tuple(draw(_factored(size))))
        case "unsqueeze":
            args = (draw(dim),)
        case "squeeze":
            args = (draw(dim),) if draw(st.booleans()) else ()
        case "expand":
            new = draw(st.lists(st.integers(1, 3), max_size=1))
            old = [draw(st.sampled_from([n, -1] if n > 1 else [1, -1, 2, 3])) for n in shape]
            args = (*new, *old)
            if draw(st.integers(0, 9)) == 0:
                args = tuple(draw(st.lists(st.integers(-1, 4), min_size=1, max_size=4)))
        case "repeat":
            args = tuple(
                draw(st.lists(st.integers(1, 3), min_size=max(1, rank - 1), max_size=rank + 1))
            )
        case "repeat_interleave":
            args = (draw(st.integers(1, 3)),)
            kwargs = {"dim": draw(dim)} if draw(st.integers(0, 4)) else {}
    return Step(name, args, kwargs)


def _numel(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())


@st.composite
def _factored(draw: st.DrawFn, number: int) -> list[int]:
    """Sizes that make a number, in any order; one 1 among them at times."""
    primes: list[int] = []
    rest, p = number, 2
    while rest > 1:
        while rest % p == 0:
            primes.append(p)
            rest //= p
        p += 1
    primes = list(draw(st.permutations(primes)))
    sizes: list[int] = []
    for prime in primes:
        if sizes and draw(st.booleans()):
            sizes[-1] *= prime
        else:
            sizes.append(prime)
    if not sizes or draw(st.integers(0, 3)) == 0:
        sizes.insert(draw(st.integers(0, len(sizes))), 1)
    return sizes
