"""The page of common mistakes: what it says is what ran, at every configuration."""

from __future__ import annotations

import re
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig
from mha_core.figures.mistakes_list import changed
from mha_core.mistakes import MISTAKES, bench, examine, examine_all
from mha_core.mistakes.summary import GIVES_AWAY, in_words
from tests.pages.support import (
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

PAGE = "pages/4_Common_mistakes.py"


def open_mistakes(**query: str | int) -> AppTest:
    at = new_app(**query)
    at.switch_page(PAGE)
    return run(at)


def everything(at: AppTest) -> str:
    return "\n".join(text(markup) for markup in pieces(at))


def rows(at: AppTest) -> dict[str, list[str]]:
    """Mistake id -> title, what gives it away, change of the output."""
    table = piece(at, '<table class="mis-list">')
    return {
        name: [text(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
        for name, row in re.findall(r'<tr data-pick="(\w+)"[^>]*>(.*?)</tr>', table)
    }


def opened(at: AppTest) -> str:
    return piece(at, '<div class="mis">')


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"batch": 6, "time": 6, "d_model": 24, "heads": 3},
        {"batch": 1, "time": 1, "d_model": 1, "heads": 1},
        {"heads": 1, "causal": 1, "dropout": 0.5},
        {"dtype": "float64", "bias": 0, "scale": 1.0},
        {"time": 40, "batch": 9, "d_model": 1024, "heads": 16},
        {"dtype": "bfloat16", "fill": -1e4, "causal": 1},
    ],
    ids=str,
)
def test_the_table_says_what_ran(query: dict[str, Any]) -> None:
    at = open_mistakes(**query)
    made = bench.seeded(config(at))
    seed = config(at).seed
    findings = examine_all(list(MISTAKES.values()), made.module, made.x, seed=seed)
    assert in_words(findings) in everything(at)
    shown = rows(at)
    assert list(shown) == list(MISTAKES)
    for found in findings:
        cells = [found.mistake.title, GIVES_AWAY[found.betrayed], changed(found)]
        assert shown[found.mistake.id] == cells
    for name, size in made.sizes.items():
        assert f"{name} {size}" in everything(at)
    for words in made.clamped:
        assert words in everything(at)


@pytest.mark.parametrize("name", MISTAKES)
def test_every_mistake_opens(name: str) -> None:
    at = set_state(open_mistakes(), mistake_open=name)
    mistake = MISTAKES[name]
    shown = text(opened(at))
    assert mistake.title in shown
    assert mistake.fix in shown
    for line in mistake.code("wrong").splitlines():
        assert line in shown
    made = bench.seeded(MHAConfig())
    found = examine(mistake, made.module, made.x)
    if found.wrong.error:
        assert found.wrong.error in shown
    else:
        assert f"Largest change of the output {changed(found)}" in shown
    assert f'data-pick="{name}" tabindex="0" aria-selected="true"' in piece(at, "mis-list")


def test_a_mistake_that_is_not_there_gives_way_to_the_first() -> None:
    at = set_state(open_mistakes(), mistake_open="gone")
    assert MISTAKES["heads_from_time"].title in text(opened(at))


def test_a_head_that_is_not_there_gives_way_to_the_last() -> None:
    at = set_state(open_mistakes(heads=2), head=7)
    assert "head 1 of 0–1" in text(opened(at))


def test_words_of_a_text_label_the_maps_escaped() -> None:
    at = open_mistakes(input="text", text="<i> a a $x$ b")
    shown = opened(at)
    assert "<i></span>" not in shown
    assert "&lt;i&gt;" in shown
    assert "$x$" in text(shown)


def test_a_long_text_is_cut_to_what_ran() -> None:
    at = open_mistakes(input="text", text=" ".join(f"w{n}" for n in range(30)))
    assert "time 16 of 30" in everything(at)
    assert "w15" in text(opened(at))
    assert "w16" not in text(opened(at))


def test_a_configuration_that_cannot_run_leaves_the_last_in_view() -> None:
    at = type_size(open_mistakes(), "heads", 5)
    assert "d_model" in said(at)
    assert "batch 2" in everything(at)
    assert len(rows(at)) == len(MISTAKES)


def test_another_size_runs_anew() -> None:
    at = open_mistakes()
    before = rows(at)
    type_size(at, "time", 9)
    assert rows(at) != before
    assert "time 9" in everything(at)


def test_its_step_opens_in_the_pipeline() -> None:
    at = set_state(open_mistakes(), mistake_open="no_scale")
    at.button(key="w_step_scale").click()
    run(at)
    assert at.session_state["step"] == "scale"
    assert "spread of √d_k" in "\n".join(text(markup) for markup in pieces(at))


@pytest.mark.parametrize(("causal", "step"), [(0, "softmax"), (1, "mask")])
def test_the_mask_is_a_step_only_where_one_is_set(causal: int, step: str) -> None:
    at = set_state(open_mistakes(causal=causal), mistake_open="polarity")
    at.button(key=f"w_step_{step}").click()
    run(at)
    assert at.session_state["step"] == step


def test_files_are_offered_once_the_panel_is_open() -> None:
    at = open_mistakes()
    assert not at.get("download_button")
    set_state(at, w_mistakes_export=True)
    assert [button.proto.label for button in at.get("download_button")] == [
        "All, CSV", "All, Markdown", "This one, PNG", "This one, SVG",
    ]  # fmt: skip


def test_a_real_model_is_broken_on_its_own_sentence() -> None:
    at = open_mistakes(source="minilm", layer=2, sentences="The animal slept.")
    shown = everything(at)
    assert "d_model 384" in shown
    assert "h 12" in shown
    assert "time 6" in shown  # with [CLS], the stop and [SEP]
    assert "animal" in text(opened(at))
    betrayed = [cells[1] for cells in rows(at).values()]
    assert betrayed.count("torch raises") == 4  # a batch of one hides the shape of the mask
    assert betrayed.count("no change") == 2


def test_padding_of_a_shorter_sentence_is_left_out() -> None:
    at = open_mistakes(source="minilm", sentences="Yes.\nThe animal slept because it was tired.")
    assert "time 4 of" in everything(at)
    assert "batch 2" in everything(at)
