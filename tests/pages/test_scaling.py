"""The scaling page: formulas on every view, measurements on demand, what they come to in words."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig, cost, scaling, spread, trace_forward
from mha_core.charts import si, written
from mha_core.errors import human_bytes
from mha_core.scaling import Ended, Measured, along, closed
from tests.pages.support import (
    component,
    config,
    new_app,
    piece,
    pieces,
    run,
    said,
    set_state,
    text,
    type_size,
)

PAGE = "pages/6_Scaling.py"


@pytest.fixture(autouse=True)
def _little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what takes next to nothing is measured: the first two sizes of an axis."""
    real = scaling.measure

    def two(configs: list[MHAConfig], **options: Any) -> Any:
        return real(configs[:2], **(options | {"allowed": 1e9}))

    monkeypatch.setattr(scaling, "measure", two)


def open_page(**query: str | int) -> AppTest:
    at = new_app(**query)
    at.switch_page(PAGE)
    return run(at)


def choose(at: AppTest, axis: str) -> AppTest:
    return set_state(at, w_sc_axis=axis)


def measure(at: AppTest, axis: str = "time") -> AppTest:
    at.button(key=f"w_measure_scaling {axis}").click()
    return run(at)


def words(at: AppTest) -> str:
    return "\n".join(text(markup) for markup in pieces(at))


