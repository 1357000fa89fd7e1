"""A configuration that exists can run; anything else is refused with what would work."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mha_core import ConfigError, MHAConfig
from mha_core.devices import DTYPES, available_devices
from tests.core.support import configs

HUGE = 10**400  # an int beyond every float
SIZE = (
    True, False, 0, -1, -7, 2.0, 2.5, -3.5, 1e300, math.nan, math.inf, -math.inf, "2", "", None,
    [2], (2,), 2**31, HUGE, np.int64(3), Fraction(7, 2), torch.tensor(2),
)  # fmt: skip
FLAG = (0, 1, 1.0, "yes", "", None, math.nan, [True], np.True_)
INVALID: dict[str, tuple[Any, ...]] = {
    "batch": SIZE,
    "time": SIZE,
    "d_model": SIZE,
    "heads": SIZE,
    "causal": FLAG,
    "bias": FLAG,
    "dropout": (
        -0.1, -1, 1, 1.0, 1.5, math.nan, math.inf, -math.inf, "0.1", None, True, False, [0.1],
        HUGE, -HUGE,
    ),
    "dtype": ("int8", "float", "Float32", "", None, 32, math.nan, [], ["float32"], torch.float32),
    "device": ("tpu", "cpu:0", "CPU", "", None, 0, True, [], math.nan),
    "seed": (-1, 2**63, HUGE, -HUGE, 0.0, 3.7, "0", None, True, math.nan, math.inf, [0]),
    "scale": ("1", True, False, math.nan, math.inf, -math.inf, HUGE, -HUGE, [1.0]),
    "fill": (0, 0.0, -0.0, 1, 1e9, HUGE, -HUGE, -1e39, math.nan, math.inf, "-inf", None, True, [0]),
}  # fmt: skip
VALID: dict[str, tuple[Any, ...]] = {
    "batch": (1, 2, 2**31 - 1),
    "time": (1, 6, 2**31 - 1),
    "d_model": (1, 10, 13, 30, 65, 2**31 - 1),
    "heads": (1, 2, 3, 8, 64),
    "causal": (False, True),
    "bias": (False, True),
    "dropout": (0, 0.0, 0.1, 0.999),
    "dtype": tuple(DTYPES),
    "device": ("cpu",),
    "seed": (0, 2**63 - 1),
    "scale": (None, 0, 0.125, -1, 1e-30),
    "fill": (-math.inf, -1e9, -1e4, -1),
}


def as_written(value: Any) -> str:
    """As an error writes it: -3.40282e+38 for the lowest float32."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def refused(**fields: Any) -> ConfigError:
    with pytest.raises(ConfigError, match="|".join(fields)) as caught:
        MHAConfig(**fields)
    return caught.value


@pytest.mark.parametrize(
    ("field", "value"),
    [(field, value) for field in INVALID for value in INVALID[field]],
    ids=lambda value: repr(value)[:20],
)
def test_an_invalid_value_is_refused_by_name_with_values_that_work(field, value):
    error = refused(**{field: value})

    assert isinstance(error, ValueError)
    assert error.field == field
    assert error.value is value
    assert str(error).startswith(f"{field}={value!r}: {error.rule}. ")
    assert error.works
    assert error.works in str(error)
    assert error.repairs
    for repair in error.repairs:
        assert list(repair) == [field]
        assert as_written(repair[field]) in error.works
        MHAConfig(**repair)  # one press of the button, and it runs


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (True, "must be an integer, not bool"),
        (2.0, "must be an integer, not float"),
        ("2", "must be an integer, not str"),
        (0, "must be at least 1"),
        (2**31, "must be at most 2147483647"),
    ],
)
def test_a_size_is_refused_for_the_rule_it_breaks(value, rule):
    assert refused(batch=value).rule == rule


@given(
    st.fixed_dictionaries(
        {field: st.sampled_from(VALID[field] + INVALID[field]) for field in INVALID}
    ),
    st.lists(st.integers(0, 5), min_size=30, max_size=30),
)
def test_applying_any_of_the_repairs_ends_in_a_configuration(fields, choices):
    for choice in choices:
        try:
            MHAConfig(**fields)
        except ConfigError as error:
            repair = error.repairs[choice % len(error.repairs)]
            assert all(fields[field] is not value for field, value in repair.items())
            fields = fields | repair
        else:
            break
    else:
        pytest.fail(f"still refused: {fields}")


@pytest.mark.parametrize(
    ("fields", "repair"),
    [
        ({"batch": 2.6}, {"batch": 3}),
        ({"batch": np.int64(3)}, {"batch": 3}),
        ({"time": -5}, {"time": 1}),
        ({"time": 2**40}, {"time": 2**31 - 1}),
        ({"heads": 2.7, "d_model": 32}, {"heads": 2}),
        ({"heads": 5.6, "d_model": 32}, {"heads": 4}),
        ({"heads": HUGE, "d_model": 30}, {"heads": 30}),
        ({"d_model": 0, "heads": 4}, {"d_model": 4}),
        ({"d_model": 31.5, "heads": 5}, {"d_model": 30}),
        ({"seed": 3.7}, {"seed": 4}),
        ({"seed": 2**63}, {"seed": 2**63 - 1}),
        ({"dropout": 1}, {"dropout": 0.9}),
        ({"dropout": -0.3}, {"dropout": 0.0}),
    ],
)
def test_the_first_repair_is_the_nearest_value_that_the_other_fields_allow(fields, repair):
    assert refused(**fields).repairs[0] == repair


