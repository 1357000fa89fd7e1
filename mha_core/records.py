"""What one step of a forward produced, as read from its tensor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.aten import Operator
from mha_core.steps import StepSpec

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """What one step produced, read from the tensor itself.

    Attributes:
        spec: its name, symbolic shapes and lesson.
        reads: ids of the steps whose tensors it took.
        input_shapes: concrete shape of each operand.
        shape, strides, offset, contiguous, dtype: of the tensor; strides in elements.
        view_of: id of the step whose storage it shares, None for memory of its own.
        nbytes: bytes of its elements.
        allocated: bytes of every storage created on the way, hidden copies too (profile).
        copied: bytes copied on the way (profile).
        flops: by torch's counter: 2·m·n·k for each matrix product, nothing else (profile).
        milliseconds: in the fastest timing run (profile).
        operators: what torch dispatched (profile).
        tensor: detached; None where it was not kept.
    """

    spec: StepSpec
    reads: tuple[str, ...]
    input_shapes: tuple[Shape, ...]
    shape: Shape
    strides: Shape
    offset: int
    contiguous: bool
    dtype: torch.dtype
    view_of: str | None
    nbytes: int
    allocated: int | None = None
    copied: int | None = None
    flops: int | None = None
    milliseconds: float | None = None
    operators: tuple[Operator, ...] = ()
    tensor: Tensor | None = None

    @property
    def id(self) -> str:
        return self.spec.id

    @property
    def number(self) -> str:
        return self.spec.number

    @property
    def storage(self) -> str:
        """ "view", "copy" (all it allocated was written by copying) or "new"."""
        if self.view_of is not None:
            return "view"
        return "copy" if self.copied and self.copied == self.allocated else "new"
