"""CSV: every cell once, exact, and inert in a spreadsheet."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
import torch

from mha_core import trace_forward
from mha_core.export import FORMATS, Selection
from mha_core.export.csv import HEADER
from tests.export.support import HEADS, ODD, TIME, config, traced

NUMPY = {
    "float32": np.float32,
    "float64": np.float64,
    "bfloat16": np.float32,
    "float16": np.float16,
}


def rows(data: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(data.decode(), newline="")))


@pytest.mark.parametrize("dtype", NUMPY)
def test_values_read_back_to_the_last_bit(dtype: str) -> None:
    trace = traced(dtype=dtype)
    read = rows(FORMATS["csv"].build(trace, Selection(("scores", "masked", "weights"))))
    for name, step in (("scores", "scores"), ("masked", "mask"), ("weights", "softmax")):
        texts = [row["value"] for row in read if row["tensor"] == name]
        values = np.array([NUMPY[dtype](text) for text in texts], dtype=NUMPY[dtype])
        tensor = trace.tensor(step)
        exact = (tensor.float() if dtype == "bfloat16" else tensor).numpy()
        assert values.tobytes() == np.ascontiguousarray(exact).tobytes(), name


def test_every_cell_has_one_row_in_its_place() -> None:
    read = rows(FORMATS["csv"].build(traced(), Selection(heads=(3, 1), items=(1,))))
    assert len(read) == 2 * TIME * TIME
    places = [(row["batch"], row["head"], row["query"], row["key"]) for row in read]
    expected = [
        ("1", str(head), str(query), str(key))
        for head in (3, 1)
        for query in range(TIME)
        for key in range(TIME)
    ]
    assert places == expected
    weights = traced().weights
    for row in read:
        cell = weights[1, int(row["head"]), int(row["query"]), int(row["key"])]
        assert float(row["value"]) == pytest.approx(float(cell), rel=1e-6)


def test_masked_cells_are_flagged_from_the_mask_on() -> None:
    read = rows(FORMATS["csv"].build(traced(), Selection(("scaled", "masked", "weights"))))
    for row in read:
        later = int(row["key"]) > int(row["query"])
        hidden = later and row["tensor"] != "scaled"
        assert row["masked"] == ("true" if hidden else "false")
        if hidden:
            assert row["value"] == ("-inf" if row["tensor"] == "masked" else "0.0")


def test_a_mask_of_one_item_flags_that_item_alone() -> None:
    keep = torch.ones(2, 1, 1, TIME, dtype=torch.bool)
    keep[1, ..., 4:] = False
    trace = trace_forward(config(causal=False), mask=keep, profile=False)
    read = rows(FORMATS["csv"].build(trace))
    flagged = {(row["batch"], row["key"]) for row in read if row["masked"] == "true"}
    assert flagged == {("1", "4"), ("1", "5"), ("1", "6")}


def test_labels_are_neutralised_and_numbers_are_not() -> None:
    data = FORMATS["csv"].build(traced(), Selection(("scores",)), tokens=ODD)
    read = rows(data)
    shown = [row["key_token"] for row in read[:TIME]]
    assert shown == ["'=1+1", "<b>x</b>", "$\\frac{1}$", 'say "a,b"', "'-2", "the", "the"]
    assert [row["query_token"] for row in read[::TIME][:TIME]] == shown
    negative = [row["value"] for row in read if float(row["value"]) < 0]
    assert negative
    assert all(value.startswith("-") for value in negative)


@pytest.mark.parametrize("token", ["=1+1", "@x", "-2", "+3", "\t=1", "\r=1", '=HYPERLINK("a")'])
def test_no_field_starts_like_a_formula(token: str) -> None:
    tokens = [token, *"abcdef"]
    for row in rows(FORMATS["csv"].build(traced(), Selection(heads=(0,)), tokens=tokens)):
        assert row["key_token"][:1] not in set("=+-@\t\r")
        assert (row["key_token"][:1] == "'") == (row["key"] == "0")


@pytest.mark.parametrize("token", ["a\nb", 'a"b', "a,b", "a\r\nb", "\ud800", ""])
def test_one_row_stays_one_line(token: str) -> None:
    data = FORMATS["csv"].build(traced(), Selection(heads=(0,)), tokens=[token, *"abcdef"])
    assert len(data.decode().split("\n")) == 2 * TIME * TIME + 2
    assert all(row["key_token"] for row in rows(data))


def test_the_header_is_as_documented() -> None:
    assert FORMATS["csv"].build(traced()).decode().split("\n", 1)[0] == HEADER
    assert HEADER == "tensor,batch,head,query,key,query_token,key_token,value,masked"


def test_pandas_reads_it() -> None:
    frame = pd.read_csv(io.BytesIO(FORMATS["csv"].build(traced())))
    assert len(frame) == 2 * HEADS * TIME * TIME
    assert frame["masked"].dtype == bool
    sums = frame.groupby(["batch", "head", "query"])["value"].sum()
    assert np.allclose(sums, 1.0, atol=1e-6)


def test_blocks_of_queries_join_without_a_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FORMATS["csv"].build(traced())
    monkeypatch.setattr("mha_core.export.csv._CHUNK", 3 * TIME)
    assert FORMATS["csv"].build(traced()) == whole
