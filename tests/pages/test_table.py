"""The table on the page is the library's own table, for the configuration the page says."""

from __future__ import annotations

import pytest

from mha_core import MHAConfig, trace_forward
from mha_core.steps import NINE
from tests.pages.support import config, open_app, piece, set_state, table_rows, text

ODD = {"batch": 3, "time": 5, "d_model": 14, "heads": 2}


@pytest.mark.parametrize("query", [{}, ODD, {**ODD, "causal": 1}, {"heads": 32}, {"heads": 1}])
def test_the_nine_rows_are_the_librarys(query: dict[str, int]) -> None:
    at = open_app(**query)
    table = trace_forward(config(at), profile=False).table()
    rows = table_rows(at)
    assert tuple(rows) == NINE
    for shown, expected in zip(rows.values(), table.to_dict("records"), strict=True):
        assert shown["no"] == [expected["step"]]
        assert shown["op"] == [expected["operation"]]
        assert shown["in"] == [expected["input"], expected["input shape"]]
        assert shown["out"] == [expected["output"], expected["output shape"]]


def test_every_step_has_the_librarys_strides_bytes_and_flops() -> None:
    at = open_app(**ODD, causal=1, dropout=0.25)
    at.toggle(key="w_detail").set_value(True)
    at.run()
    trace = trace_forward(config(at))
    rows = table_rows(at)
    assert tuple(rows) == tuple(step.id for step in trace.steps)
    for step in trace.steps:
        shown = rows[step.id]
        assert shown["mono"] == [str(step.strides)]
        assert shown["plain"] == ["yes" if step.contiguous else "no"]
        assert shown["num"][:3] == [f"{n:,}" for n in (step.nbytes, step.copied, step.flops)]
        names = [operator.name.removeprefix("aten.") for operator in step.operators]
        assert shown["ops"] == [", ".join(names)]


@pytest.mark.parametrize("step", ["project_q", "scores", "merge"])
def test_a_chosen_row_brings_its_lesson(step: str) -> None:
    at = set_state(open_app(), step=step)
    spec = trace_forward(MHAConfig(), profile=False)[step].spec
    shown = text(piece(at, 'class="lesson"'))
    assert spec.lesson in shown
    assert spec.code in shown
    assert 'data-pick="' + step + '" tabindex="0" aria-selected="true"' in piece(at, "shapes-box")


def test_a_chosen_step_that_no_longer_runs_gives_way() -> None:
    at = set_state(open_app(causal=1), w_detail=True, step="mask")
    assert "becomes −∞ before softmax" in text(piece(at, 'class="lesson"'))
    at.toggle(key="w_causal").set_value(False)
    at.run()
    assert not at.exception
    assert "Two strides change places" in text(piece(at, 'class="lesson"'))
