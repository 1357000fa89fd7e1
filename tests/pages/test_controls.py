"""Every control stores its field; sessions share nothing that one of them can change."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig
from tests.pages.support import (
    SIZES,
    click,
    config,
    new_app,
    open_app,
    piece,
    run,
    said,
    set_state,
    stored,
    type_size,
)


@pytest.mark.parametrize("name", SIZES)
def test_slider_and_exact_value_are_one(name: str) -> None:
    at = open_app()
    at.select_slider(key=f"w_{name}").set_value(1)
    run(at)
    assert at.number_input(key=f"w_{name}#exact").value == 1
    if name == "d_model":
        assert "d_model=1" in said(at)
    else:
        assert config(at) == replace(MHAConfig(), **{name: 1})
    type_size(at, name, 20)
    assert at.select_slider(key=f"w_{name}").value == 20
    assert stored(at)[name] == 20


def test_the_next_change_may_come_before_the_browser_has_moved_the_slider() -> None:
    """Then it sends the slider's old place along; that is not a change of it."""
    at = type_size(open_app(batch=2), "batch", 64)
    at.select_slider(key="w_batch").set_value(2)
    type_size(at, "time", 8)
    assert (config(at).batch, config(at).time) == (64, 8)
    assert at.select_slider(key="w_batch").value == 64


def test_a_slider_goes_back_to_where_it_was() -> None:
    at = type_size(open_app(batch=2), "batch", 64)
    at.select_slider(key="w_batch").set_value(2)
    assert config(run(at)).batch == 2
    assert at.number_input(key="w_batch#exact").value == 2


@pytest.mark.parametrize(
    ("kind", "key", "value", "field", "wanted"),
    [
        ("number_input", "w_seed", 9, "seed", 9),
        ("selectbox", "w_dtype", "float16", "dtype", "float16"),
        ("slider", "w_dropout", 0.5, "dropout", 0.5),
        ("toggle", "w_bias", False, "bias", False),
        ("toggle", "w_causal", True, "causal", True),
        ("selectbox", "w_scale", "none", "scale", 1.0),
        ("selectbox", "w_scale", "1/√d_model", "scale", 1 / math.sqrt(32)),
        ("selectbox", "w_fill", "−1e9, added", "fill", -1e9),
    ],
)
def test_a_control_stores_its_field(
    kind: str, key: str, value: Any, field: str, wanted: Any
) -> None:
    at = set_state(open_app(), w_more=True)
    getattr(at, kind)(key=key).set_value(value)
    run(at)
    assert config(at) == replace(MHAConfig(), **{field: wanted})
    assert getattr(at, kind)(key=key).value == value


def test_new_sample_is_the_next_seed() -> None:
    at = set_state(open_app(seed=7), w_more=True)
    before = piece(at, 'class="tiles"')
    click(at, "new sample")
    assert config(at).seed == 8
    assert at.number_input(key="w_seed").value == 8
    assert piece(at, 'class="tiles"') != before
    at.number_input(key="w_seed").set_value(7)
    run(at)
    assert piece(at, 'class="tiles"') == before


def told(at: AppTest) -> list[str]:
    """The values, packed, of the map in focus."""
    return re.findall(r'data-z="([^"]+)"', piece(at, 'class="heads"'))


def test_causal_changes_nothing_before_the_mask() -> None:
    at = set_state(open_app(), w_map_step="scaled", head=2)
    before = told(at)
    at.toggle(key="w_causal").set_value(True)
    run(at)
    assert config(at).causal
    assert told(at) == before
    set_state(at, w_map_step="weights")
    assert told(at) != before


def test_presets() -> None:
    at = open_app(batch=5, time=9)
    for name, wanted in (
        ("classic 512 × 8", MHAConfig(time=10, d_model=512, heads=8)),
        ("decoder", MHAConfig(time=7, causal=True)),
        ("tiny", MHAConfig()),
    ):
        at.button_group(key="w_preset").set_value(name)
        run(at)
        assert config(at) == wanted
        assert said(at) == ""
    assert at.session_state["good"].tokens is None


def test_the_decoder_preset_brings_a_text() -> None:
    at = open_app()
    at.button_group(key="w_preset").set_value("decoder")
    run(at)
    words = at.session_state["good"].tokens
    assert " ".join(words) == at.text_area(key="w_text").value
    assert config(at).time == len(words)
    assert at.number_input(key="w_time#exact").disabled


def test_a_random_input_keeps_the_time_it_had() -> None:
    at = open_app(time=9)
    at.button_group(key="w_input").set_value("text")
    run(at)
    assert config(at).time == 7
    at.button_group(key="w_input").set_value("random")
    run(at)
    assert config(at).time == 9


def test_two_sessions_go_their_own_ways() -> None:
    one, other = open_app(), open_app()
    before = dict(stored(other))
    type_size(one, "time", 9)
    set_state(one, head=3, step="merge", w_map_step="scores")
    click(one, "Pin this run as A")
    run(other)
    assert config(one) == MHAConfig(time=9)
    assert config(other) == MHAConfig()
    assert stored(other) == before
    assert "pinned" not in other.session_state
    assert "head 0, weights" in piece(other, 'class="heads"')
    type_size(other, "time", 9)  # the run of the other, from the cache
    other.toggle(key="w_causal").set_value(True)
    run(other)
    run(one)
    assert config(one) == MHAConfig(time=9)
    assert "head 3, scores" in piece(one, 'class="heads"')


def downloads(at: AppTest) -> list[Any]:
    """Buttons that give a file that was prepared; the weights need no preparing."""
    return [one for one in at.get("download_button") if one.proto.id.endswith("-download")]


@pytest.mark.parametrize("name", ["npz", "table-markdown"])
def test_a_file_is_offered_only_for_the_run_it_was_built_from(name: str) -> None:
    at = set_state(open_app(), w_export=True)
    at.selectbox(key="w_format").set_value(name)
    run(at)
    click(at, "Prepare the file")
    assert len(downloads(at)) == 1
    type_size(at, "time", 7)
    assert not downloads(at)


@pytest.mark.parametrize("page", ["app.py", "pages/1_Attention_heads.py"])
def test_what_a_control_shows_first_is_told_at_every_run(page: str) -> None:
    """The browser may have seen nothing of a run that gave way to the next. A value set at every
    run would be told too, but would undo what was chosen meanwhile."""
    at = new_app()
    if page != "app.py":
        at.switch_page(page)
    run(run(at))
    told = {group.key: group.proto for group in at.get("button_group")}
    first = {"w_map_step": "weights"} | ({} if page == "app.py" else {"w_line": "query"})
    for key, value in first.items():
        options = [option.content for option in told[key].options]
        assert [options[place] for place in told[key].default] == [value]
        assert not told[key].set_value
