"""The estimate bounds what a run needs, not by far; a refusal has the figures and a way out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_core import BudgetError, MHAConfig, budget, trace_forward
from mha_core.errors import human_bytes
from mha_core.steps import STEPS
from tests.core.support import configs

MIB = 2**20


def measured(trace):
    """Bytes of the weights, of the forward at its worst, and of what the trace keeps."""
    parameters = sum(parameter.nbytes for parameter in trace.module.parameters())
    return parameters, trace.peak_bytes, trace.kept_bytes


@given(
    configs(),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([float("-inf"), -1e9]),
    st.one_of(st.none(), st.sets(st.sampled_from(list(STEPS)))),
)
def test_the_estimate_is_never_below_what_was_measured(made, dropout, fill, keep):
    made = replace(made, dropout=dropout, fill=fill)
    parameters, forward, kept = measured(trace_forward(made, keep=keep))
    estimate = budget.estimate(made, keep)
    assert estimate.parameters == parameters
    assert estimate.forward >= forward
    assert estimate.kept >= kept
    if min(made.heads, made.time) > 1:  # else merge is a view, and keeps nothing of its own
        assert estimate.kept == kept
    assert estimate.peak == estimate.parameters + estimate.forward + estimate.kept


MAP_DOMINATED = [
    MHAConfig(batch=2, time=211, d_model=16, heads=4),
    MHAConfig(batch=2, time=211, d_model=16, heads=4, causal=True),
    MHAConfig(batch=1, time=307, d_model=6, heads=3, dtype="float64"),
    MHAConfig(batch=3, time=127, d_model=14, heads=7, causal=True, dtype="bfloat16"),
    MHAConfig(batch=2, time=211, d_model=16, heads=4, dropout=0.3),
    MHAConfig(batch=1, time=401, d_model=8, heads=1, causal=True),
    MHAConfig(batch=1, time=401, d_model=8, heads=1, causal=True, fill=-1e9),
]


@pytest.mark.parametrize("keep", [None, ["softmax"]])
@pytest.mark.parametrize("made", MAP_DOMINATED)
def test_where_the_maps_dominate_the_estimate_is_within_1_6_of_what_was_measured(made, keep):
    needed = sum(measured(trace_forward(made, keep=keep)))
    assert needed <= budget.estimate(made, keep).peak <= 1.6 * needed


@given(configs(), st.integers(0, 200), st.sampled_from([None, ("softmax",)]))
def test_the_largest_time_is_the_last_that_fits(made, kibibytes, keep):
    made, limit = replace(made, time=200), kibibytes * 1024

    def fits(time):
        return budget.estimate(replace(made, time=time), keep).peak <= limit

    expected = max((time for time in range(1, 201) if fits(time)), default=0)
    assert budget.largest_time(made, keep, limit=limit) == expected


def test_a_run_over_the_limit_is_refused_with_every_figure():
    made = MHAConfig(batch=2, time=4096, d_model=64, heads=16)
    needed = budget.estimate(made).peak
    with pytest.raises(BudgetError, match="time=4096") as caught:
        budget.check(made, limit=512 * MIB)
    error = caught.value
    assert (error.field, error.value) == ("time", 4096)
    assert (error.needed, error.limit) == (needed, 512 * MIB)
    assert f"needs about {human_bytes(needed)}, over the limit of 512.0 MiB" in str(error)
    (repair,) = error.repairs
    assert f"The largest time that fits is {repair['time']}" in str(error)
    budget.check(replace(made, **repair), limit=512 * MIB)
    one_more = replace(made, time=repair["time"] + 1)
    with pytest.raises(BudgetError, match="over the limit"):
        budget.check(one_more, limit=512 * MIB)


def test_a_run_within_the_limit_returns_its_estimate():
    made = MHAConfig()
    estimate = budget.estimate(made)
    assert budget.check(made, limit=estimate.peak) == estimate
    with pytest.raises(BudgetError, match="over the limit"):
        budget.check(made, limit=estimate.peak - 1)


def test_where_the_weights_alone_are_over_the_limit_no_time_is_offered():
    with pytest.raises(BudgetError, match="No time fits: lower batch, heads or d_model") as caught:
        budget.check(MHAConfig(d_model=4096, heads=8), limit=MIB)
    assert caught.value.repairs == ()


def test_keeping_less_needs_less():
    made = MHAConfig(time=128, causal=True, dropout=0.1)
    everything, weights, nothing = (
        budget.estimate(made, keep).kept for keep in (None, ["softmax"], [])
    )
    assert everything > weights > nothing == 0


def test_the_limit_is_half_of_the_free_memory(monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=10 * MIB + 1))
    assert budget.default_limit("cpu") == 5 * MIB
    made = MHAConfig(batch=1, d_model=8, heads=2, time=1)
    budget.check(made)
    with pytest.raises(BudgetError, match=r"over the limit of 5\.0 MiB"):
        budget.check(replace(made, time=2048))


@pytest.mark.parametrize("size", ["batch", "time", "d_model", "heads"])
def test_the_largest_sizes_are_refused_without_a_run(size):
    made = MHAConfig(**({"batch": 1, "time": 1, "d_model": 2**20, "heads": 1} | {size: 2**20}))
    largest = replace(made, batch=2**31 - 1, time=2**31 - 1)
    with pytest.raises(BudgetError, match="this run needs about"):
        budget.check(largest, limit=2**40)