def traces(at: AppTest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(component(at, "sc_costs")["spec"])["data"]
    return found


def kept(at: AppTest, axis: str = "time") -> Any:
    return at.session_state["measured"][1][f"scaling {axis}"]


@pytest.mark.parametrize("axis", scaling.AXES)
@pytest.mark.parametrize("query", [{}, {"d_model": 21, "heads": 3, "causal": 1}], ids=str)
def test_the_lines_are_the_formulas(query: dict[str, int], axis: str) -> None:
    at = choose(open_page(**query), axis)
    formulas = [closed(one) for one in along(config(at), axis)]
    projections = next(trace for trace in traces(at) if trace["name"] == "projections")
    assert projections["x"] == [getattr(one.config, axis) for one in formulas]
    assert projections["y"] == [
        sum(one.flops[step] for step in scaling.GROUPS["projections"]) for one in formulas
    ]


def test_every_step_has_a_line_of_its_own() -> None:
    at = open_page(causal=1, dropout=0.25)
    at.toggle(key="w_sc_detail").set_value(True)
    run(at)
    names = {trace["name"] for trace in traces(at)}
    assert {"1 W_q(x), W_k(x), W_v(x)", "4 Q @ Kᵀ", "4b mask", "5a dropout", "9 W_o(out)"} < names
    assert "projections" not in names


def test_the_headline_is_of_the_run() -> None:
    shown = words(open_page(d_model=64, heads=8, time=16))
    made = MHAConfig(d_model=64, heads=8, time=16)
    counts = cost.flops(made)
    share = (counts["scores"] + counts["weighted_values"]) / sum(counts.values())
    assert f"{si(sum(counts.values()))} FLOPs" in shown
    assert f"{100 * share:.3g} % of them attention" in shown
    assert f"{human_bytes(cost.peak(made))} peak" in shown


@pytest.mark.parametrize(
    ("axis", "sentence"),
    [
        ("time", "attention overtakes the projections at time = 2·d_model = 64"),
        ("time", "one map is larger than one activation above time = d_k = 8"),
        ("d_model", "below d_model = time / 2 = 3 attention costs more"),
        ("heads", "FLOPs do not depend on h"),
        ("batch", "at time = 6 and d_model = 32, the projections cost more FLOPs"),
    ],
)
def test_the_formulas_come_to_words(axis: str, sentence: str) -> None:
    assert sentence in words(choose(open_page(), axis))


def test_where_attention_is_ahead_it_says_so() -> None:
    at = choose(open_page(time=100), "batch")
    assert "attention costs more FLOPs" in words(at)


@pytest.mark.parametrize("axis", scaling.AXES)
def test_measuring_puts_points_on_the_lines_and_words_below(axis: str) -> None:
    at = measure(choose(open_page(), axis), axis)
    points = [one for one in kept(at, axis).results if isinstance(one, Measured)]
    assert kept(at, axis).done
    assert len(points) == 2
    shown = words(at)
    assert "Counted at 2 sizes: FLOPs equal to the formulas, bytes equal." in shown
    assert re.search(r"On this machine \(cpu, \d+ threads?, float32\)", shown)
    last = points[-1]
    assert f"{human_bytes(last.materialised)} with whole weights" in shown
    assert f"in F.scaled_dot_product_attention ({last.kernel})" in shown
    names = [trace["name"] for trace in traces(at)]
    assert "all steps" in names
    assert "not measured yet" not in component(at, "sc_costs")["spec"]
    everything = next(trace for trace in traces(at) if trace["name"] == "all steps")
    assert everything["y"] == [one.seconds().median for one in points]


def test_an_axis_keeps_its_results_while_another_is_looked_at() -> None:
    at = measure(open_page())
    choose(at, "heads")
    assert "Counted at" not in words(at)
    measure(at, "heads")
    choose(at, "time")
    assert "Counted at 2 sizes" in words(at)
    type_size(at, "batch", 3)
    assert at.session_state["measured"][1] == {}
    assert "Counted at" not in words(at)


def test_why_no_more_was_measured_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    first = along(MHAConfig(), "time")[0]

    def ended(*_: Any, **__: Any) -> Any:
        yield Ended(first, "needs about 3.0 GiB, over the limit of 2.0 GiB")

    monkeypatch.setattr(scaling, "measure", ended)
    at = measure(open_page())
    assert (
        "Not measured from time = 6 on: it needs about 3.0 GiB, over the limit of 2.0 GiB."
        in words(at)
    )


def test_what_was_broken_off_is_kept_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = scaling.measure

    def cancelled(configs: list[MHAConfig], **options: Any) -> Any:
        yield next(real(configs, **options))
        st.rerun()  # as Cancel does, through the next report

    monkeypatch.setattr(scaling, "measure", cancelled)
    at = measure(open_page())
    assert len(kept(at).results) == 1
    assert "Broken off: what was measured until then is shown." in words(at)
    assert "Counted at 1 size:" in words(at)


def test_the_spread_is_drawn_and_this_run_stands_in_it() -> None:
    at = open_page(d_model=64, heads=4, time=16)
    made = config(at)
    found = spread.spreads()
    own = spread.of_trace(trace_forward(made, profile=False))
    shown = words(at)
    assert "√d_k: 32 at d_k = 1,024" in shown
    assert f"{written(found[-1].raw, 'number')} in these numbers" in shown
    assert f"This run, d_k = 16: scores {written(own.raw, 'number')}" in shown
    drawn = json.loads(component(at, "sc_spread")["spec"])["data"]
    raw = next(trace for trace in drawn if trace["name"] == "q · k")
    assert raw["y"] == [one.raw for one in found]
    here = next(trace for trace in drawn if "this run" in trace["name"])
    assert (here["x"], here["y"]) == ([16.0], [own.scaled])
    ceiling = next(trace for trace in drawn if "ln 64" in trace["name"])
    assert set(ceiling["y"]) == {math.log(64)}


def test_both_figures_can_be_taken_home() -> None:
    at = set_state(open_page(), w_scaling_time_export=True, w_spread_export=True)
    buttons = at.get("download_button")
    assert len(buttons) == 10
    assert [button.label for button in buttons[:5]] == [
        "Figure, PNG", "Figure, SVG", "Figure, PDF", "Figure, HTML", "Numbers, CSV",
    ]  # fmt: skip


def test_a_configuration_that_cannot_run_keeps_the_last_view() -> None:
    at = type_size(open_page(), "d_model", 30)
    assert "d_model=30: must be a multiple of heads=4" in said(at)
    assert "2·d_model = 64" in words(at)


def test_sizes_of_a_real_model_are_taken() -> None:
    at = open_page(source="minilm")
    assert "2·d_model = 768" in words(at)
    assert "Random weights." in text(piece(at, "sc-fixed"))


def test_the_code_is_at_hand_and_the_step_one_click_away() -> None:
    at = set_state(open_page(), w_code=True)
    assert "FlopCounterMode" in at.code[0].value
    at.button(key="w_step_scale").click()
    run(at)
    assert at.session_state["step"] == "scale"
