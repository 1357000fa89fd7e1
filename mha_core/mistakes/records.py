"""A mistake, as code that runs beside its repair."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from mha_core.mistakes import parts
from mha_core.mistakes.parts import Check, Run

# x (batch, time, d_model) -> boolean, broadcastable to (batch, h, time, time), True = may attend.
Mask = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Mistake:
    """One mistake beside its repair.

    Attributes:
        id: for files and tests.
        title: a few words.
        why: how it comes about, and what it does.
        wrong, right: forwards; see `parts.Run`.
        check: whether a forward is right. False, or an error, on the wrong one.
        sign: how to notice it, in words: what the check does.
        fix: the repair, one line of code.
        step: of the pipeline, the one it is about.
        mask: what was meant to be seen; None where every query sees every key.
        seen_in: issues and pull requests where it was made, "owner/name#number".
    """

    id: str
    title: str
    why: str
    wrong: Run
    right: Run
    check: Check
    sign: str
    fix: str
    step: str
    mask: Mask | None = None
    seen_in: tuple[str, ...] = ()

    def code(self, which: Literal["wrong", "right", "check"]) -> str:
        """The source of the very function that runs."""
        return source(getattr(self, which))

    def around(self) -> dict[str, str]:
        """Name -> source of the helpers that its code calls, theirs included."""
        found: dict[str, str] = {}
        waiting = [self.code("wrong"), self.code("right"), self.code("check")]
        while waiting:
            text = waiting.pop(0)
            for name, function in inspect.getmembers(parts, inspect.isfunction):
                if name not in found and re.search(rf"\b{name}\(", text):
                    if function.__module__ != parts.__name__:
                        continue
                    found[name] = source(function)
                    waiting.append(found[name])
        return found


def source(function: Callable[..., object]) -> str:
    """A function as it was written, without the indent it stands at."""
    return textwrap.dedent(inspect.getsource(function)).rstrip()
