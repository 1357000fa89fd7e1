"""The command line on a real model."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from mha_core.__main__ import main
from mha_core.models import retrace
from mha_core.models.hub import load

TEXT = "The animal slept."
WORDS = ["[CLS]", "the", "animal", "slept", ".", "[SEP]"]


@pytest.fixture(scope="module")
def trace():
    model = load("minilm")
    return retrace(model.capture(model.encode([TEXT]), 3)).trace


def test_export_writes_the_layers_weights_and_its_tokens(tmp_path, trace):
    given = ["export", "--model", "minilm", "--text", TEXT, "--layer", "3", "--out", str(tmp_path)]
    assert main([*given, "--format", "npz,csv,png"]) == 0
    (npz,) = tmp_path.glob("*.npz")
    with np.load(npz) as file:
        assert np.array_equal(file["weights"], trace.weights.numpy())
        assert file["tokens"].tolist() == WORDS
    (rows,) = tmp_path.glob("*.csv")
    with rows.open(encoding="utf-8", newline="") as file:
        row = next(r for r in csv.DictReader(file) if (r["head"], r["query"]) == ("5", "2"))
    assert row["query_token"] == "animal"
    assert np.float32(row["value"]) == trace.weights[0, 5, 2, 0].numpy()


def test_table_has_the_models_shapes(capsys):
    assert main(["table", "--model", "minilm", "--text", TEXT, "--pair", "It woke."]) == 0
    assert "(1, 12, 10, 32)" in capsys.readouterr().out


def test_lines_are_batch_items(capsys):
    assert main(["table", "--model", "minilm", "--text", f"{TEXT}\nHi"]) == 0
    assert "(2, 12, 6, 32)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "minilm"], "text='': must be given"),
        (["--model", "minilm", "--text", " "], "must have at least one word"),
        (["--model", "minilm", "--text", "a", "--layer", "6"], "layer=6: must be from 0 to 5"),
        (["--model", "minilm", "--text", "a", "--heads", "3"], "heads=3: is set by the model"),
        (["--model", "minilm", "--text", "a", "--causal"], "causal=True: is set by the model"),
        (["--model", "minilm", "--text", "a b", "--image", "x.png"], "is nothing that MiniLM-L6"),
        (["--model", "gpt2", "--text", "a"], "is downloaded only when asked for"),
        (["--model", "no/such/folder", "--text", "a"], "must be a folder that is there, or a hub"),
        (["--layer", "1"], "layer='1': needs --model"),
        (["--pair", "b", "--text", "a"], "pair='b': needs --model"),
    ],
)
def test_bad_input_is_one_line_and_status_2(capsys, options, said):
    assert main(["table", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
