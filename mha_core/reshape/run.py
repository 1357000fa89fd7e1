"""A plan, really run: torch.arange(numel).view(shape) goes through every step.

The elements are their own numbers, so that what stands at a place says where it came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import einops
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mha_core.aten import DispatchRecorder
from mha_core.reshape.ops import Op, apply
from mha_core.reshape.pattern_of import EinopsCall, einops_call
from mha_core.reshape.plan import Plan
from mha_core.reshape.why import REGROUPS, reason

CORNER = (8, 12)  # rows and columns of the values kept of each step


@dataclass(frozen=True)
class Step:
    """x, or one step, as torch left it.

    Attributes:
        number: 0 for x.
        code: as written in torch.
        shape, strides, offset, contiguous: of the tensor, read from it.
        names: of its axes; "" for one without.
        storage: "new" for x, "view" where it shares its memory, else "copy"; by address.
        allocated: bytes of the storage that was made; 0 for a view.
        nbytes: elements times their bytes; more than the storage has where a stride is 0.
        operators: what torch dispatched.
        why: one sentence or two on what happened in memory.
        corner: the first rows and columns of the first block, as they stand.
        start, end: place of the step in the chain as typed.
    """

    number: int
    code: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    contiguous: bool
    names: tuple[str, ...]
    storage: str
    allocated: int
    nbytes: int
    operators: tuple[str, ...]
    why: str
    corner: NDArray[np.int64]
    start: int
    end: int


@dataclass(frozen=True)
class Run:
    """A plan that ran.

    Attributes:
        plan: what ran.
        steps: x and every step.
        einops: the call of einops that does the same, where there is one.
        agrees: whether einops, run on the same tensor, gave the same elements in the same shape,
            and copied where the chain did; None where there is no call.
    """

    plan: Plan
    steps: tuple[Step, ...]
    einops: EinopsCall | None
    agrees: bool | None

    @property
    def allocated(self) -> int:
        """Bytes that the steps allocated, x left out."""
        return sum(step.allocated for step in self.steps[1:])

    @property
    def copies(self) -> int:
        """Steps that copied."""
        return sum(step.storage == "copy" for step in self.steps)


def start(plan: Plan) -> Tensor:
    """x: every element its own number; int32 of plan.shape."""
    return torch.arange(plan.numel, dtype=torch.int32).view(plan.shape)


def tensors(plan: Plan) -> Iterator[Tensor]:
    """x and the tensor after every step, one after the other; none is kept."""
    x = start(plan)
    yield x
    for op in plan.ops:
        x = apply(op, x)
        yield x


def run(plan: Plan) -> Run:
    """Runs a plan and reads off every tensor what torch made of it."""
    x = y = start(plan)
    names = plan.names
    steps = [_first(x, names)]
    recorder = DispatchRecorder()
    with recorder:
        for op in plan.ops:
            before, y = y, apply(op, y)
            operators = tuple(o.name.removeprefix("aten.") for o in recorder.take())
            with recorder.paused():
                step = _next(len(steps), op, before, y, names, operators)
                if step.number in plan.parts.regroups:
                    step = replace(step, why=f"{step.why} {REGROUPS}")
                steps.append(step)
            names = op.names
    call = einops_call(plan)
    agrees = None if call is None else _agrees(call, x, y)
    return Run(plan, tuple(steps), call, agrees)


def _first(x: Tensor, names: tuple[str, ...]) -> Step:
    return Step(
        number=0, code="x", shape=tuple(x.shape), strides=x.stride(), offset=0,
        contiguous=x.is_contiguous(), names=names, storage="new",
        allocated=x.untyped_storage().nbytes(), nbytes=x.nbytes, operators=(),
        why="Every element is its own number: x = torch.arange(…), row after row in memory.",
        corner=_corner(x), start=0, end=0,
    )  # fmt: skip


def _next(
    number: int, op: Op, before: Tensor, x: Tensor, names: tuple[str, ...],
    operators: tuple[str, ...],
) -> Step:  # fmt: skip
    # Both are alive, so that equal addresses are one storage.
    moved = _address(before) != _address(x)
    return Step(
        number=number, code=op.code, shape=tuple(x.shape), strides=x.stride(),
        offset=int(x.storage_offset()), contiguous=x.is_contiguous(), names=op.names,
        storage="copy" if moved else "view",
        allocated=x.untyped_storage().nbytes() if moved else 0,
        nbytes=x.numel() * x.element_size(), operators=operators,
        why=reason(op, tuple(before.shape), before.stride(), names, moved=moved),
        corner=_corner(x), start=op.start, end=op.end,
    )  # fmt: skip


def _address(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


def _corner(x: Tensor) -> NDArray[np.int64]:
    """The first block's first rows and columns; a row for a tensor of one axis, a cell for none."""
    while x.dim() > 2:
        x = x[0]
    flat = x.reshape(1, -1) if x.dim() < 2 else x
    rows, columns = CORNER
    return flat[:rows, :columns].numpy().astype(np.int64)


def _agrees(call: EinopsCall, x: Tensor, y: Tensor) -> bool:
    """Whether einops gives the same elements, in memory of its own where the chain does."""
    made = getattr(einops, call.function)(x, call.pattern, **dict(call.sizes))
    same_memory = (_address(made) == _address(x)) == (_address(y) == _address(x))
    return made.shape == y.shape and torch.equal(made, y) and same_memory
