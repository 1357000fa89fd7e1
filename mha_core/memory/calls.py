"""Calls made now, on the tensors of a trace: what each dispatches, copies, shares or refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mha_core.aten import DispatchRecorder, Operator
from mha_core.memory.journey import tensor_name
from mha_core.records import Shape
from mha_core.trace import Trace


@dataclass(frozen=True)
class Call:
    """One call, and what came of it.

    Attributes:
        code: the call, with the sizes it had.
        on: id of the step whose tensor it was made on.
        before: that tensor's strides.
        shape, strides, contiguous: of the result; None, None and False where it was refused.
        shares: the result has the tensor's storage.
        itself: the result is the very tensor.
        operators: what torch dispatched.
        copied: bytes they copied.
        error: torch's own words, where it refused.
    """

    code: str
    on: str
    before: Shape
    shape: Shape | None
    strides: Shape | None
    contiguous: bool
    shares: bool
    itself: bool
    operators: tuple[Operator, ...]
    copied: int
    error: str | None


def attempt(code: str, on: str, tensor: Tensor, call: Callable[[Tensor], Tensor]) -> Call:
    """Makes the call and says what came of it; an error that torch raises is a result too."""
    before = tuple(tensor.stride())
    with DispatchRecorder() as recorder:
        try:
            made = call(tensor)
        except RuntimeError as error:
            words = str(error)
            return Call(code, on, before, None, None, False, False, False, recorder.take(), 0,
                        words)  # fmt: skip
    operators = recorder.take()
    home = tensor.untyped_storage().data_ptr()
    return Call(
        code=code,
        on=on,
        before=before,
        shape=tuple(made.shape),
        strides=tuple(made.stride()),
        contiguous=made.is_contiguous(),
        shares=made.untyped_storage().data_ptr() == home,
        itself=made is tensor,
        operators=operators,
        copied=sum(operator.copied for operator in operators),
        error=None,
    )


def calls(trace: Trace) -> list[Call]:
    """The calls that people ask about; the last is `view` after `transpose`, without contiguous.

    At most one copy of a (batch, time, d_model) tensor is alive at a time.
    """
    config = trace.config
    batch, time, heads, d_k = config.batch, config.time, config.heads, config.d_k
    d_model = config.d_model
    chosen: list[tuple[str, str, Callable[[Tensor], Tensor]]] = [
        ("project_q", f"view({batch}, {time}, {heads}, {d_k})",
         lambda q: q.view(batch, time, heads, d_k)),
        ("split_q", "transpose(1, 2)", lambda q: q.transpose(1, 2)),
        ("project_q", "contiguous()", Tensor.contiguous),
        ("transpose_q", "contiguous()", Tensor.contiguous),
        ("split_q", f"reshape({batch}, {time}, {d_model})",
         lambda q: q.reshape(batch, time, d_model)),
        ("transpose_back", f"reshape({batch}, {time}, {d_model})",
         lambda out: out.reshape(batch, time, d_model)),
        ("transpose_back", f"view({batch}, {time}, {d_model})",
         lambda out: out.view(batch, time, d_model)),
    ]  # fmt: skip
    with torch.no_grad():
        return [
            attempt(f"{tensor_name(on)}.{code}", on, trace.tensor(on), call)
            for on, code, call in chosen
        ]
