"""What a batched `@` does with its operands before it multiplies.

torch.matmul reads the batch axes of each operand as one, so that a single `bmm` does all heads
(ATen/native/LinearAlgebra.cpp, _matmul_impl: expand, then reshape). Where the strides do not
allow that as a view, the reshape copies. The rule says which operand is copied; the operators that
torch dispatched say the same, and tests compare the two.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mha_core.memory.view_rule import Refusal, view_strides
from mha_core.records import Shape
from mha_core.trace import Trace

PRODUCTS = ("scores", "weighted_values")


@dataclass(frozen=True)
class Operand:
    """One side of a batched product.

    Attributes:
        name: as the code has it.
        shape, strides: (batch, h, rows, columns), as matmul is given it.
        wanted: (batch·h, rows, columns), as bmm takes it.
        refusal: the stride for which it cannot be read so; None where a view does.
        nbytes: what a copy takes.
    """

    name: str
    shape: Shape
    strides: Shape
    wanted: Shape
    refusal: Refusal | None
    nbytes: int


def operands(trace: Trace, step: str) -> tuple[Operand, Operand]:
    """Both sides of a product: of "scores" q and kᵀ, of "weighted_values" the weights and v."""
    left, right = (trace.tensor(read) for read in trace[step].reads)
    if step == "scores":
        return _operand("q", left), _operand("k.transpose(-2, -1)", right.transpose(-2, -1))
    return _operand("weights", left), _operand("v", right)


def _operand(name: str, tensor: Tensor) -> Operand:
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    wanted = (shape[0] * shape[1], *shape[2:])
    found = view_strides(shape, strides, wanted)
    refusal = found if isinstance(found, Refusal) else None
    return Operand(name, shape, strides, wanted, refusal, tensor.nbytes)
