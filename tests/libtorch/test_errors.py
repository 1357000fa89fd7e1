"""What Python refuses C++ refuses, with the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, MultiHeadAttention, attend
from tests.core.support import BATCH, D_MODEL, HEADS, TIME, qkv, randn, seeded
from tests.libtorch.support import Refused, Server, weights_of


def said(server: Server, case: dict[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        server(case)
    return str(refused.value)


def refusal(call: Callable[[], object]) -> str | None:
    """What Python says, in its own words or torch's; None where it runs."""
    try:
        call()
    except (ConfigError, RuntimeError) as error:
        return str(error)
    return None


X = randn(BATCH, TIME, D_MODEL)
MODULE = seeded()


@given(
    d_model=st.integers(-3, 60) | st.sampled_from([2**31, 2**40, 997, 720720]),
    heads=st.integers(-3, 40) | st.sampled_from([2**31, 513]),
)
def test_widths(server: Server, d_model: int, heads: int) -> None:
    # On the meta device a module has shapes alone, however large.
    words = refusal(lambda: MultiHeadAttention(d_model, heads, device="meta", dtype=torch.float64))
    if words is not None:
        assert said(server, {"x": X, "d_model": d_model, "heads": heads}) == words


@pytest.mark.parametrize(
    "options",
    [
        {"dropout": 1.0}, {"dropout": -0.1}, {"dropout": torch.nan}, {"dropout": 1e22},
        {"dropout": -1e-5}, {"dropout": -0.00012345},
        {"scale": torch.inf}, {"scale": -torch.inf}, {"scale": torch.nan},
        {"fill": 0.0}, {"fill": 5.5}, {"fill": torch.nan}, {"fill": torch.inf},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_options(server: Server, options: dict[str, float], dtype: torch.dtype) -> None:
    with pytest.raises(ConfigError) as error:
        MultiHeadAttention(D_MODEL, HEADS, dtype=dtype, **options)
    case = {"x": X.to(dtype), "d_model": D_MODEL, "heads": HEADS, **options}
    assert said(server, case) == str(error.value)


@pytest.mark.parametrize(
    ("fill", "dtype"),
    [(-1e39, torch.float32), (-1e5, torch.float16), (-3.4e38, torch.bfloat16)],
)
def test_fill_of_a_dtype(server: Server, fill: float, dtype: torch.dtype) -> None:
    with pytest.raises(ConfigError) as error:
        MultiHeadAttention(D_MODEL, HEADS, dtype=dtype, fill=fill)
    case = {"x": X.to(dtype), "d_model": D_MODEL, "heads": HEADS, "fill": fill}
    assert said(server, case) == str(error.value)


@pytest.mark.parametrize(
    "shape", [(), (D_MODEL,), (TIME, D_MODEL), (BATCH, TIME, D_MODEL + 1), (1, 1, 1, D_MODEL),
              (0, TIME, D_MODEL), (BATCH, 0, D_MODEL)],
)  # fmt: skip
def test_input(server: Server, shape: tuple[int, ...]) -> None:
    x = randn(*shape)
    with pytest.raises(ConfigError) as error:
        MODULE(x)
    assert said(server, {**weights_of(MODULE), "x": x, "heads": HEADS}) == str(error.value)


@pytest.mark.parametrize(
    "mask",
    [
        torch.ones(TIME, TIME + 1, dtype=torch.bool),
        torch.zeros(BATCH, TIME, TIME, dtype=torch.float64),
        torch.ones(1, BATCH, HEADS, TIME, TIME, dtype=torch.bool),
        torch.ones(BATCH + 1, 1, 1, TIME, dtype=torch.bool),
        torch.ones(0, TIME, dtype=torch.bool),
        torch.ones(TIME, TIME, dtype=torch.int64),
        torch.ones(TIME, TIME, dtype=torch.uint8),
    ],
    ids=lambda mask: f"{tuple(mask.shape)} {mask.dtype}",
)
@pytest.mark.parametrize("causal", [False, True])
def test_mask(server: Server, mask: torch.Tensor, causal: bool) -> None:
    case = {**weights_of(MODULE), "x": X, "heads": HEADS, "mask": mask, "causal": causal}
    # Where the causal mask and this one do not broadcast, the words are torch's.
    words = refusal(lambda: MODULE(X, mask=mask, causal=causal))
    assert words is not None
    assert said(server, case) == words


def test_q_k_and_v(server: Server) -> None:
    q, k, v = qkv()
    for wrong in (
        {"q": q[0]}, {"k": k[:, :2]}, {"k": k[..., :3]}, {"v": v[:, :, :4]}, {"v": v[:1]},
        {"v": v[0, 0]},
    ):  # fmt: skip
        given = {"q": q, "k": k, "v": v, **wrong}
        with pytest.raises(ConfigError) as error:
            attend(given["q"], given["k"], given["v"])
        assert said(server, given) == str(error.value)
