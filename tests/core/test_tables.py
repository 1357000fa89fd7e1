"""The shape table: the rows of the walkthrough, real shapes, and text that reads back."""

from __future__ import annotations

import csv
import io
import json

import pandas as pd
import pyarrow as pa
import pytest

from mha_core import ConfigError, tables, trace_forward
from mha_core.steps import STEPS
from tests.core.support import config

SHORT = ["step", "operation", "input", "output", "input shape", "output shape"]
LONG = [
    "id", "strides", "contiguous", "storage", "bytes", "allocated", "copied", "FLOPs", "ms",
    "operators",
]  # fmt: skip

# The nine rows as the walkthrough has them, and the shapes of batch 2, time 5, h 3, d_k 7.
NINE = [
    ("1", "W_q(x)", "(batch, time, d_model)", "(batch, time, d_model)", "(2, 5, 21)", "(2, 5, 21)"),
    ("2", "view(batch, time, h, d_k)", "(batch, time, d_model)", "(batch, time, h, d_k)",
     "(2, 5, 21)", "(2, 5, 3, 7)"),
    ("3", "transpose(1, 2)", "(batch, time, h, d_k)", "(batch, h, time, d_k)",
     "(2, 5, 3, 7)", "(2, 3, 5, 7)"),
    ("4", "Q @ Kᵀ", "(batch, h, time, d_k) × (batch, h, d_k, time)", "(batch, h, time, time)",
     "(2, 3, 5, 7) × (2, 3, 7, 5)", "(2, 3, 5, 5)"),
    ("5", "softmax(-1)", "(batch, h, time, time)", "(batch, h, time, time)",
     "(2, 3, 5, 5)", "(2, 3, 5, 5)"),
    ("6", "weights @ V", "(batch, h, time, time) × (batch, h, time, d_k)", "(batch, h, time, d_k)",
     "(2, 3, 5, 5) × (2, 3, 5, 7)", "(2, 3, 5, 7)"),
    ("7", "transpose(1, 2)", "(batch, h, time, d_k)", "(batch, time, h, d_k)",
     "(2, 3, 5, 7)", "(2, 5, 3, 7)"),
    ("8", "contiguous().view(batch, time, d_model)", "(batch, time, h, d_k)",
     "(batch, time, d_model)", "(2, 5, 3, 7)", "(2, 5, 21)"),
    ("9", "W_o(out)", "(batch, time, d_model)", "(batch, time, d_model)",
     "(2, 5, 21)", "(2, 5, 21)"),
]  # fmt: skip


def both(**changes):
    trace = trace_forward(config(**changes))
    return [trace.table(), trace.table(detail=True)]


def test_the_short_table_is_the_nine_steps_of_the_walkthrough():
    table = trace_forward(config(causal=True, dropout=0.1)).table()
    assert list(table.columns) == SHORT
    assert [tuple(row) for row in table.itertuples(index=False)] == NINE


@pytest.mark.parametrize(
    ("changes", "missing"),
    [({}, {"mask", "dropout"}), ({"causal": True}, {"dropout"}), ({"dropout": 0.1}, {"mask"})],
)
def test_the_detailed_table_has_every_step_that_ran(changes, missing):
    table = trace_forward(config(**changes)).table(detail=True)
    assert list(table.columns) == SHORT + LONG
    assert table["id"].tolist() == [step for step in STEPS if step not in missing]
    assert table["step"].tolist() == [STEPS[step].number for step in table["id"]]


def test_every_number_of_the_detailed_table_is_the_traces():
    trace = trace_forward(config(causal=True))
    for row in trace.table(detail=True).to_dict("records"):
        step = trace[row["id"]]
        tensor = trace.tensor(row["id"])
        assert row["output shape"] == str(tuple(tensor.shape))
        assert row["strides"] == str(tensor.stride())
        assert row["contiguous"] == tensor.is_contiguous()
        assert row["bytes"] == tensor.numel() * 8
        assert (row["allocated"], row["copied"]) == (step.allocated, step.copied)
        assert (row["FLOPs"], row["ms"]) == (step.flops, step.milliseconds)
        assert row["operators"].split() == [operator.name for operator in step.operators]


def test_the_input_of_every_projection_is_x():
    table = trace_forward(config()).table(detail=True).set_index("id")
    for n in "qkv":
        assert table.loc[f"project_{n}", "input shape"] == "(2, 5, 21)"
    assert table.loc["input", "input shape"] == ""


