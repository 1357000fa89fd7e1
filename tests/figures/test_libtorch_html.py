"""C++ beside Python as HTML: every step once, its shapes as they ran, differences where known."""

from __future__ import annotations

import html
import math
import re

import pytest

from mha_core import MHAConfig, trace_forward
from mha_core.figures.libtorch_html import side_by_side, verdict
from mha_core.libtorch.compare import Difference
from mha_core.libtorch.lines import cpp_lines, python_lines
from mha_core.palette import DARK, LIGHT, Palette


def text(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def same(step: str) -> Difference:
    return Difference(step, (1,), (1,), 0.0, equal=True)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_step_that_ran_and_no_other(colours: Palette) -> None:
    for causal in (False, True):
        trace = trace_forward(MHAConfig(time=5, causal=causal), profile=False)
        shown = side_by_side(trace.steps, python_lines(), cpp_lines(), [], colours)
        numbers = re.findall(r'data-step="(\w+)"', shown)
        ran = [step.number for step in trace.steps if step.id != "input"]
        assert numbers == list(dict.fromkeys(ran))
        for step in trace.steps[1:]:
            assert python_lines()[step.id].statement in text(shown)
            assert cpp_lines()[step.id].statement in text(shown)
            assert f"→ {step.shape}" in text(shown)
        assert ('see("mask"' in text(shown)) is causal
        assert "largest difference" not in text(shown)


def test_the_worst_of_three_is_told() -> None:
    trace = trace_forward(MHAConfig(), profile=False)
    found = [same(step.id) for step in trace.steps]
    changed = [
        Difference("split_k", (2,), (2,), 3e-7, equal=False) if one.step == "split_k" else one
        for one in found
    ]
    blocks = side_by_side(trace.steps, python_lines(), cpp_lines(), changed, LIGHT).split(
        "<section"
    )
    told = {re.findall(r'data-step="(\w+)"', block)[0]: text(block) for block in blocks[1:]}
    assert "largest difference 3e−07" in told["2"]
    assert "0, every bit the same" in told["3"]
    assert "largest difference" not in told["3"]


def test_the_verdict() -> None:
    equal = [same("scores"), same("softmax")]
    assert verdict(equal, 2) == (
        "All 2 tensors are equal in C++ and in Python, bit for bit, on the CPU, with 2 threads "
        "each."
    )
    apart = Difference("scale", (1,), (1,), 2e-7, equal=False)
    assert "2 of 3 tensors are equal bit for bit" in verdict([*equal, apart], 1)
    assert "the largest difference is 2e−07, at scale" in verdict([*equal, apart], 1)
    lost = Difference("merge", (), (2, 6, 32), math.nan, equal=False)
    assert verdict([*equal, apart, lost], 1).startswith("merge cannot be compared")
