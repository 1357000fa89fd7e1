"""The LibTorch page: both languages at the run's sizes, compared on demand, files to take home."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from mha_core import ConfigError, Trace, trace_forward
from mha_core.libtorch import build, compare, project
from mha_core.libtorch.compare import Difference
from mha_core.libtorch.lines import cpp_lines, python_lines
from mha_core.measure import Report
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

PAGE = "pages/8_LibTorch.py"
BUTTON = "w_measure_libtorch"


def open_page(**query: str | int) -> AppTest:
    at = new_app(**query)
    at.switch_page(PAGE)
    return run(at)


def same(trace: Trace) -> list[Difference]:
    return [Difference(step.id, step.shape, step.shape, 0.0, equal=True) for step in trace.steps]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Trace]:
    """In place of the compiler: every step equal. What was given is kept."""
    given: list[Trace] = []

    def made(trace: Trace, report: Report) -> Iterator[Difference]:
        report(0.5, "compiling")
        given.append(trace)
        yield from same(trace)

    monkeypatch.setattr(compare, "compare", made)
    monkeypatch.setattr(build, "missing", lambda: None)
    return given


def press(at: AppTest) -> AppTest:
    at.button(key=BUTTON).click()
    return run(at)


def steps(at: AppTest) -> str:
    return text(piece(at, 'class="lt-steps"'))


@pytest.mark.parametrize(
    "query", [{}, {"causal": 1, "time": 9}, {"d_model": 21, "heads": 3, "bias": 0}], ids=str
)
def test_both_languages_at_the_runs_sizes(query: dict[str, Any]) -> None:
    at = open_page(**query)
    shown = steps(at)
    for step in trace_forward(config(at), profile=False).steps[1:]:
        assert python_lines()[step.id].statement in shown
        assert cpp_lines()[step.id].statement in shown
        assert f"→ {step.shape}" in shown
    assert ('see("mask"' in shown) is ("causal" in query)


def test_compared_on_demand(compared: list[Trace]) -> None:
    at = open_page(causal=1)
    assert "every bit" not in steps(at)
    press(at)
    assert compared[0].config == config(at)
    assert steps(at).count("0, every bit the same") == 11
    assert "All 18 tensors are equal in C++ and in Python" in "".join(map(text, pieces(at)))
    assert at.button(key=BUTTON).label == "Build and compare again"
    labels = [button.proto.label for button in at.get("download_button")]
    assert labels[-1] == "Differences, CSV"


def test_another_choice_is_not_compared_yet(compared: list[Trace]) -> None:
    at = press(open_page())
    type_size(at, "time", 7)
    assert len(compared) == 1
    assert "every bit" not in steps(at)
    assert at.button(key=BUTTON).label == "Build and compare"


def test_where_nothing_can_be_built_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "built", lambda: False)
    monkeypatch.setattr(build, "missing", lambda: "no cmake: pip install cmake")
    at = open_page()
    assert "C++ cannot be built here: no cmake: pip install cmake." in said(at)
    assert not [button for button in at.button if button.key == BUTTON]
    assert len(at.get("download_button")) == 3


def test_a_failed_build_leaves_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_trace: Trace, _report: Report) -> Iterator[Difference]:
        yield from ()
        raise ConfigError("C++ module", "masks.cpp:3: [error](x)", "cannot be built here")

    monkeypatch.setattr(compare, "compare", fails)
    monkeypatch.setattr(build, "missing", lambda: None)
    at = press(open_page())
    assert "cannot be built here" in said(at)
    assert "[error]\\(x)" in said(at)
    assert not [button for button in at.button if button.label == "Cancel"]
    assert 'see("scores"' in steps(at)


def test_files_and_their_size() -> None:
    at = open_page()
    labels = [button.proto.label for button in at.get("download_button")]
    assert labels[0].startswith("CMake project, ")
    assert labels[1:] == ["Weights, .safetensors", "Weights, .pt"]
    assert "unzip attention_b2_t6_d32_h4_seed0_libtorch_project.zip" in at.code[0].value


def test_too_large_a_project_is_refused_and_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "LIMIT", 30_000)
    at = open_page()
    assert "over the limit of 29.3 KiB. The largest time that fits is" in said(at)
    assert len(at.get("download_button")) == 2
    assert 'see("scores"' in steps(at)


def test_the_files_of_the_module_are_there_to_read() -> None:
    at = set_state(open_page(causal=1), w_code=True)
    code = "\n".join(block.value for block in at.code)
    assert "attention(mha::MultiHeadAttentionOptions(32, 4));" in code
    assert (build.SOURCES / "multi_head_attention.h").read_text().rstrip() in code
