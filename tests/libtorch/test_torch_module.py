"""Against LibTorch's own torch::nn::MultiheadAttention, and what differs, as found by running."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from mha_core import masks
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, close, randn, seeded
from tests.libtorch.support import Refused, Server, State, weights_of

MODULE = seeded()
X = randn(BATCH, TIME, D_MODEL)
CASE: dict[str, Any] = {**weights_of(MODULE), "x": X, "heads": HEADS}
CAUSAL = masks.causal(TIME)
PADDING = masks.padding([TIME, 2], TIME)


def both(server: Server, theirs: dict[str, Any], ours: dict[str, Any]) -> tuple[State, State]:
    """What torch's module gives with its masks, and our C++ one with ours."""
    return server({**CASE, "torch": True, **theirs}), server({**CASE, **ours})


def agree(theirs: State, ours: State) -> bool:
    """To the rounding of float64: theirs scales q first and fuses the three products."""
    return close(theirs["output"], ours["output"]) and close(theirs["weights"], ours["softmax"])


@pytest.mark.parametrize("bias", [True, False])
def test_without_a_mask(server: Server, bias: bool) -> None:
    module = seeded(bias=bias)
    case = {**weights_of(module), "x": X, "heads": HEADS}
    assert agree(server({**case, "torch": True}), server(case))


def test_it_means_the_opposite_with_a_boolean_mask(server: Server) -> None:
    assert agree(*both(server, {"mask": masks.flip(CAUSAL)}, {"causal": True}))
    assert not agree(*both(server, {"mask": CAUSAL.roll(1, 1)}, {"mask": CAUSAL.roll(1, 1)}))


def test_key_padding(server: Server) -> None:
    theirs = masks.flip(PADDING)[:, 0, 0, :]
    assert agree(*both(server, {"key_padding_mask": theirs}, {"mask": PADDING}))


def test_causal_and_padding(server: Server) -> None:
    theirs = {"mask": masks.flip(CAUSAL), "key_padding_mask": masks.flip(PADDING)[:, 0, 0, :]}
    assert agree(*both(server, theirs, {"mask": PADDING, "causal": True}))


def test_additive_mask(server: Server) -> None:
    added = randn(TIME, TIME, seed=4)
    assert agree(*both(server, {"mask": added}, {"mask": added}))


def test_a_mask_of_each_head_is_flattened_over_batch_and_heads(server: Server) -> None:
    added = randn(BATCH, HEADS, TIME, TIME, seed=6)
    assert agree(*both(server, {"mask": added.flatten(0, 1)}, {"mask": added}))
    with pytest.raises(Refused):
        server({**CASE, "torch": True, "mask": added})


def test_a_row_without_a_key_is_nan_there_and_zero_here(server: Server) -> None:
    keep = masks.padding([TIME, 0], TIME)
    theirs, ours = both(server, {"key_padding_mask": masks.flip(keep)[:, 0, 0, :]}, {"mask": keep})
    assert theirs["weights"][1].isnan().all()
    assert (ours["softmax"][1] == 0).all()
    assert close(theirs["output"][0], ours["output"][0])


def test_time_comes_first(server: Server) -> None:
    """A batch of 2 with 3 positions, given as it is, is read as 3 sequences of 2 positions."""
    module = seeded(d_model=4, heads=2)
    x: Tensor = randn(2, 3, 4)
    case = {**weights_of(module), "x": x, "heads": 2}
    ours = server(case)
    # The case's runner exchanges batch and time there and back, as a user has to.
    assert agree(server({**case, "torch": True}), ours)
    as_it_is = server({**case, "x": x.transpose(0, 1), "torch": True})
    assert as_it_is["weights"].shape == (3, 2, 2, 2)
    assert ours["softmax"].shape == (2, 2, 3, 3)


def test_no_divisor(server: Server) -> None:
    with pytest.raises(Refused, match="divisible"):
        server({**CASE, "torch": True, "heads": 4})


def test_in_float32(server: Server) -> None:
    case = {
        name: value.float() if isinstance(value, Tensor) else value for name, value in CASE.items()
    }
    theirs, ours = server({**case, "torch": True}), server(case)
    assert torch.allclose(theirs["output"], ours["output"], atol=2e-6)