@pytest.mark.parametrize(
    ("d_model", "heads", "offer"),
    [
        (65, 8, "d_model 64 or 72, or heads 1, 5, 13, 65"),
        (10, 3, "d_model 9 or 12, or heads 1, 2, 5, 10"),
        (13, 2, "d_model 12 or 14, or heads 1, 13"),
        (3, 8, "d_model 8, or heads 1, 3"),
    ],
)
def test_d_model_and_heads_that_do_not_fit_are_both_named_with_every_value_that_works(
    d_model, heads, offer
):
    error = refused(d_model=d_model, heads=heads)
    assert f"d_model={d_model}: must be a multiple of heads={heads}" in str(error)
    assert error.works == f"Nearest that work: {offer}"


@given(st.integers(1, 5000), st.integers(2, 64))
def test_the_repairs_of_a_width_are_the_nearest_by_brute_force(d_model, heads):
    if d_model % heads == 0:
        assert MHAConfig(d_model=d_model, heads=heads).d_k == d_model // heads
        return
    repairs = refused(d_model=d_model, heads=heads).repairs

    widths = [repair["d_model"] for repair in repairs if "d_model" in repair]
    counts = [repair["heads"] for repair in repairs if "heads" in repair]
    multiples = range(heads, d_model + heads + 1, heads)
    divisors = [count for count in range(1, d_model + 1) if d_model % count == 0]
    assert widths[0] in multiples
    assert abs(widths[0] - d_model) == min(abs(width - d_model) for width in multiples)
    assert counts == sorted(divisors, key=lambda count: (abs(count - heads), count))[:3]
    for repair in repairs:
        MHAConfig(**({"d_model": d_model, "heads": heads} | repair))


def test_a_long_list_of_divisors_is_cut_to_the_nearest():
    error = refused(d_model=5040, heads=11)
    assert error.works.endswith("or heads 6, 7, 8, 9, 10, 12, 14, 15")


def test_a_width_beyond_all_memory_is_refused_without_listing_its_divisors():
    assert refused(d_model=10**18 + 9, heads=2).repairs == ({"d_model": 2**31 - 2},)


def test_the_repairs_of_the_largest_width_stay_within_the_limit():
    for repair in refused(d_model=2**31 - 1, heads=2).repairs:
        MHAConfig(**({"d_model": 2**31 - 1, "heads": 2} | repair))


def test_the_defaults_differ_pairwise():
    default = MHAConfig()
    sizes = (default.batch, default.time, default.d_model, default.heads, default.d_k)
    assert len(set(sizes)) == len(sizes)


def test_a_configuration_cannot_be_changed():
    default = MHAConfig()
    with pytest.raises(dataclasses.FrozenInstanceError, match="heads"):
        default.heads = 8


def test_fields_are_given_by_name_only():
    with pytest.raises(TypeError, match="positional"):
        MHAConfig(2, 6)


@given(configs(), st.sampled_from([-math.inf, -1e9, -1e4]), st.sampled_from([None, 0.5, 2]))
def test_to_dict_and_from_dict_are_inverse_through_json(made, fill, scale):
    made = dataclasses.replace(made, fill=fill, scale=scale)
    text = json.dumps(made.to_dict(), allow_nan=False)
    back = MHAConfig.from_dict(json.loads(text))
    assert back == made
    assert hash(back) == hash(made)


def test_from_dict_takes_defaults_for_what_is_absent():
    assert MHAConfig.from_dict({}) == MHAConfig()


def test_from_dict_refuses_a_field_it_does_not_know_and_lists_those_it_does():
    with pytest.raises(ConfigError, match=r"n_head=4: no such field.*heads"):
        MHAConfig.from_dict({"n_head": 4})


@pytest.mark.parametrize(
    ("backend", "name", "built", "available", "reason"),
    [
        ("cuda", "cuda", False, False, "this torch was built without CUDA"),
        ("cuda", "cuda", True, False, "torch finds no CUDA device"),
        ("mps", "mps", False, False, "this torch was built without MPS"),
        ("mps", "mps", True, False, "torch finds no MPS device"),
    ],
)
def test_a_device_that_torch_lacks_is_refused_with_those_it_has(
    monkeypatch, backend, name, built, available, reason
):
    monkeypatch.setattr(getattr(torch.backends, backend), "is_built", lambda: built)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: available)
    error = refused(device=name)
    assert error.rule == reason
    assert error.works == "torch here has: cpu"
    assert error.repairs == ({"device": "cpu"},)


def test_every_device_that_torch_has_is_accepted():
    assert "cpu" in available_devices()
    for device in available_devices():
        assert MHAConfig(device=device).device == device


def test_mps_with_float64_is_refused_with_both_ways_out(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    error = refused(dtype="float64", device="mps")
    assert (error.field, error.rule) == ("dtype", "MPS has no float64")
    for repair in error.repairs:
        MHAConfig(**({"dtype": "float64", "device": "mps"} | repair))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fill", [-1e9, -65504.0, -65505.0, -1e4, -3e38, -3.5e38, -math.inf])
def test_a_fill_is_accepted_exactly_where_torch_can_write_it(dtype, fill):
    scores = torch.zeros(1, dtype=DTYPES[dtype])
    try:
        scores.masked_fill(torch.ones(1, dtype=torch.bool), fill)
    except RuntimeError:
        error = refused(fill=fill, dtype=dtype)
        assert f"does not fit {dtype}, whose lowest value is" in str(error)
        for repair in error.repairs:
            MHAConfig(**({"fill": fill, "dtype": dtype} | repair))
    else:
        assert MHAConfig(fill=fill, dtype=dtype).fill == fill
