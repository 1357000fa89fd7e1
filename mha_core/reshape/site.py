"""A call where it stands: its arguments bound, and errors that point into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mha_core.reshape.chain import Argument, Call
from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.values import Item

# Arguments of the steps that take a fixed number; None where one may be left out.
SIGNATURES: dict[str, tuple[tuple[str, int | None, bool], ...]] = {
    # name: (argument, default, may be left out)
    "transpose": (("dim0", None, False), ("dim1", None, False)),
    "flatten": (("start_dim", 0, True), ("end_dim", -1, True)),
    "unflatten": (("dim", None, False), ("sizes", None, False)),
    "contiguous": (),
    "unsqueeze": (("dim", None, False),),
    "squeeze": (("dim", None, True),),
    "repeat_interleave": (("repeats", None, False), ("dim", None, True)),
}
WORKS = {
    "view": "view(2, 6, -1)",
    "reshape": "reshape(2, 6, -1)",
    "transpose": "transpose(1, 2)",
    "permute": "permute(0, 2, 1)",
    "flatten": "flatten(1)",
    "unflatten": "unflatten(2, (4, 8))",
    "contiguous": "contiguous()",
    "unsqueeze": "unsqueeze(1)",
    "squeeze": "squeeze(1)",
    "expand": "expand(-1, 4, -1)",
    "repeat": "repeat(1, 1, 2)",
    "repeat_interleave": "repeat_interleave(2, dim=1)",
}


@dataclass(frozen=True)
class Site:
    """One call, the tensor it is called on, and the text it stands in."""

    text: str
    call: Call
    shape: tuple[int, ...]
    names: tuple[str, ...]

    def fail(
        self,
        rule: str,
        at: Call | Argument | Item | None = None,
        works: str = "",
        instead: Sequence[str] = (),
    ) -> ReshapeError:
        """The error at a part of the call; `instead` are calls that would work in its place."""
        place = at or self.call
        repairs = [
            {"chain": self.text[: self.call.start] + other + self.text[self.call.end :]}
            for other in instead
        ]
        if instead and not works:
            works = "Nearest that works: " + " or ".join(instead)
        return ReshapeError(
            "chain", self.text, place.start, place.end, rule, works=works, repairs=repairs
        )

    def listed(self) -> tuple[Item, ...]:
        """The numbers of a step that takes any number of them, in brackets or not."""
        arguments = self.call.arguments
        for argument in arguments:
            if argument.keyword:
                raise self.fail(
                    f"{self.call.name} takes its numbers without a name", argument,
                    WORKS[self.call.name],
                )  # fmt: skip
        if len(arguments) == 1 and arguments[0].bracketed:
            return arguments[0].items
        for argument in arguments:
            if argument.bracketed:
                raise self.fail(
                    "brackets beside other numbers: all of them in brackets, or none",
                    argument, WORKS[self.call.name],
                )  # fmt: skip
        return tuple(item for argument in arguments for item in argument.items)

    def bound(self) -> dict[str, Argument]:
        """Argument name -> argument, of a step that takes a fixed number of them."""
        name = self.call.name
        signature = SIGNATURES[name]
        found: dict[str, Argument] = {}
        for n, argument in enumerate(self.call.arguments):
            if argument.keyword:
                key = argument.keyword
                if key not in [known for known, _, _ in signature]:
                    rule = f"{name} has no argument {key[:30]}"
                    raise self.fail(rule, argument, WORKS[name])
            elif n >= len(signature):
                many = len(signature)
                rule = f"{name} takes {many} argument{'' if many == 1 else 's'} at most"
                raise self.fail(rule, argument, WORKS[name])
            else:
                if found and any(a.keyword for a in self.call.arguments[:n]):
                    raise self.fail("arguments without a name come first", argument, WORKS[name])
                key = signature[n][0]
            if key in found:
                raise self.fail(f"{key} is given for the second time", argument)
            found[key] = argument
        for key, _, optional in signature:
            if key not in found and not optional:
                raise self.fail(f"{name} needs {key}", works=f"As in {WORKS[name]}")
        return found

    def one(self, argument: Argument) -> Item:
        """The number of an argument that may not be several."""
        if argument.bracketed:
            raise self.fail("one number should stand here, without brackets", argument)
        return argument.items[0]

    def axis(self, item: Item, *, room: int = 0) -> int:
        """An axis counted from the front, as torch counts; `room` for one that is to be made."""
        rank = len(self.shape) + room
        count = max(rank, 1)  # a tensor of no axes takes 0 and -1, as in torch
        if not -count <= item.value < count:
            last = count - 1
            nearest = last if item.value > 0 else 0
            axes = f"axis 0 to {last}, or -1 to -{count}" if last else "axis 0 or -1"
            raise self.fail(
                f"there is no axis {item.value}: {self.shape} has {axes}"
                if not room else f"an axis can be put at 0 to {last} here, not at {item.value}",
                item, f"Nearest that works: {nearest}",
            )  # fmt: skip
        return item.value % count
