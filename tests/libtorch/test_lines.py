"""The lines shown for each step are those of the sources."""

from __future__ import annotations

import inspect
import re

import pytest

from mha_core import attention, masks
from mha_core.libtorch.build import SOURCES
from mha_core.libtorch.lines import CPP, MASKS, cpp_lines, python_lines
from mha_core.steps import STEPS


def squeezed(code: str) -> str:
    """Without comments and white space."""
    return re.sub(r"\s+", "", re.sub(r"//[^\n]*", "", code))


def test_every_step_has_its_lines() -> None:
    assert set(python_lines()) == set(STEPS)
    assert set(cpp_lines()) == set(STEPS)


@pytest.mark.parametrize("step", STEPS)
def test_they_stand_in_the_sources(step: str) -> None:
    python = squeezed(inspect.getsource(attention) + inspect.getsource(masks))
    cpp = squeezed("".join((SOURCES / name).read_text() for name in (CPP, MASKS)))
    for lines, source in ((python_lines()[step], python), (cpp_lines()[step], cpp)):
        assert f'see("{step}"' in re.sub(r"\s+", "", lines.statement)
        assert squeezed(lines.statement) in source
        for name, body in lines.helpers:
            assert f"{name}(" in lines.statement
            if "#" not in body:  # comments of Python stay
                assert all(squeezed(line) in source for line in body.splitlines())


def test_the_functions_that_reshape_come_with_them() -> None:
    split, merge = python_lines()["split_q"], cpp_lines()["merge"]
    assert split.statement == 'q = see("split_q", split(q, self.heads))'
    ((name, body),) = split.helpers
    assert name == "split"
    assert body.endswith("return x.view(batch, time, heads, d_model // heads)")
    assert merge.statement == 'out = see("merge", merge_heads(out));'
    assert merge.helpers == (
        (
            "merge_heads",
            "return x.contiguous().view({x.size(0), x.size(1), x.size(2) * x.size(3)});",
        ),
    )
    assert [name for name, _ in cpp_lines()["softmax"].helpers] == ["filling.softmax"]
    assert [name for name, _ in python_lines()["mask"].helpers] == ["filling.apply"]
