"""The flat projection page: real weights in head colours, facts as counted, times on demand."""

from __future__ import annotations

import io
import re
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig, projection_times
from mha_core.figures.text import number
from mha_core.figures.weight_pictures import pictures
from mha_core.inputs import build_module, random_input
from mha_core.palette import LIGHT
from mha_core.projections import LABELS, compare
from pages.shared import flat_section
from tests.pages.support import (
    component,
    config,
    new_app,
    piece,
    pieces,
    repairs,
    run,
    said,
    set_state,
    text,
    type_size,
)

PAGE = "pages/3_Flat_projection.py"


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few rounds as there may be."""
    monkeypatch.setattr(flat_section, "SECONDS", 0.0)


def open_page(**query: str | int) -> AppTest:
    at = new_app(**query)
    at.switch_page(PAGE)
    return run(at)


def measure(at: AppTest) -> AppTest:
    at.button(key="w_measure_projections").click()
    return run(at)


def matrices(at: AppTest) -> str:
    html: str = component(at, "fp_matrices")["html"]
    return html


def rows(at: AppTest) -> list[list[str]]:
    table = piece(at, "fp-facts")
    return [
        [text(cell) for cell in re.findall(r"<td>(.*?)</td>", row)]
        for row in re.findall(r"<tr>(.*?)</tr>", table)[1:]
    ]


def words(at: AppTest) -> str:
    return "\n".join(text(markup) for markup in pieces(at))


@pytest.mark.parametrize(
    "query",
    [{}, {"d_model": 21, "heads": 3}, {"heads": 1}, {"heads": 32}, {"bias": 0, "dtype": "float64"}],
    ids=str,
)
def test_the_facts_are_those_of_the_run(query: dict[str, Any]) -> None:
    at = open_page(**query)
    made = config(at)
    facts = compare(build_module(made), random_input(made))
    shown = rows(at)
    assert [row[0] for row in shown] == list(LABELS.values())
    for row, fact in zip(shown, facts, strict=True):
        assert row[1] == f"{fact.tensors:,}"
        assert row[2].startswith(f"{fact.kernels:,}")
        assert row[5] == f"{fact.parameters:,}"
    for row, fact in zip(shown[1:], facts[1:], strict=True):
        assert row[3] == number(fact.difference, 2)
        assert row[4] == f"{number(fact.exact, 2)} < 1e−12 ✓"
    assert f"largest difference, {made.dtype}" in text(piece(at, "fp-facts"))


def test_the_pictures_are_the_runs_own_weights() -> None:
    at = open_page(d_model=24, heads=3, seed=5)
    module = build_module(MHAConfig(d_model=24, heads=3, seed=5))
    shown = matrices(at)
    for n in "qkv":
        drawn = pictures(getattr(module, f"W_{n}").weight, 3, LIGHT)
        for address in drawn.columns:
            assert shown.count(address) == (3 if n == "q" else 1)
    for address in pictures(module.W_q.weight, 3, LIGHT).rows:
        assert address in shown


def test_the_chosen_head_is_told_with_its_numbers() -> None:
    at = set_state(open_page(), head=2)
    made = MHAConfig()
    q = build_module(made).W_q(random_input(made))[0, 0, 16].detach()
    shown = text(matrices(at))
    assert "Head 2 owns columns 16 to 23 of W_q" in shown
    assert "rows 16 to 23 of W_q.weight: one block of memory, elements 512 to 767" in shown
    assert shown.count(number(float(q), 4)) >= 2
    assert matrices(at).count('aria-pressed="true"') == 6


def test_a_head_that_is_gone_gives_way() -> None:
    at = set_state(open_page(heads=8), head=7)
    type_size(at, "heads", 2)
    assert "Head 1 owns columns 16 to 31" in text(matrices(at))


def test_nothing_is_measured_until_asked() -> None:
    at = open_page()
    assert "Neither always wins" in words(at)
    assert "not measured yet" in component(at, "fp_chart")["spec"]
    assert "measured" in at.session_state
    assert at.session_state["measured"][1] == {}


def test_measuring_says_what_was_measured_and_where() -> None:
    at = measure(open_page())
    kept = at.session_state["measured"][1]["projections"]
    assert kept.done
    assert [one.heads for one in kept.results] == [1, 2, 4, 8, 16, 32]
    shown = words(at)
    for sentence in projection_times.sentences(kept.results[2]):
        assert sentence in shown
    assert "At h = 4, one flat matrix each took" in shown
    assert re.search(r"cpu, \d+ threads?, float32; rounds in turn", shown)
    assert "Broken off" not in shown
    chart = component(at, "fp_chart")
    assert "not measured yet" not in chart["spec"]
    assert "one fused QKV matrix from" in chart["alt"]
    labels = [button.label for button in at.button]
    assert "Measure, about 0 s again" in labels
    assert "Cancel" not in labels


def test_results_go_when_the_configuration_changes_and_stay_when_it_does_not() -> None:
    at = measure(open_page())
    run(at)
    assert "At h = 4, one flat matrix each took" in words(at)
    at.switch_page("pages/6_Scaling.py")
    run(at)
    at.switch_page(PAGE)
    run(at)
    assert "At h = 4, one flat matrix each took" in words(at)
    type_size(at, "batch", 3)
    assert "Neither always wins" in words(at)
    assert at.session_state["measured"][1] == {}
    type_size(at, "batch", 2)
    assert "Neither always wins" in words(at)


def test_what_was_broken_off_is_kept_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = projection_times.time_over_heads

    def cancelled(*args: Any, **options: Any) -> Any:
        yield next(real(*args, **options))
        st.rerun()  # as Cancel does, through the next report

    monkeypatch.setattr(projection_times, "time_over_heads", cancelled)
    at = measure(open_page())
    kept = at.session_state["measured"][1]["projections"]
    assert [one.heads for one in kept.results] == [1]
    assert not kept.done
    assert "Broken off: only the sizes shown were measured." in words(at)


def test_no_room_is_an_error_and_what_was_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    at = measure(open_page())
    monkeypatch.setattr(projection_times.budget, "default_limit", lambda _: 1024)
    monkeypatch.setattr("mha_core.budget.check", lambda *_, **__: None)
    measure(at)
    assert "d_model=32: measuring needs about" in said(at)
    assert "over the limit of 1.0 KiB" in said(at)
    assert at.session_state["measured"][1]["projections"].done
    assert "At h = 4, one flat matrix each took" in words(at)


def test_a_configuration_that_cannot_run_keeps_the_last_view() -> None:
    at = type_size(open_page(), "d_model", 30)
    assert "d_model=30: must be a multiple of heads=4" in said(at)
    assert repairs(at)
    assert "(32, 32)" in text(matrices(at))
    assert rows(at)


def test_real_weights_are_projected_too() -> None:
    at = open_page(source="minilm")
    shown = rows(at)
    assert [row[1] for row in shown] == ["6", "72", "72", "2"]
    assert all("< 1e−12 ✓" in row[4] for row in shown[1:])
    assert "(384, 384)" in text(matrices(at))


def test_files_are_the_facts_and_then_the_times() -> None:
    at = open_page()
    assert not at.get("download_button")
    set_state(at, w_projections_export=True)
    labels = [button.label for button in at.get("download_button")]
    assert labels == [
        "Figure, PNG", "Figure, SVG", "Figure, PDF", "Figure, HTML", "Numbers, CSV",
    ]  # fmt: skip
    made = config(at)
    facts = compare(build_module(made), random_input(made))
    table = projection_times.export_frame(facts, [], "cpu")
    again = pd.read_csv(io.StringIO(table.to_csv(index=False)))
    assert list(again["parameter tensors"]) == [6, 24, 24, 2]


def test_the_code_is_at_hand_and_the_step_one_click_away() -> None:
    at = set_state(open_page(), w_code=True)
    assert "class Kernels(TorchDispatchMode)" in at.code[0].value
    at.button(key="w_step_project_q").click()
    run(at)
    assert at.session_state["step"] == "project_q"
    assert component(at, "flow_chart")
