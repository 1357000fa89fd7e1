"""The address: what it asks for is used, what it gets wrong is said, and it follows the page."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mha_core import MHAConfig
from tests.pages.support import (
    address,
    click,
    config,
    new_app,
    open_app,
    repairs,
    run,
    said,
    set_state,
    stored,
)


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ({"batch": 3, "time": 5, "d_model": 14, "heads": 7}, {}),
        ({"causal": "1"}, {"causal": True}),
        ({"causal": "TRUE", "bias": "0"}, {"causal": True, "bias": False}),
        ({"dropout": "0.25", "seed": 41}, {"dropout": 0.25, "seed": 41}),
        ({"dtype": "bfloat16"}, {"dtype": "bfloat16"}),
        ({"scale": "0.5", "fill": "-1e9"}, {"scale": 0.5, "fill": -1e9}),
        ({"scale": "None", "fill": "-inf"}, {"scale": None, "fill": -math.inf}),
    ],
)
def test_what_it_asks_for_is_used(query: dict[str, Any], fields: dict[str, Any]) -> None:
    at = open_app(**query)
    sizes = {name: query[name] for name in ("batch", "time", "d_model", "heads") if name in query}
    assert config(at) == MHAConfig(**(sizes | fields))
    assert said(at) == ""


@pytest.mark.parametrize(
    "query",
    [
        {"time": "abc"},
        {"time": ""},
        {"time": "0"},
        {"time": "-3"},
        {"time": "999999"},
        {"time": "6.0"},
        {"time": "9" * 5000},
        {"batch": "65"},
        {"heads": "0"},
        {"d_model": "1e3"},
        {"seed": "-1"},
        {"seed": "9" * 30},
        {"dtype": "int8"},
        {"dtype": ""},
        {"device": "cuda:7"},
        {"device": "tpu"},
        {"causal": "maybe"},
        {"bias": ""},
        {"dropout": "1"},
        {"dropout": "nan"},
        {"scale": "inf"},
        {"scale": "one"},
        {"fill": "0"},
        {"fill": "nan"},
        {"input": "voice"},
    ],
    ids=lambda query: "&".join(f"{name}={value[:12]}" for name, value in query.items()),
)
def test_what_cannot_be_used_is_said_and_its_default_shown(query: dict[str, str]) -> None:
    at = open_app(**query)
    ((name, value),) = query.items()
    (notice,) = at.warning
    assert f"The address has `{name}={value[:40]}" in notice.value
    assert len(notice.value) < 200
    assert config(at) == MHAConfig()
    # It says so as long as the page is open, and everything works meanwhile.
    at.toggle(key="w_causal").set_value(True)
    assert config(run(at)) == MHAConfig(causal=True)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_an_absent_device_is_said(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    at = open_app(device=device)
    assert f"device={device}" in said(at)
    assert config(at).device == "cpu"
    set_state(at, w_more=True)
    assert at.selectbox(key="w_device").options == ["cpu"]
    assert any(f"{device}: " in caption.value for caption in at.caption)


def test_the_good_part_of_a_bad_address_is_used() -> None:
    at = open_app(batch=3, time="abc", seed=-1, dtype="int8", d_model=24, heads=3)
    assert config(at) == MHAConfig(batch=3, d_model=24, heads=3)
    assert len(at.warning) == 3


def test_heads_that_do_not_divide_are_an_error_with_repairs() -> None:
    at = open_app(d_model=32, heads=7)
    assert "d_model=32" in said(at)
    assert "heads=7" in said(at)
    assert "Set heads 8" in repairs(at)
    click(at, "Set heads 8")
    assert config(at) == MHAConfig(heads=8)
    assert said(at) == ""


def test_unknown_names_are_left_alone() -> None:
    at = open_app(who="me", T="abc", utm_source="x")
    assert config(at) == MHAConfig()
    assert said(at) == ""


def test_an_empty_text_is_refused() -> None:
    at = open_app(input="text", text="")
    assert "must have at least one word" in said(at)
    at.text_area(key="w_text").set_value("now there are five words")
    run(at)
    assert config(at).time == 5
    assert said(at) == ""


def test_a_text_of_too_many_words_is_refused() -> None:
    at = open_app(input="text", text="word " * 2049)
    assert "time=2049: must be at most 2048 where every step is kept" in said(at)
    assert repairs(at) == []
    at = open_app(input="text", text="word " * 32_769)
    assert "must have at most 32768 words" in said(at)


def test_fields_that_fit_alone_and_not_together_are_refused() -> None:
    at = open_app(dtype="float16", fill=-1e9, causal=1)
    assert "does not fit float16" in said(at)
    assert "Set fill -inf" in repairs(at)
    click(at, "Set fill -inf")
    assert config(at) == MHAConfig(dtype="float16", causal=True)


@pytest.mark.parametrize(
    "query",
    [
        {"seed": 2**53},
        {"seed": 2**63 - 1},
        {"dropout": 0.97},
        {"dropout": 0.123},
        {"scale": 0.123},
        {"fill": -12.5},
    ],
    ids=str,
)
def test_values_beyond_a_control_can_be_seen_in_it(query: dict[str, Any]) -> None:
    at = open_app(**query)
    set_state(at, w_more=True)
    ((name, value),) = query.items()
    assert getattr(config(at), name) == value
    assert stored(at)[name] == value


def test_it_follows_the_page_and_brings_it_back() -> None:
    at = open_app()
    assert address(at) == {"batch": "2", "time": "6", "d_model": "32", "heads": "4"}
    at.select_slider(key="w_batch").set_value(3)
    run(at)
    at.number_input(key="w_time#exact").set_value(7)
    run(at)
    at.toggle(key="w_causal").set_value(True)
    run(at)
    set_state(at, w_more=True)
    at.number_input(key="w_seed").set_value(5)
    run(at)
    at.selectbox(key="w_dtype").set_value("float64")
    run(at)
    at.slider(key="w_dropout").set_value(0.2)
    run(at)
    at.selectbox(key="w_scale").set_value("none")
    run(at)
    at.selectbox(key="w_fill").set_value("−1e9, added")
    run(at)
    wanted = MHAConfig(
        batch=3, time=7, causal=True, seed=5, dtype="float64", dropout=0.2, scale=1.0, fill=-1e9
    )  # fmt: skip
    assert config(at) == wanted
    again = open_app(**address(at))
    assert config(again) == wanted
    assert address(again) == address(at)


def test_a_text_is_brought_back() -> None:
    at = open_app()
    at.button_group(key="w_input").set_value("text")
    run(at)
    at.text_area(key="w_text").set_value("a & b = <i> 100% #1")
    run(at)
    again = open_app(**address(at))
    assert again.session_state["good"] == at.session_state["good"]
    assert again.session_state["good"].tokens == ("a", "&", "b", "=", "<i>", "100%", "#1")


def test_what_cannot_run_stays_out_of_it() -> None:
    at = open_app()
    at.number_input(key="w_d_model#exact").set_value(65)
    run(at)
    assert address(at)["d_model"] == "32"


def test_it_is_read_once() -> None:
    at = new_app(batch=3)
    run(at)
    at.select_slider(key="w_batch").set_value(4)
    run(at)
    assert config(run(at)).batch == 4
