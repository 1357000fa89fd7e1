"""Pin a run, change one thing, compare, let go."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig, trace_forward
from mha_core.figures.text import number
from tests.pages.support import (
    click,
    config,
    open_app,
    piece,
    pieces,
    run,
    set_state,
    text,
    type_size,
)


def compared(at: AppTest) -> str:
    """All text of the page, in one."""
    return "\n".join(text(markup) for markup in pieces(at))


def test_pin_change_compare_unpin() -> None:
    at = open_app()
    assert "A is the pinned run" not in compared(at)
    click(at, "Pin this run as A")
    assert "A and B are the same run" in compared(at)
    at.toggle(key="w_causal").set_value(True)
    run(at)
    assert at.session_state["pinned"].config == MHAConfig()
    a, b = (
        trace_forward(MHAConfig(causal=causal), profile=False).weights[0, 0]
        for causal in (False, True)
    )
    shown = text(piece(at, 'class="triple"'))
    assert "A: weights" in shown
    assert "B: weights" in shown
    assert f"B − A, largest {number(float((b - a).abs().max()), 3)}" in shown
    assert "causalFalseTrue" in compared(at)
    assert "Proofs of A" in compared(at)
    click(at, "Unpin A")
    assert "A is the pinned run" not in compared(at)
    assert config(at) == MHAConfig(causal=True)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ({"seed": 1}, "seed01"),
        ({"dtype": "float64"}, "dtypefloat32float64"),
        ({"heads": 8}, "heads48"),
        ({"scale": 1.0}, "scale1/√d_k1"),
        ({"input": "text", "text": "a b <i> d e f"}, "inputrandoma b <i> d e f"),
    ],
    ids=str,
)
def test_the_one_thing_changed_is_named(query: dict[str, str | int], name: str) -> None:
    at = click(open_app(), "Pin this run as A")
    pinned = at.session_state["pinned"]
    changed = set_state(open_app(**query), pinned=pinned)
    assert name in compared(changed)
    assert piece(changed, 'class="triple"').count("data-z=") == 3


def test_runs_of_different_time_have_no_difference() -> None:
    at = type_size(click(open_app(), "Pin this run as A"), "time", 9)
    shown = piece(at, 'class="triple"')
    assert "B − A is not defined: A has time 6, B has time 9" in text(shown)
    assert shown.count("data-z=") == 2
    assert "(2, 4, 6, 6)" in compared(at)
    assert "(2, 4, 9, 9)" in compared(at)


def test_a_head_that_only_one_run_has_gives_way() -> None:
    at = set_state(open_app(heads=8, batch=4), head=7, w_item=3)
    click(at, "Pin this run as A")
    type_size(type_size(at, "heads", 2), "batch", 2)
    assert "head 1 of batch item 1" in compared(at)
