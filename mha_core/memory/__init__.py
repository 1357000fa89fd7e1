"""Where the elements of a tensor lie: strides, offsets, neighbours, and who copies.

Everything is read off tensors that torch made: an element's place is the address torch gives it,
an operator is one that torch dispatched, a refusal is an error that torch raised.
"""

from mha_core.memory.calls import Call, calls
from mha_core.memory.journey import Stop, journey, tensor_name
from mha_core.memory.matmul import PRODUCTS, Operand, operands
from mha_core.memory.neighbours import InMemory, InTensor, in_memory, in_tensor
from mha_core.memory.places import Place, index_at, place_at, stored
from mha_core.memory.program import program
from mha_core.memory.report import frame
from mha_core.memory.view_rule import Refusal, view_strides
from mha_core.memory.walk import jumps, unbroken

__all__ = [
    "PRODUCTS",
    "Call",
    "InMemory",
    "InTensor",
    "Operand",
    "Place",
    "Refusal",
    "Stop",
    "calls",
    "frame",
    "in_memory",
    "in_tensor",
    "index_at",
    "journey",
    "jumps",
    "operands",
    "place_at",
    "program",
    "stored",
    "tensor_name",
    "unbroken",
    "view_strides",
]