def test_storage_is_said_in_words():
    table = trace_forward(config()).table(detail=True).set_index("id")
    assert table.loc["split_k", "storage"] == "view of project_k"
    assert table.loc["transpose_back", "storage"] == "view of weighted_values"
    assert table.loc["scores", "storage"] == "new 1.2 KiB"  # 2·3·5·5 numbers of 8 bytes
    assert table.loc["merge", "storage"] == "copy 1.6 KiB"


def test_shapes_as_text():
    assert tables.shape_text((2, 6, 32)) == "(2, 6, 32)"
    assert tables.shape_text((6,)) == "(6,)"
    assert tables.shape_text(()) == "()"
    assert tables.operands_text(((2, 3), (3, 2))) == "(2, 3) × (3, 2)"
    assert tables.operands_text(()) == ""


def as_text(table):
    """Every cell as a table of text has it."""
    return [[str(cell) for cell in row] for row in table.itertuples(index=False)]


def test_csv_reads_back():
    for table in both(causal=True):
        rows = list(csv.reader(io.StringIO(tables.render(table, "csv"))))
        assert rows[0] == list(table.columns)
        assert rows[1:] == as_text(table)


def test_json_reads_back():
    for table in both(causal=True):
        records = json.loads(tables.render(table, "json"))
        assert [list(record) for record in records] == [list(table.columns)] * len(table)
        for record, row in zip(records, table.to_dict("records"), strict=True):
            assert record.pop("ms", 0) == pytest.approx(row.pop("ms", 0), abs=1e-9)
            assert record == row


def test_markdown_reads_back():
    for table in both(causal=True):
        header, rule, *lines = tables.render(table, "markdown").splitlines()
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in (header, *lines)]
        assert set(rule) <= set("|:-")
        assert rows[0] == list(table.columns)
        assert rows[1:] == as_text(table)


def test_text_has_a_column_under_each_title():
    for table in both():
        header, rule, *lines = tables.render(table, "text").splitlines()
        assert set(rule) == set("- ")
        starts = [header.index(title) for title in SHORT]
        for line, row in zip(lines, as_text(table), strict=True):
            for start, cell in zip(starts, row, strict=False):
                assert line[start:].startswith(cell)


def test_latex_has_every_row_and_escapes_what_it_must():
    for table in both(causal=True):
        text = tables.render(table, "latex")
        assert text.startswith(r"\begin{tabular}")
        assert text.endswith(r"\end{tabular}")
        body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
        assert body.count(r" \\") == len(table)
        for line in body.splitlines()[1:]:
            assert line.count("&") == len(table.columns) - 1
        assert r"W\_q(x)" in text
        assert r"Q @ K$^\top$" in text
        assert text.isascii()
        assert "_" not in text.replace(r"\_", "")


@pytest.mark.parametrize("form", tables.FORMATS)
def test_every_format_offered_works_and_ends_without_a_newline(form):
    for table in both():
        text = tables.render(table, form)
        assert text
        assert not text.endswith("\n")


@pytest.mark.parametrize("form", ["html", "CSV", ""])
def test_a_format_that_is_not_offered_is_refused_with_those_that_are(form):
    table = trace_forward(config()).table()
    with pytest.raises(ConfigError, match=r"format=.*text, csv, markdown, latex, json"):
        tables.render(table, form)


@pytest.mark.parametrize("profile", [True, False])
@pytest.mark.parametrize("detail", [True, False])
def test_arrow_takes_every_table_and_gives_it_back(detail, profile):
    table = trace_forward(config(causal=True), profile=profile).table(detail=detail)
    back = pa.Table.from_pandas(table, preserve_index=False)
    assert back.column_names == list(table.columns)
    assert back.num_rows == len(table)
    pd.testing.assert_frame_equal(back.to_pandas(), table)


def test_shapes_are_text_and_counts_are_numbers():
    table = trace_forward(config()).table(detail=True)
    for column in (*SHORT, "id", "strides", "storage", "operators"):
        assert table[column].map(type).eq(str).all()
    for column in ("bytes", "allocated", "copied", "FLOPs", "ms"):
        assert pd.api.types.is_numeric_dtype(table[column])
    assert table["contiguous"].dtype == bool
