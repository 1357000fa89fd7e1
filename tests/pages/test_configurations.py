"""The page runs, whatever the configuration, and shows what that configuration gives."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest

from mha_core import MHAConfig, trace_forward
from mha_core.inputs import text_input
from tests.pages.support import config, open_app, piece, said, set_state, table_rows, text

CONFIGURATIONS: list[dict[str, Any]] = [
    {},
    {"batch": 1, "time": 1, "d_model": 1, "heads": 1},
    {"batch": 3, "time": 1, "d_model": 14, "heads": 7, "causal": True},
    {"batch": 1, "time": 13, "d_model": 11, "heads": 11},
    {"batch": 7, "time": 2, "d_model": 63, "heads": 3, "bias": False},
    {"batch": 2, "time": 150, "d_model": 20, "heads": 5, "causal": True},
    {"batch": 64, "time": 3, "d_model": 64, "heads": 64},
    {"dropout": 0.3},
    {"dropout": 0.3, "causal": True, "dtype": "float64"},
    {"dtype": "float64"},
    {"dtype": "bfloat16", "causal": True},
    {"dtype": "float16"},
    {"causal": True, "fill": -1e9},
    {"causal": True, "fill": -1e4, "dtype": "float16"},
    {"causal": True, "fill": -0.5},
    {"scale": 1.0},
    {"scale": -3.0},
    {"scale": 0.0, "causal": True},
    {"seed": 2**53 - 1},
]


def query(fields: dict[str, Any]) -> dict[str, str | int]:
    return {
        name: int(value) if isinstance(value, bool) else value for name, value in fields.items()
    }


@pytest.mark.parametrize("fields", CONFIGURATIONS, ids=str)
def test_it_runs_and_shows_its_shapes(fields: dict[str, Any]) -> None:
    at = open_app(**query(fields))
    assert said(at) == ""
    wanted = MHAConfig(**fields)
    assert config(at) == wanted
    batch, time, heads, d_k = wanted.batch, wanted.time, wanted.heads, wanted.d_k
    glance = text(piece(at, 'class="glance"'))
    assert f"({batch}, {time}, {wanted.d_model})" in glance
    assert f"({batch}, {time}, {heads}, {d_k})" in glance
    assert f"({batch}, {heads}, {time}, {d_k})" in glance
    assert re.search(r"[0-9]\.[0-9]{2} ms\s*forward on cpu", glance)
    assert table_rows(at)["scores"]["out"][1] == f"({batch}, {heads}, {time}, {time})"
    assert piece(at, 'class="tiles"').count('class="tile"') == heads


@pytest.mark.parametrize("fields", [CONFIGURATIONS[n] for n in (0, 1, 5, 8, 14)], ids=str)
def test_every_panel_opens(fields: dict[str, Any]) -> None:
    at = open_app(**query(fields))
    set_state(at, w_more=True, w_stats=True, w_code=True, w_export=True, w_detail=True)
    assert at.number_input(key="w_seed").value == config(at).seed
    assert text(piece(at, 'class="stats"')).count("head ") == config(at).heads
    assert f"d_model, h = {config(at).batch}" in at.code[0].value
    assert at.selectbox(key="w_format").value == "png"


@pytest.mark.parametrize("step", ["scores", "scaled", "masked", "weights", "after dropout"])
def test_every_map_is_shown_on_every_scale(step: str) -> None:
    at = open_app(causal=1, dropout=0.5, time=5)
    for scale in ("weight", "× uniform", "log", "per head"):
        set_state(at, w_map_step=step, w_colour_scale=scale, w_item=1)
        assert f"head 0, {step}" in piece(at, 'class="heads"')


def short(word: str) -> str:
    """Long words are cut in the middle."""
    return word if len(word) <= 12 else f"{word[:8]}…{word[-3:]}"


TEXTS = [
    "one",
    "the the the the",
    "007 1e5 2024-01-31 NaN -1 ½",
    '<b>bold</b> <script>alert(1)</script> &lt; </div> "quoted" it\'s',
    "**a** $x$ `code` [l](u) :red[r] # #1",
    "😀 👩‍🚀 é ünï שלום 漢字 \u200b\u202e",
    "averyveryverylongwordthatgoeson antidisestablishmentarianism",
]


@pytest.mark.parametrize("typed", TEXTS)
def test_words_label_the_map_as_typed(typed: str) -> None:
    at = open_app(input="text", text=typed, causal=1)
    words = typed.split()
    assert config(at).time == len(words)
    heads = piece(at, 'class="heads"')
    for side in ("xlab", "ylab"):
        labels = re.search(rf'<div class="{side}[^>]*>(.*?)</div>', heads)
        assert labels is not None
        shown = re.findall(r"<span[^>]*>(.*?)</span>", labels[1])
        assert [html.unescape(one) for one in shown] == [short(word) for word in words]
        assert "<b>" not in labels[1]


def test_a_text_gives_the_numbers_of_the_library() -> None:
    words = ("to", "be", "or", "not", "to", "be")
    at = open_app(input="text", text=" ".join(words))
    shown = at.session_state["good"]
    assert shown.tokens == words
    set_state(at, step="project_q")
    trace = trace_forward(MHAConfig(), x=text_input(MHAConfig(), words), profile=False)
    first = f"{float(trace.tensor('project_q')[0, 0, 0]):.3g}".replace("-", "−")
    values = piece(at, 'class="lesson"').split('class="values"')[1]
    assert f"<tr><th>0</th><td>{first}</td>" in values


@pytest.mark.parametrize(
    "fields",
    [{}, {"causal": True, "fill": -1e9, "bias": False}, {"dropout": 0.3, "dtype": "float64"}],
    ids=str,
)
def test_the_code_on_the_page_gives_its_numbers(fields: dict[str, Any]) -> None:
    at = set_state(open_app(**query(fields)), w_code=True)
    made: dict[str, Any] = {}
    exec(at.code[0].value, made)
    trace = trace_forward(config(at), profile=False)
    assert made["weights"].equal(trace.weights)
    assert made["output"].equal(trace.output)
