"""Costs along one size: the formulas are what runs, and a measurement stays within its bounds."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from mha_core import ConfigError, MHAConfig, attend, cost
from mha_core.charts import Chart
from mha_core.inputs import build_module, random_input
from mha_core.measure import peak_bytes
from mha_core.scaling import (
    ATTENTION,
    AXES,
    GROUPS,
    Ended,
    Measured,
    along,
    closed,
    crossing,
    measure,
    sizes,
)
from mha_core.scaling_charts import COUNTED, charts, crossing_of, table
from mha_core.steps import STEPS
from tests.core.support import config, configs


def measured(axis="time", count=2, **changes):
    """The first sizes of an axis, measured in as little time as can be."""
    found = list(measure(along(config(**changes), axis)[:count], allowed=1e9))
    assert all(isinstance(one, Measured) for one in found)
    return found


def test_groups_have_every_step_that_costs_anything():
    grouped = [step for steps in GROUPS.values() for step in steps]
    assert len(grouped) == len(set(grouped))
    assert set(ATTENTION) < set(grouped)
    made = config(causal=True, dropout=0.1)
    counts, moved = cost.flops(made), cost.allocated(made)
    assert {step for step in STEPS if counts[step] or moved[step]} == set(grouped)


@given(configs(), st.sampled_from(AXES))
def test_sizes_are_valid_grow_and_have_the_runs_own(made, axis):
    found = sizes(made, axis)
    assert found == sorted(set(found))
    assert getattr(made, axis) in found
    for one in along(made, axis):  # each is a configuration: MHAConfig would refuse it
        assert one.d_model % one.heads == 0
        assert {name: getattr(one, name) for name in AXES if name != axis} == {
            name: getattr(made, name) for name in AXES if name != axis
        }


def test_sizes_about_double():
    made = MHAConfig(batch=3, time=100, d_model=96, heads=12)
    assert sizes(made, "time") == [16, 32, 64, 100, *(2**n for n in range(7, 15))]
    assert sizes(made, "d_model") == [24, 48, 96, 192, 384, 768, 1536, 3072]
    assert sizes(made, "heads") == [1, 2, 4, 8, 12, 16, 32, 96]
    assert sizes(made, "batch") == [1, 2, 3, *(2**n for n in range(2, 9))]


def test_no_such_axis():
    with pytest.raises(ConfigError, match="axis='d_k': must be one of time, d_model"):
        sizes(config(), "d_k")


@given(configs())
def test_closed_flops_are_torchs_own_count(made):
    module, x = build_module(made), random_input(made)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(x, causal=made.causal)
    assert sum(closed(made).flops.values()) == counter.get_total_flops()


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("causal", [False, True])
def test_what_is_measured_is_on_the_formulas(axis, causal):
    for one in measured(axis, causal=causal):
        formula = closed(one.config)
        for step, count in one.flops.items():
            assert count == formula.flops[step]
        for step, count in one.allocated.items():
            assert count == formula.allocated[step]
        assert one.peak == formula.peak
        assert abs(one.materialised - formula.materialised) <= 0.05 * formula.materialised + 64
        assert one.fused >= formula.fused  # its output, and what the kernel takes for itself
        assert one.difference < 1e-12


def test_the_kernel_is_the_one_that_ran():
    one = measured(count=1)[0]
    q = torch.randn(2, 3, 16, 7, dtype=torch.float64)
    with torch.profiler.profile() as recorded, torch.no_grad():
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
    assert f"aten::{one.kernel}" in {event.key for event in recorded.key_averages()}


def test_whole_weights_take_more_than_the_fused_kernel_where_time_is_long():
    made = MHAConfig(batch=1, time=512, d_model=16, heads=2, causal=True)
    (one,) = measure([made], allowed=1e9)
    assert one.materialised > 10 * one.fused
    shape = (1, 2, 512, 8)
    q, k, v = (torch.randn(shape) for _ in "qkv")
    again = peak_bytes(lambda: attend(q, k, v, causal=True)[0], "cpu")
    assert abs(one.materialised - again) <= 64


def test_seconds_of_steps_add_up_to_all():
    one = measured(count=1)[0]
    for lap in one.laps:
        assert set(lap) == {step for step in STEPS if step not in ("input", "mask", "dropout")}
    parts = Measured(**(vars(one) | {"laps": ({"scores": 1.0, "scale": 2.0, "output": 4.0},)}))
    assert parts.seconds().median == 7.0
    assert parts.seconds(ATTENTION).median == 3.0
    assert parts.seconds(("merge",)).median == 0.0


def test_it_ends_where_memory_ends_and_says_so():
    found = list(measure(along(config(), "time"), allowed=1e9, limit=40_000))
    ended = found[-1]
    assert isinstance(ended, Ended)
    assert all(isinstance(one, Measured) for one in found[:-1])
    assert "over the limit of 39.1 KiB" in ended.reason
    assert ended.config.time == sizes(config(), "time")[len(found) - 1]


def test_it_ends_where_the_time_ends_and_says_so():
    found = list(measure(along(config(), "time"), allowed=0.0))
    assert [type(one) for one in found] == [Measured, Ended]
    assert found[1].reason == "would take longer than the 0 seconds allowed"


def test_a_report_ends_it_and_what_came_before_stands():
    told = []

    def report(share, what):
        told.append((share, what))
        if share >= 0.5 and what == "counting":
            raise InterruptedError

    runs = measure(along(config(), "batch")[:2], allowed=1e9, report=report)
    assert next(runs).config.batch == 1
    with pytest.raises(InterruptedError):
        next(runs)
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert {"timing", "comparing peak memory"} < {what for _, what in told}


@pytest.mark.parametrize(
    ("before", "after", "place"),
    [
        ((1, 1, 1), (0.25, 4, 64), 2.0),  # 16 times up from 1/4: half way, on log axes, of 1 to 4
        ((1, 1, 1), (2, 3, 4), 1.0),
        ((4, 4, 4), (1, 2, 3), None),
        ((8, 16, 32), (2, 8, 128), 2 ** (4 - 2) * 2.0 ** (2 * 1 / 3)),
    ],
)
def test_crossing_is_on_a_straight_line_between_sizes(before, after, place):
    found = crossing((1.0, 4.0, 16.0), before, after)
    assert found == (None if place is None else pytest.approx(place))


def test_power_laws_cross_where_they_do():
    x = [2.0**n for n in range(4, 12)]
    made = MHAConfig(d_model=96, heads=12)
    along_time = [closed(one) for one in along(made, "time")]
    x = [float(one.config.time) for one in along_time]
    projections = [sum(one.flops[step] for step in GROUPS["projections"]) for one in along_time]
    attention = [sum(one.flops[step] for step in ATTENTION) for one in along_time]
    assert crossing(x, projections, attention) == pytest.approx(cost.crossover_time(made))


def with_times(times):
    """Measured sizes whose projections take 1 and whose attention takes these seconds."""
    one = measured(count=1)[0]
    return [
        Measured(
            **(
                vars(one)
                | {
                    "config": config(time=16 * 4**n),
                    "laps": ({"project_q": 1.0, "scores": seconds},) * 3,
                }
            )
        )
        for n, seconds in enumerate(times)
    ]


def test_measured_times_cross_either_way_or_not_at_all():
    assert crossing_of("time", with_times([0.25, 4.0])) == pytest.approx(32.0)
    assert crossing_of("time", with_times([4.0, 0.25])) == pytest.approx(32.0)
    assert crossing_of("time", with_times([2.0, 3.0])) is None
    assert crossing_of("time", with_times([0.2, 0.3])) is None
    assert crossing_of("time", with_times([2.0])) is None
    assert crossing_of("time", []) is None


def lines(chart: Chart):
    return {series.name: series for series in chart.series if series.name != COUNTED}


def summed(series):
    """Size -> the sum of what lines have there; what is 0 is not on a logarithmic axis."""
    found = {}
    for one in series:
        for x, y in zip(one.x, one.y, strict=True):
            found[x] = found.get(x, 0) + y
    return found


@pytest.mark.parametrize("detail", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_charts_are_the_numbers(axis, detail):
    made = config(causal=True, dropout=0.25)
    formulas = [closed(one) for one in along(made, axis)]
    taken = measured(axis, causal=True, dropout=0.25)
    flops, moved, seconds, peak = charts(axis, formulas, taken, detail=detail)
    for chart, what in ((flops, "flops"), (moved, "allocated")):
        totals = {getattr(one.config, axis): sum(getattr(one, what).values()) for one in formulas}
        assert summed(lines(chart).values()) == totals
        counted = [series for series in chart.series if series.name == COUNTED]
        assert summed(counted) == dict(list(totals.items())[:2])
    assert len(lines(moved)) == (9 if detail else 4)
    everything = lines(seconds)["all steps"]
    assert everything.y == tuple(one.seconds().median for one in taken)
    assert everything.low <= everything.y <= everything.high
    whole = next(iter(lines(peak).values()))
    assert whole.y == tuple(one.materialised for one in formulas)
    assert {chart.reach for chart in (flops, moved, seconds, peak)} == {
        tuple(float(getattr(one.config, axis)) for one in formulas)
    }


def test_before_a_measurement_the_panels_are_there():
    formulas = [closed(one) for one in along(config(), "time")]
    _, _, seconds, _ = charts("time", formulas, [])
    assert seconds.empty == "not measured yet"
    assert not any(series.y for series in seconds.series)


def test_the_table_has_every_size_and_step():
    formulas = [closed(one) for one in along(config(), "time")]
    taken = measured()
    rows = table("time", formulas, taken)
    assert len(rows) == len(formulas) * (len(STEPS) + 1)
    everything = rows[rows["step"] == "all"].set_index("time")
    for one in formulas:
        row = everything.loc[one.config.time]
        assert row["FLOPs"] == sum(one.flops.values())
        assert row["bytes allocated"] == sum(one.allocated.values())
        assert row["peak bytes"] == one.peak
    for one in taken:
        row = everything.loc[one.config.time]
        assert row["FLOPs counted"] == row["FLOPs"]
        assert row["fused attention peak measured"] == one.fused
        assert row["median seconds"] == one.seconds().median
        assert row["forwards"] == len(one.laps)
    later = everything.loc[formulas[-1].config.time]
    assert math.isnan(later["median seconds"])
    assert later["forwards"] == 0
    assert rows["FLOPs counted"].isna().sum() == (len(formulas) - 2) * (len(STEPS) + 1)
