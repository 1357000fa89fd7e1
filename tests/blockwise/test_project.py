"""q and k of long runs are those of the forward; what does not fit is refused before it is made."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from mha_core import MHAConfig, trace_forward
from mha_core.blockwise import overview, rows
from mha_core.blockwise.flip import flipped_causal, is_causal
from mha_core.blockwise.project import check_long, estimate, maps_of
from mha_core.errors import BudgetError, ConfigError
from mha_core.inputs import build_module, random_input
from mha_core.masks import padding

CONFIG = MHAConfig(batch=3, time=37, d_model=24, heads=4, causal=True, seed=5)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_the_maps_are_those_of_the_trace(dtype: str, scale: float | None) -> None:
    config = replace(CONFIG, dtype=dtype, scale=scale)
    trace = trace_forward(config)
    for item in range(3):
        long = maps_of(config, build_module(config), random_input(config), item)
        found = torch.stack([rows(long, head, (0, 37)) for head in range(4)])
        limit = {"float64": 1e-14, "float32": 1e-6, "bfloat16": 0.02}[dtype]
        assert torch.allclose(found, trace.weights[item].to(found.dtype), rtol=0, atol=limit)
        assert found.dtype is (torch.float64 if dtype == "float64" else torch.float32)


def test_no_such_item() -> None:
    with pytest.raises(ConfigError, match="batch item=3"):
        maps_of(CONFIG, build_module(CONFIG), random_input(CONFIG), 3)


@pytest.mark.parametrize("fill", [-math.inf, -1e9, -1e4])
def test_fills_that_leave_nothing_are_as_good_as_infinite(fill: float) -> None:
    config = replace(CONFIG, fill=fill, dtype="float64")
    long = maps_of(config, build_module(config), random_input(config), 0)
    weights = trace_forward(config).weights
    assert torch.allclose(rows(long, 1, (0, 37)), weights[0, 1], atol=1e-14)


def test_a_fill_that_leaks_is_refused() -> None:
    with pytest.raises(ConfigError, match="leaves weight on masked keys"):
        check_long(replace(CONFIG, fill=-10.0))
    check_long(replace(CONFIG, fill=-10.0, causal=False))


def test_over_budget_with_the_figure_and_what_fits() -> None:
    config = MHAConfig(batch=1, time=32_768, d_model=512, heads=8)
    with pytest.raises(BudgetError) as caught:
        check_long(config, limit=2**28)
    error = caught.value
    assert error.needed == estimate(config) > 2**28
    fits = error.repairs[0]["time"]
    assert estimate(replace(config, time=fits)) <= 2**28
    assert estimate(replace(config, time=fits + 1)) > 2**28
    assert check_long(config, limit=2**40) == estimate(config)


@pytest.mark.parametrize("causal", [False, True])
def test_causal_turned_over(causal: bool) -> None:
    config = replace(CONFIG, causal=causal, dtype="float64")
    trace, other = trace_forward(config), trace_forward(replace(config, causal=not causal))
    assert is_causal(trace, 1) is causal
    turned = flipped_causal(trace, 1)
    for head in range(4):
        assert torch.allclose(rows(turned, head, (0, 37)), other.weights[1, head], atol=1e-14)


def test_padding_stays_masked_when_causal_is_turned_over() -> None:
    config = replace(CONFIG, causal=False, dtype="float64")
    mask = padding([37, 20, 5], 37)
    turned = flipped_causal(trace_forward(config, mask=mask), 1)
    expected = trace_forward(replace(config, causal=True), mask=mask).weights[1, 2]
    assert torch.allclose(rows(turned, 2, (0, 37)), expected, atol=1e-14)
    with pytest.raises(ConfigError, match="batch item"):
        flipped_causal(trace_forward(config), 9)


def test_one_position_is_not_taken_for_causal() -> None:
    assert not is_causal(trace_forward(MHAConfig(time=1, causal=True)), 0)


def test_a_batch_item_does_not_depend_on_the_others() -> None:
    module, x = build_module(CONFIG), random_input(CONFIG)
    one = overview(maps_of(CONFIG, module, x, 2), 8).pooled.values
    alone = overview(maps_of(CONFIG, module, x[2:], 0), 8).pooled.values
    assert torch.equal(torch.tensor(one).nan_to_num(), torch.tensor(alone).nan_to_num())
