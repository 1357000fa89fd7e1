"""What cannot run is refused where it was asked for, and the last good view stays."""

from __future__ import annotations

import pytest

from mha_core import MHAConfig, budget
from mha_core.errors import human_bytes
from mha_core.steps import NINE
from mha_core.window import Element
from tests.pages.support import (
    click,
    component,
    config,
    open_app,
    piece,
    repairs,
    run,
    said,
    set_state,
    table_rows,
    type_size,
)


def test_the_last_good_view_stays_until_it_is_repaired() -> None:
    at = type_size(open_app(), "heads", 8)
    good = config(at)
    before = table_rows(at)
    type_size(at, "d_model", 65)
    (error,) = at.error
    assert "d_model=65" in error.value
    assert "heads=8" in error.value
    assert "64 or 72" in error.value
    assert "The last view that ran is shown" in said(at)
    assert config(at) == good
    assert table_rows(at) == before
    assert tuple(before) == NINE
    assert at.number_input(key="w_d_model#exact").value == 65


@pytest.mark.parametrize(
    ("label", "d_model", "heads"),
    [
        ("Set d_model 64", 64, 8),
        ("Set d_model 72", 72, 8),
        ("Set heads 5", 65, 5),
        ("Set heads 13", 65, 13),
    ],
)
def test_each_repair_repairs(label: str, d_model: int, heads: int) -> None:
    at = type_size(type_size(open_app(), "heads", 8), "d_model", 65)
    assert label in repairs(at)
    click(at, label)
    assert config(at) == MHAConfig(d_model=d_model, heads=heads)
    assert said(at) == ""
    assert repairs(at) == []


def test_going_back_repairs_too() -> None:
    at = type_size(type_size(open_app(), "d_model", 33), "d_model", 36)
    assert config(at) == MHAConfig(d_model=36)
    assert said(at) == ""


def test_a_head_beyond_the_heads_gives_way_to_one_that_exists() -> None:
    at = set_state(open_app(heads=8), head=7)
    assert "head 7, weights" in piece(at, 'class="heads"')
    type_size(at, "heads", 2)
    shown = piece(at, 'class="heads"')
    assert "head 1, weights" in shown
    assert shown.count('aria-selected="true"') == 1
    assert shown.count('class="tile"') == 2


def test_a_batch_item_beyond_the_batch_gives_way_to_one_that_exists() -> None:
    at = open_app(batch=8)
    at.number_input(key="w_item").set_value(7)
    type_size(run(at), "batch", 3)
    assert at.number_input(key="w_item").value == 2
    assert config(at).batch == 3


def test_an_element_beyond_the_tensor_gives_way_to_one_that_exists() -> None:
    at = set_state(open_app(batch=8), followed=Element(6, 5, 31))
    assert component(at, "flow_chart")["element"] == {"b": 6, "t": 5, "c": 31}
    type_size(at, "batch", 3)
    type_size(at, "time", 2)
    type_size(at, "d_model", 8)
    assert component(at, "flow_chart")["element"] == {"b": 2, "t": 1, "c": 7}


def test_a_map_that_no_longer_runs_gives_way_to_the_weights() -> None:
    at = set_state(open_app(causal=1), w_map_step="masked")
    assert "head 0, masked" in piece(at, 'class="heads"')
    at.toggle(key="w_causal").set_value(False)
    run(at)
    assert "head 0, weights" in piece(at, 'class="heads"')


def test_what_was_chosen_for_export_gives_way_too() -> None:
    at = set_state(open_app(causal=1, batch=8, heads=8), w_export=True)
    at.multiselect(key="w_tensors").set_value(["masked", "scores"])
    run(at)
    at.multiselect(key="w_export_heads").set_value([0, 7])
    run(at)
    at.multiselect(key="w_export_batch items").set_value([7])
    run(at)
    at.toggle(key="w_causal").set_value(False)
    type_size(at, "batch", 2)
    type_size(at, "heads", 4)
    assert at.multiselect(key="w_tensors").value == ["scores"]
    assert at.multiselect(key="w_export_heads").value == [0]
    assert at.multiselect(key="w_export_batch items").value == []


def test_a_run_over_the_budget_is_refused_with_both_figures_and_the_largest_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = budget.estimate(MHAConfig(time=20)).peak
    monkeypatch.setattr(budget, "default_limit", lambda _: limit)
    at = type_size(open_app(), "time", 40)
    assert f"over the limit of {human_bytes(limit)}" in said(at)
    assert human_bytes(budget.estimate(MHAConfig(time=40)).peak) in said(at)
    assert "The largest time that fits is 20" in said(at)
    assert config(at) == MHAConfig()
    click(at, "Set time 20")
    assert config(at) == MHAConfig(time=20)
    assert said(at) == ""


def test_a_text_over_the_budget_is_refused_with_no_repair_that_does_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = budget.estimate(MHAConfig(time=20)).peak
    monkeypatch.setattr(budget, "default_limit", lambda _: limit)
    at = open_app(input="text", text="word " * 40)
    assert "The largest time that fits is 20" in said(at)
    for label in repairs(at):
        click(at, label)
        assert said(at) == "", f"{label} repaired nothing"


def test_what_a_stranger_wrote_makes_no_picture_in_an_error() -> None:
    at = open_app(source="minilm", sentences="![p](http://elsewhere.example/p.png) " * 200)
    assert "must have at most 512 tokens" in said(at)
    at = open_app(input="text", text="![p](http://elsewhere.example/p.png) " * 2049)
    assert "](" not in said(at).replace("]\\(", "")
