"""The table of all mistakes: computed from what ran, not typed."""

from __future__ import annotations

import io

import pandas as pd
import pytest
import torch

from mha_core.mistakes import MISTAKES, Finding, Outcome, examine, examine_all
from mha_core.mistakes.examine import largest
from mha_core.mistakes.measures import apart, maps_seen
from mha_core.mistakes.summary import frame, in_words
from mha_core.tables import render
from tests.mistakes.support import LOUD, bench


@pytest.fixture(scope="module")
def findings():
    return examine_all(list(MISTAKES.values()), *bench())


def test_one_row_a_mistake_that_reads_back_from_csv(findings):
    table = frame(findings)
    assert list(table["mistake"]) == [mistake.title for mistake in MISTAKES.values()]
    back = pd.read_csv(io.StringIO(render(table, "csv")))
    assert list(back["mistake"]) == list(table["mistake"])
    assert list(back["fix"]) == list(table["fix"])
    assert back["largest change of output"].tolist() == pytest.approx(
        table["largest change of output"].astype(float).tolist(), nan_ok=True
    )
    assert render(table, "markdown").count("\n") == len(MISTAKES) + 1


def test_shapes_alone_reveal_one(findings):
    table = frame(findings).set_index("mistake")
    revealed = table.index[table["shapes alone reveal it"] == "yes"]
    assert list(revealed) == [MISTAKES["batch_second"].title]
    raised = table.index[table["torch says"] != ""]
    assert set(raised) == {MISTAKES[name].title for name in LOUD}
    assert (table["check on wrong"] == "fails").all()
    assert (table["check on right"] == "holds").all()
    assert in_words(findings) == (
        "Shapes alone reveal 1 of 23; torch refuses 5; 17 run through with every shape right."
    )


def test_the_count_follows_what_ran():
    # With one head and batch = time, some mistakes change nothing, and no shape tells any.
    found = examine_all(list(MISTAKES.values()), *bench(batch=3, time=3, d_model=4, heads=1))
    said = in_words(found)
    assert said.startswith("Shapes alone reveal 0 of 23; torch refuses 3; ")
    assert said.endswith("change nothing at these sizes.")
    assert sum(int(word) for word in said.replace(";", "").split() if word.isdigit()) == 23 + 23


def made(wrong, right, mask=None):
    module, x = bench()
    found = examine(MISTAKES["no_scale"], module, x)
    return Finding(found.mistake, Outcome(*wrong), Outcome(*right), True, True, mask)


def test_the_largest_difference_is_over_what_is_finite():
    a, b = torch.tensor([1.0, torch.nan, 3.0]), torch.tensor([1.5, 2.0, 3.0])
    assert largest(a, b) == 0.5
    assert largest(torch.full((2,), torch.nan), torch.ones(2)) is None
    assert largest(a, torch.ones(2)) is None
    assert largest(None, b) is None


def test_the_item_shown_is_the_one_that_differs_most():
    one = torch.zeros(3, 2, 4, 4)
    other = one.clone()
    other[1] += 0.5
    output = torch.zeros(3, 4, 8)
    assert apart(made((output, other), (output, one))) == 1
    other[2, 0, 0, 0] = torch.nan  # not a number is as far as can be
    assert apart(made((output, other), (output, one))) == 2
    moved = output.clone()
    moved[2] += 1.0
    assert apart(made((moved, one), (output, one))) == 2  # maps alike, outputs not
    assert apart(made((output, one), (output, one))) == 0


def test_measures_of_a_map_by_hand():
    keep = torch.ones(1, 1, 3, 3, dtype=torch.bool).tril()
    right = torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]]]])
    wrong = torch.tensor([[[[torch.nan] * 3, [0.25, 0.25, 0.25], [0.25, 0.25, 0.5]]]])
    output = torch.zeros(1, 3, 4)
    seen = maps_seen(made((output, wrong), (output, right), keep), 0)
    good, bad = seen.measures()
    assert good.row_sums == pytest.approx((1.0, 1.0))
    assert good.effective_keys == pytest.approx((1 + 2 + 3) / 3)
    assert good.hidden == 0
    assert (bad.rows, bad.broken_rows) == (3, 1)
    assert bad.row_sums == pytest.approx((0.75, 1.0))
    assert bad.hidden == pytest.approx(0.25 / 1.75)
    difference = seen.difference().values[0]
    assert difference[1].tolist() == pytest.approx([-0.25, -0.25, 0.25])
    assert seen.faults()[1].tolist() == [[True] * 3, [False] * 3, [False] * 3]


def test_no_maps_where_one_raised(findings):
    for found in findings:
        assert (maps_seen(found, 0) is None) == (found.mistake.id in LOUD)
