"""The closed table of steps: what each does to a tensor, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

Arg = int | tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """One step, resolved: every size and axis known.

    Attributes:
        name: one of NAMES.
        args: as torch takes them; sizes and permutations as one tuple.
        shape: of the result.
        names: of the result's axes; "" for one without.
        start, end: its place in the chain as typed; (0, 0) where it was made from a pattern.
    """

    name: str
    args: tuple[Arg, ...]
    shape: tuple[int, ...]
    names: tuple[str, ...]
    start: int = 0
    end: int = 0

    @property
    def code(self) -> str:
        """As written in torch: "transpose(1, 2)"."""
        args = self.args
        if self.name in _STARRED and args:
            (listed,) = args
            assert isinstance(listed, tuple)
            # view() and permute() of no axes at all need their empty tuple.
            return f"{self.name}({', '.join(map(str, listed))})" if listed else f"{self.name}(())"
        return f"{self.name}({', '.join(map(str, args))})"


_STARRED = frozenset({"view", "reshape", "permute", "expand", "repeat"})
NAMES = (
    "view", "reshape", "transpose", "permute", "flatten", "unflatten", "contiguous",
    "unsqueeze", "squeeze", "expand", "repeat", "repeat_interleave",
)  # fmt: skip
# Steps that may write an element more than once.
COPYING = frozenset({"expand", "repeat", "repeat_interleave"})


def apply(op: Op, x: Tensor) -> Tensor:
    """The step, really done by torch.

    Raises:
        RuntimeError: torch's own, where a view is not possible.
    """
    a = op.args
    match op.name:
        case "view":
            return x.view(_many(a[0]))
        case "reshape":
            return x.reshape(_many(a[0]))
        case "transpose":
            return x.transpose(_one(a[0]), _one(a[1]))
        case "permute":
            return x.permute(_many(a[0]))
        case "flatten":
            return x.flatten(_one(a[0]), _one(a[1]))
        case "unflatten":
            split: Tensor = x.unflatten(_one(a[0]), _many(a[1]))
            return split
        case "contiguous":
            return x.contiguous()
        case "unsqueeze":
            return x.unsqueeze(_one(a[0]))
        case "squeeze":
            return _squeezed(x, a)
        case "expand":
            return x.expand(_many(a[0]))
        case "repeat":
            return x.repeat(_many(a[0]))
        case "repeat_interleave":
            return x.repeat_interleave(_one(a[0]), dim=_one(a[1]) if len(a) > 1 else None)
    raise KeyError(op.name)


def _squeezed(x: Tensor, args: tuple[Arg, ...]) -> Tensor:
    """Without its axes of size 1: all of them, or those named."""
    if not args:
        return x.squeeze()
    made: Tensor = x.squeeze(args[0])
    return made


def _one(arg: Arg) -> int:
    assert isinstance(arg, int)
    return arg


def _many(arg: Arg) -> tuple[int, ...]:
    assert isinstance(arg, tuple)
    return arg
