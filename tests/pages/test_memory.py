"""The memory page: what is on screen is what the tensors of this very configuration are."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from streamlit.testing.v1 import AppTest

from mha_core import MHAConfig, Trace, memory, trace_forward
from mha_core.errors import human_bytes
from mha_core.inputs import text_input
from mha_core.window import Element
from tests.pages.support import component, config, new_app, piece, run, said, set_state, text

PAGE = "pages/2_Memory.py"
ODD = {"batch": 3, "time": 5, "d_model": 14, "heads": 2}


def open_memory(**query: str | int) -> AppTest:
    at = new_app(**query)
    at.switch_page(PAGE)
    return run(at)


def rows(at: AppTest) -> dict[str, list[str]]:
    """Step id -> the cells of its row."""
    found = {}
    for step, row in re.findall(
        r'<tr data-pick="(\w+)"[^>]*>(.*?)</tr>', piece(at, '<table class="mem">')
    ):
        found[step] = [text(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
    return found


def figure(at: AppTest) -> dict[str, Any]:
    return component(at, "memory_figure")


def traced(at: AppTest) -> Trace:
    return trace_forward(config(at), clock=False)


@pytest.mark.parametrize("query", [{}, ODD, {**ODD, "causal": 1, "dropout": 0.25}, {"heads": 1}])
def test_every_step_has_its_layout_and_the_elements_place(query: dict[str, int]) -> None:
    at = set_state(open_memory(**query), followed=Element(1, 4, 9))
    trace = traced(at)
    stops = {stop.step.id: stop for stop in memory.journey(trace, Element(1, 4, 9))}
    shown = rows(at)
    assert list(shown) == [name for name in stops if name[-2:] not in ("_k", "_v")]
    for name, cells in shown.items():
        step, tensor = trace[name], trace.tensor(name)
        assert cells[3] == str(tensor.stride())
        assert cells[4] == ("yes" if tensor.is_contiguous() else "no")
        assert cells[5].startswith(step.storage)
        assert cells[6] == (human_bytes(step.copied) if step.copied else "0")
        assert cells[7] == str(list(stops[name].place.index))
        assert cells[8] == f"{stops[name].place.offset:,}"
        assert (cells[9] == "where it was") == (step.view_of is not None)


def test_a_step_is_chosen_and_k_and_v_have_figures_of_their_own() -> None:
    at = set_state(open_memory(), step="transpose_v", followed=Element(1, 2, 9))
    trace = traced(at)
    shown = figure(at)
    tensor = trace.tensor("transpose_v")
    assert shown["title"] == "3 · transpose(1, 2)"
    assert f"v[1, 1, 2, 1]</b> = {float(tensor[1, 1, 2, 1]):.4g}".replace("-", "−") in shown["say"]
    assert "transpose_v has the storage of split_v" in shown["below"]
    assert "transpose_v" in rows(at)
    assert "transpose_q" not in rows(at)


@pytest.mark.parametrize("step", ["project_q", "transpose_q", "scores", "weighted_values"])
def test_the_figure_holds_every_element_where_torch_has_it(step: str) -> None:
    at = set_state(open_memory(**ODD), step=step)
    tensor = traced(at).tensor(step)
    shown = figure(at)
    index = torch.tensor(shown["index"]).view(-1, tensor.dim())
    assert len(index) == tensor.numel()  # small enough to be shown whole, in row-major order
    assert torch.equal(index, torch.cartesian_prod(*map(torch.arange, tensor.shape)))
    places = torch.as_strided(
        torch.arange(memory.stored(tensor)), tensor.shape, tensor.stride(), tensor.storage_offset()
    )
    assert shown["offset"] == places.flatten().tolist()
    assert not any(shown["skips"])


def test_a_large_tensor_is_shown_through_a_window() -> None:
    at = open_memory(batch=4, time=96, d_model=512, heads=8)
    shown = figure(at)
    assert 100 < len(shown["offset"]) <= 600
    assert any(shown["skips"])
    assert "[0, 0, 3, 21]" in shown["say"]


def test_what_ran_is_what_torch_dispatched() -> None:
    at = set_state(open_memory(), step="scores")
    below = figure(at)["below"]
    for operator in traced(at)["scores"].operators:
        assert f'<td class="mono">{operator.name}</td>' in below
    assert text(below).count("is copied, 1.5 KiB") == 2
    assert "stride(batch) = h · stride(h) = 32, and it is 192" in text(below)


def test_the_error_is_torchs_own_and_the_strides_explain_it() -> None:
    at = open_memory(**ODD)
    out = traced(at).tensor("transpose_back")
    with pytest.raises(RuntimeError, match="view size") as raised:
        out.view(3, 5, 14)
    shown = text(piece(at, 'class="mem-error"'))
    assert f"RuntimeError: {raised.value}" in shown
    assert "stride(h) = 7 · 1 = 7" in shown
    assert f"stride(h) is {out.stride(2)}." in shown


def test_where_torch_allows_the_view_no_error_is_claimed() -> None:
    shown = text(piece(open_memory(heads=1), 'class="mem-error"'))
    assert "RuntimeError" not in shown
    assert "no error; strides (192, 32, 1)" in shown


def test_a_text_shows_the_layout_that_it_really_has() -> None:
    at = open_memory(batch=2, d_model=32, heads=4, input="text", text="the cat sat")
    made = config(at)
    x = text_input(made, ("the", "cat", "sat"))
    assert not x.is_contiguous()
    assert rows(at)["input"][3] == str(x.stride())
    assert rows(at)["input"][4] == "no"


def test_the_element_stays_inside_when_the_tensor_shrinks() -> None:
    at = set_state(open_memory(), followed=Element(1, 5, 31), memory_key=5, step="softmax")
    at.number_input(key="w_time#exact").set_value(2)
    run(at)
    assert rows(at)["softmax"][7] == "[1, 3, 1, 1]"


def test_a_size_that_cannot_run_is_refused_and_the_view_stays() -> None:
    at = open_memory()
    at.number_input(key="w_heads#exact").set_value(5)
    run(at)
    assert "must be a multiple of heads=5" in said(at)
    assert rows(at)["split_q"][3] == "(192, 32, 8, 1)"


def test_the_code_is_the_program_for_this_view() -> None:
    at = set_state(open_memory(**ODD), followed=Element(2, 1, 8))
    at = set_state(at, w_code=True)
    assert at.code[0].value == memory.program(MHAConfig(**ODD), Element(2, 1, 8)).rstrip()


def test_the_export_panel_offers_table_and_figure() -> None:
    at = set_state(open_memory(**ODD), w_memory_export=True)
    labels = [button.proto.label for button in at.get("download_button")]
    assert labels == ["Table, CSV", "Table, MD", "Table, TEX", "Figure, SVG", "Figure, PNG"]
