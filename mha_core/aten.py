"""What torch really dispatched: operators, the copies hidden in them, and live bytes.

A `TorchDispatchMode` sits below autograd and sees every operator that reaches a kernel, so the
`clone` that a batched matmul makes of a transposed operand shows, and so does the one inside
`contiguous()` (torch documentation, torch.utils._python_dispatch).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Operators whose only work is to write the same numbers elsewhere.
COPIES = frozenset({"aten.clone", "aten._to_copy", "aten.copy_", "aten.contiguous"})


@dataclass(frozen=True)
class Operator:
    """One dispatched operator.

    Attributes:
        name: e.g. "aten.bmm".
        inputs: shapes of its tensor arguments.
        output: shape of its result.
        allocated: bytes of the storage it created; 0 for a view or in-place operator.
        copied: bytes it copied, for the operators that do nothing else.
        flops: floating-point operations by torch's own counter; 0 where it counts none.
    """

    name: str
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    allocated: int
    copied: int
    flops: int


class DispatchRecorder(TorchDispatchMode):
    """Records operators and the bytes alive, from entering the mode until leaving it.

    A storage is alive as long as a tensor that an operator returned has it. What is made of such a
    tensor while the mode is paused, to keep its values, does not prolong that.

    Attributes:
        live: bytes now alive in storages that operators under the mode created.
        peak: the most `live` has been.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live = 0
        self.peak = 0
        self._operators: list[Operator] = []
        self._outside: set[int] = set()  # storages that were there before
        self._holders: dict[int, int] = {}  # storage -> tensors that have it
        self._paused = False

    def take(self) -> tuple[Operator, ...]:
        """The operators recorded since the last call."""
        taken, self._operators = tuple(self._operators), []
        return taken

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within, nothing is recorded."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if self._paused:
            return func(*args, **kwargs)
        inputs = list(_tensors(args)) + list(_tensors(tuple(kwargs.values())))
        for tensor in inputs:  # weights and inputs: there before, so not counted
            key = tensor.untyped_storage()._cdata
            if key not in self._holders:
                self._outside.add(key)
        result = func(*args, **kwargs)
        allocated = sum(self._hold(tensor) for tensor in _tensors((result,)))
        self._operators.append(_describe(func, args, kwargs, inputs, result, allocated))
        return result

    def _hold(self, tensor: Tensor) -> int:
        """Bytes of the tensor's storage if this is the first sight of it, else 0."""
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self._outside:
            return 0
        new = key not in self._holders
        self._holders[key] = self._holders.get(key, 0) + 1
        weakref.finalize(tensor, self._released, key, size)
        if not new:
            return 0
        self.live += size
        self.peak = max(self.peak, self.live)
        return size

    def _released(self, key: int, size: int) -> None:
        self._holders[key] -= 1
        if not self._holders[key]:
            del self._holders[key]
            self.live -= size


def _describe(
    func: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: list[Tensor],
    result: Any,
    allocated: int,
) -> Operator:
    packet = func.overloadpacket
    count: Callable[..., int] | None = flop_registry.get(packet)
    name = str(packet)
    output = result if isinstance(result, Tensor) else None
    copied = output.nbytes if name in COPIES and output is not None else 0
    return Operator(
        name=name,
        inputs=tuple(tuple(tensor.shape) for tensor in inputs),
        output=tuple(output.shape) if output is not None else (),
        allocated=allocated,
        copied=copied,
        flops=int(count(*args, **kwargs, out_val=result)) if count else 0,
    )


def _tensors(values: tuple[Any, ...]) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(tuple(value))
