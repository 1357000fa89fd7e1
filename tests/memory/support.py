"""What the tests of memory share: an independent walk, and tensors of every layout."""

from __future__ import annotations

import itertools
import math

import torch
from hypothesis import strategies as st
from torch import Tensor

Index = tuple[int, ...]


def walked(tensor: Tensor) -> dict[Index, int]:
    """Index -> offset, found without strides: distinct numbers are written into the storage in
    the order of memory, and read back through the tensor."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    before = tensor.clone()
    whole = tensor.as_strided((count,), (1,), 0)
    kept = whole.clone()
    whole.copy_(torch.arange(count, dtype=tensor.dtype))
    found = {index: int(tensor[index]) for index in itertools.product(*map(range, tensor.shape))}
    whole.copy_(kept)
    assert torch.equal(tensor.nan_to_num(), before.nan_to_num())
    return found


@st.composite
def laid_out(draw: st.DrawFn) -> Tensor:
    """A float64 tensor of up to 4 axes: permuted, sliced from a larger one, or neither."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    order = draw(st.permutations(range(len(sizes))))
    extra = draw(st.lists(st.integers(0, 2), min_size=len(sizes), max_size=len(sizes)))
    larger = [size + more for size, more in zip(sizes, extra, strict=True)]
    base = torch.zeros(math.prod(larger), dtype=torch.float64).view(larger)
    starts = [draw(st.integers(0, more)) for more in extra]
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        base = base.narrow(axis, start, size)
    return base.permute(order)
