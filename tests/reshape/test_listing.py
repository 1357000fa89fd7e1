"""The code of a reshape runs, and says what the run says; what is typed survives translation."""

from __future__ import annotations

import csv
import io

import pytest
import torch
from hypothesis import given, settings

from mha_core.reshape import plan_chain, plan_pattern, program, run, table, torch_chain
from mha_core.reshape.listing import as_chain, as_pattern
from mha_core.reshape.presets import PRESETS
from mha_core.reshape.run import tensors
from tests.reshape.strategies import Pattern, patterns

CHAINS = [
    ("view(2, 6, 4, 8).transpose(1, 2).contiguous().view(2, 24, 8)", "2, 6, 32"),
    ("unsqueeze(1).expand(2, 3, 6).reshape(6, 6)", "2, 6"),
    ("repeat_interleave(2, dim=0).flatten()", "3, 4"),
    ("view(4, 6).transpose(0, 1)", "6, 4"),
    ("", "6"),
    ("squeeze()", "1, 1"),
]


@settings(max_examples=60)
@given(patterns())
def test_a_pattern_survives_the_way_to_torch_and_back(pattern: Pattern) -> None:
    done = run(plan_pattern(pattern.text, pattern.typed_shape, pattern.typed_sizes))
    exec(program(done), {})  # its asserts hold
    typed = as_chain(done)
    there = run(plan_chain(typed.text, typed.shape, typed.axes))
    assert [step.shape for step in there.steps] == [step.shape for step in done.steps]
    back = as_pattern(there)
    assert back is not None
    again = run(plan_pattern(back.text, back.shape, back.axes))
    ours, theirs = (list(tensors(made.plan))[-1] for made in (again, done))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("chain", "shape"), CHAINS)
def test_the_program_of_a_chain_runs(chain: str, shape: str) -> None:
    done = run(plan_chain(chain, shape))
    names: dict[str, object] = {}
    exec(program(done), names)
    made = names["y"]
    assert isinstance(made, torch.Tensor)
    assert torch.equal(made, list(tensors(done.plan))[-1].long())
    assert eval(torch_chain(done), names).equal(made)


def test_names_are_kept_on_the_way() -> None:
    known = PRESETS["split heads"]
    done = run(plan_pattern(known.pattern, "2, 6, 32", known.axes))
    typed = as_chain(done)
    assert typed.text == "view(b, t, h, d).transpose(1, 2)"
    assert typed.shape == "b, t, h*d"
    back = as_pattern(run(plan_chain(typed.text, typed.shape, typed.axes)))
    assert back is not None
    assert back.text == known.pattern


def test_the_table_has_a_row_a_step_and_reads_back() -> None:
    done = run(plan_chain(*CHAINS[0]))
    rows = list(csv.DictReader(io.StringIO(table(done).to_csv(index=False))))
    assert [row["operation"] for row in rows] == ["x", *(op.code for op in done.plan.ops)]
    assert [row["memory"] for row in rows] == ["new", "view", "view", "copy", "view"]
    assert [int(row["allocated_bytes"]) for row in rows] == [1536, 0, 0, 1536, 0]
    assert rows[2]["strides"] == "(192, 8, 32, 1)"
    assert rows[3]["operators"].startswith("clone")


def test_expanding_moves_no_byte_and_merging_it_copies() -> None:
    known = PRESETS["grouped-query repeat"]
    done = run(plan_pattern(known.pattern, known.shape, known.axes))
    x, unsqueezed, expanded, merged = done.steps
    assert expanded.strides[2] == 0
    assert expanded.nbytes == 3 * x.nbytes
    assert (unsqueezed.storage, expanded.storage, merged.storage) == ("view", "view", "copy")
    assert merged.allocated == done.allocated == 3 * x.nbytes
    assert "it steps 30" in merged.why
