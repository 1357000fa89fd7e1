"""The shape table as HTML: its rows, tints, chips and values are those of the trace."""

from __future__ import annotations

import re

import pytest

from mha_core import MHAConfig, trace_forward
from mha_core.errors import human_bytes
from mha_core.figures.table_html import chip, shape_table, values_table
from mha_core.palette import DARK, LIGHT
from mha_core.steps import NINE, STEPS
from tests.figures.support import Tree, config, overflowing, traced

CAUSAL = config(causal=True, dropout=0.2)


def table(made=CAUSAL, *, detail=False, picked="scores", colours=LIGHT):
    return shape_table(traced(made).steps, detail=detail, picked=picked, colours=colours)


def rows(tree):
    """(attributes, text) of every row but the head's."""
    return [row for row in tree.all("tr") if "data-pick" in row[0]]


@pytest.mark.parametrize("made", [CAUSAL, config(), config(time=1, batch=1)])
def test_nine_rows_or_with_detail_every_step_that_ran(made):
    short, long = Tree(table(made)), Tree(table(made, detail=True))
    assert short.balanced
    assert long.balanced
    assert [row["data-pick"] for row, _ in rows(short)] == list(NINE)
    assert [row["data-pick"] for row, _ in rows(long)] == [step.id for step in traced(made).steps]
    assert ("mask" in [row["data-pick"] for row, _ in rows(long)]) == made.causal
    for tree in (short, long):
        assert all(row["tabindex"] == "0" for row, _ in rows(tree))


@pytest.mark.parametrize("picked", ["scale", "mask"])
def test_a_picked_step_between_the_nine_has_its_row(picked):
    shown = [row["data-pick"] for row, _ in rows(Tree(table(picked=picked)))]
    assert shown == [step.id for step in traced(CAUSAL).steps if step.id in (*NINE, picked)]
    assert len(shown) == 10


def test_the_picked_row_alone_is_selected():
    for picked in (*NINE, "nothing", None):
        tree = Tree(table(picked=picked))
        selected = [row["data-pick"] for row, _ in rows(tree) if row["aria-selected"] == "true"]
        assert selected == ([picked] if picked in NINE else [])
        assert {row["aria-selected"] for row, _ in rows(tree)} <= {"true", "false"}


@pytest.mark.parametrize("detail", [False, True])
def test_every_row_has_a_cell_for_every_heading(detail):
    text = table(detail=detail)
    titles = len(re.findall("<th scope=.col", text))
    body = text.split("<tbody>")[1]
    for row in body.split("</tr>")[:-1]:
        assert len(re.findall("<t[dh][ >]", row)) == titles
    assert titles == (12 if detail else 5)


@pytest.mark.parametrize("detail", [False, True])
def test_a_row_says_number_operation_shapes_and_memory(detail):
    trace = traced(CAUSAL)
    for row, text in rows(Tree(table(detail=detail))):
        step = trace[row["data-pick"]]
        assert text.startswith(step.number)
        assert step.spec.operation in text
        assert f"({', '.join(step.spec.output)})({', '.join(map(str, step.shape))})" in text
        assert step.storage in text
        for shape in step.input_shapes:
            assert f"({', '.join(map(str, shape))})" in text
        if detail:
            assert f"{step.strides}{'yes' if step.contiguous else 'no'}{step.nbytes:,}" in text
            for operator in step.operators:
                assert operator.name.removeprefix("aten.") in text


def test_detail_tells_q_k_and_v_apart():
    shown = {row["data-pick"]: text for row, text in rows(Tree(table(detail=True)))}
    for step in ("split", "transpose"):
        for letter in "qkv":
            assert f"{STEPS[f'{step}_{letter}'].operation} {letter}" in shown[f"{step}_{letter}"]
    assert len(set(shown.values())) == len(shown)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_axis_names_and_sizes_have_the_tint_of_their_axis(colours):
    trace = traced(CAUSAL)
    text = table(detail=True, colours=colours)
    for step in trace.steps:
        row = text.split(f'data-pick="{step.id}"')[1].split("</tr>")[0]
        spans = re.findall(r'<span style="color:(#\w+)">([\w ]+)</span>', row)
        names = [name for shape in step.spec.inputs for name in shape]
        sizes = [str(size) for shape in step.input_shapes for size in shape]
        names += step.spec.output
        sizes += map(str, step.shape)
        shown = sorted((colours.tints[name], name) for name in names)
        shown += sorted((colours.tints[n], size) for n, size in zip(names, sizes, strict=True))
        assert sorted(spans) == sorted(shown)


def test_the_chip_says_view_copy_or_new_and_how_many_bytes():
    trace = traced(CAUSAL)
    size = 4 * CAUSAL.batch * CAUSAL.time * CAUSAL.d_model
    expected = {
        "split_q": "view", "transpose_v": "view", "transpose_back": "view",
        "merge": f"copy {human_bytes(size)}", "project_q": f"new {human_bytes(size)}",
        "softmax": f"new {human_bytes(4 * CAUSAL.batch * CAUSAL.heads * CAUSAL.time**2)}",
    }  # fmt: skip
    for step, text in expected.items():
        ((attributes, shown),) = Tree(chip(trace[step])).all("span")
        assert shown == text
        assert attributes["class"].split() == ["chip", text.split()[0]]
        shares = trace[step].view_of
        assert (shares in attributes["title"]) if shares else "own" in attributes["title"]
    # With one head the transposed tensor is contiguous already: nothing is copied.
    assert "view" in chip(traced(config(heads=1))["merge"])


def number(text):
    return float(text.replace("−", "-").replace("∞", "inf"))


@pytest.mark.parametrize("step", ["input", "split_k", "transpose_q", "mask", "softmax", "output"])
@pytest.mark.parametrize("made", [CAUSAL, MHAConfig(time=9, d_model=60, heads=5, causal=True)])
def test_the_corner_shows_the_numbers_of_the_tensor(made, step):
    trace = traced(made)
    tensor = trace.tensor(step)
    text = values_table(trace[step], LIGHT)
    tree = Tree(text)
    assert tree.balanced
    corner = tensor[(0,) * (tensor.dim() - 2)][:6, :8]
    cells = [number(shown) for _, shown in tree.all("td")]
    assert cells == pytest.approx(corner.flatten().tolist(), rel=6e-3)
    height, width = corner.shape
    heads = [shown for _, shown in tree.all("th") if shown]
    assert heads == [*map(str, range(width)), *map(str, range(height))]
    ((_, caption),) = tree.all("div", **{"class": "caption"})
    zeros = "0, " * (tensor.dim() - 2)
    assert caption.startswith(f"[{zeros}:{height}, :{width}] of {tuple(tensor.shape)}")
    assert caption.endswith(f"rows {STEPS[step].output[-2]}, columns {STEPS[step].output[-1]}")


def test_what_is_not_finite_is_named():
    assert "<td>−∞</td>" in values_table(traced(CAUSAL)["mask"], LIGHT)
    trace = overflowing()
    assert "<td>∞</td>" in values_table(trace["scores"], LIGHT)
    assert "<td>NaN</td>" in values_table(trace["softmax"], LIGHT)


def test_a_step_that_was_not_kept_has_a_row_and_no_values():
    trace = trace_forward(config(), keep=[], profile=False)
    assert values_table(trace["scores"], LIGHT) == ""
    tree = Tree(shape_table(trace.steps, detail=True, picked=None, colours=LIGHT))
    assert tree.balanced
    assert len(rows(tree)) == len(trace.steps)
