"""The command line: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from mha_core import MHAConfig, trace_forward
from mha_core.__main__ import main
from mha_core.inputs import text_input

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"
SMALL = ["--batch", "2", "--time", "5", "--d-model", "12", "--heads", "3"]


def golden(name: str, text: str) -> None:
    """Compares with the stored text; REWRITE_GOLDEN=1 stores it instead."""
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_bytes(text.encode())
    assert text.encode() == path.read_bytes()


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Runs a command that must fail, and returns its one line of complaint."""
    assert main(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    return printed.err


def run(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mha_core", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", **options)  # type: ignore[call-overload,no-any-return]


# --- table -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("table.txt", []),
        (
            "table_b2_t8_d64_h8.txt",
            ["--batch", "2", "--time", "8", "--d-model", "64", "--heads", "8"],
        ),
        ("table_causal_dropout.txt", ["--causal", "--dropout", "0.1", "--no-bias"]),
        ("table_one.txt", ["--batch", "1", "--time", "1", "--d-model", "1", "--heads", "1"]),
        ("table_text.txt", ["--text", "the animal slept", "--dtype", "bfloat16"]),
        ("table.csv", ["--format", "csv"]),
        ("table.md", ["--format", "markdown"]),
        ("table.tex", ["--format", "latex"]),
        ("table.json", ["--format", "json"]),
    ],
)
def test_the_table_is_as_stored(
    name: str, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", *argv]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    golden(name, printed.out)


def test_the_shapes_in_the_table_are_those_of_the_arguments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["table", *SMALL, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["output shape"] for row in rows] == [
        "(2, 5, 12)", "(2, 5, 3, 4)", "(2, 3, 5, 4)", "(2, 3, 5, 5)", "(2, 3, 5, 5)",
        "(2, 3, 5, 4)", "(2, 5, 3, 4)", "(2, 5, 12)", "(2, 5, 12)",
    ]  # fmt: skip


def test_detail_has_every_step_with_its_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", *SMALL, "--causal", "--detail", "--format", "json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["mask"]["step"] == "4b"
    assert rows["softmax"]["bytes"] == 2 * 3 * 5 * 5 * 4
    assert rows["scores"]["FLOPs"] == 2 * 2 * 3 * 5 * 5 * 4
    assert rows["split_q"]["storage"] == "view of project_q"


def test_the_process_prints_utf_8_whatever_the_locale() -> None:
    done = run("table", env=os.environ | {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.encode() == (GOLDEN / "table.txt").read_bytes()


# --- export ------------------------------------------------------------------------------------


def test_what_is_exported_is_what_the_library_computes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["export", *SMALL, "--causal", "--seed", "7", "--out", str(tmp_path)]
    assert main([*argv, "--format", "npz,safetensors", "--tensors", "weights,masked,q"]) == 0
    printed = capsys.readouterr().out.splitlines()
    config = MHAConfig(batch=2, time=5, d_model=12, heads=3, causal=True, seed=7)
    trace = trace_forward(config, profile=False)
    name = "attention_b2_t5_d12_h3_causal_seed7_weights-masked-q"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{name}.npz",
        f"{name}.safetensors",
    ]
    assert [line.split("  ")[0] for line in printed] == [
        str(tmp_path / f"{name}.npz"), str(tmp_path / f"{name}.safetensors")
    ]  # fmt: skip
    assert all(line.endswith("KiB") for line in printed)
    with np.load(tmp_path / f"{name}.npz") as arrays:
        assert arrays["weights"].tobytes() == trace.weights.numpy().tobytes()
        assert arrays["masked"].tobytes() == trace.tensor("mask").numpy().tobytes()
    tensors = load_file(tmp_path / f"{name}.safetensors")
    assert torch.equal(tensors["q"], trace.tensor("transpose_q"))


def test_a_text_gives_labels_and_time(tmp_path: Path) -> None:
    argv = ["export", "--text", "the =1 the", "--out", str(tmp_path), "--format", "csv"]
    assert main([*argv, "--only-heads", "2,0", "--items", "1"]) == 0
    (path,) = tmp_path.iterdir()
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 2 * 9
    assert lines[1].startswith("weights,1,2,0,0,the,the,")
    assert lines[2].startswith("weights,1,2,0,1,the,'=1,")
    config = MHAConfig(time=3)
    words = text_input(config, ["the", "=1", "the"])
    weights = trace_forward(config, x=words, profile=False).weights
    assert np.float32(lines[1].split(",")[7]) == weights[1, 2, 0, 0].numpy()


def test_all_writes_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [
        "export",
        *SMALL,
        "--out",
        str(tmp_path / "a" / "b"),
        "--only-heads",
        "0",
        "--items",
        "0",
    ]
    assert main([*argv, "--format", "all,zip", "--mode", "dark", "--scale", "uniform"]) == 0
    written = sorted(path.suffix for path in (tmp_path / "a" / "b").iterdir())
    assert written == sorted([
        ".png", ".svg", ".pdf", ".html", ".csv", ".npz", ".safetensors",
        ".csv", ".md", ".tex", ".json", ".json", ".zip",
    ])  # fmt: skip
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(written)
    with zipfile.ZipFile(printed[-1].split("  ")[0]) as archive:
        assert "manifest.json" in archive.namelist()


def test_the_process_writes_files_and_shows_progress(tmp_path: Path) -> None:
    done = run("export", *SMALL, "--out", str(tmp_path), "--format", "npz,table-json")
    assert done.returncode == 0
    assert "%|" in done.stderr
    assert "error" not in done.stderr
    table, arrays = sorted(tmp_path.iterdir())
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [str(arrays), str(table)]
    # The exported table is measured.
    assert all(row["ms"] is not None for row in json.loads(table.read_text()))


def test_no_partial_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mha_core.export.npz.np.savez", fail)
    assert main(["export", *SMALL, "--out", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["export", *SMALL, "--out", str(tmp_path)]
    assert main(argv) == 0
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()

    def interrupt(*_arguments: object, **_arrays: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mha_core.export.npz.np.savez", interrupt)
    assert main(argv) == 130
    assert [item.read_bytes() for item in tmp_path.iterdir()] == [before]


# --- refusals ----------------------------------------------------------------------------------


def test_a_width_that_heads_does_not_divide_is_refused_with_what_works(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = refused(capsys, "table", "--d-model", "65", "--heads", "8")
    assert "d_model=65" in said
    assert "heads=8" in said
    assert "d_model 64 or 72" in said
    assert "heads 1, 5, 13, 65" in said


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        ((), ["table,export"]),
        (("draw",), ["draw", "table", "export"]),
        (("table", "--batch", "x"), ["--batch", "integer", "'x'"]),
        (("table", "--time", "2.5"), ["--time", "'2.5'"]),
        (("table", "--time", "0"), ["time=0", "at least 1"]),
        (("table", "--heads", "0"), ["heads=0"]),
        (("table", "--batch", "-3"), ["batch=-3"]),
        (("table", "--seed", "-1"), ["seed=-1", "0 to 2**63 - 1"]),
        (("table", "--dropout", "1"), ["dropout=1.0", "below 1"]),
        (("table", "--dropout", "nan"), ["dropout=nan"]),
        (("table", "--dropout", "much"), ["--dropout", "'much'"]),
        (("table", "--dtype", "int8"), ["dtype='int8'", "float32, float64, bfloat16, float16"]),
        (("table", "--device", "tpu"), ["device='tpu'", "cpu"]),
        (("table", "--format", "xml"), ["format='xml'", "text, csv, markdown, latex, json"]),
        (("table", "--text", ""), ["text=''", "at least one word"]),
        (("table", "--text", "a b c", "--time", "4"), ["time=4", "a b c", "3"]),
        (("table", "--bat", "2"), ["--bat"]),
        (("table", "--time", "100000000"), ["time=100000000", "TiB", "limit", "largest time"]),
        (("table", "--text", "\udcff"), ["text=", "UTF-8"]),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    argv: tuple[str, ...], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, *argv)
    for part in parts:
        assert part in said


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (("--format", "gif"), ["format='gif'", "png, svg, pdf, html, csv, npz"]),
        (("--format", ","), ["format=','", "png"]),
        (("--tensors", "attention"), ["tensors='attention'", "scores, scaled, masked, weights"]),
        (("--tensors", "masked"), ["masked", "no mask is set"]),
        (("--tensors", "q", "--format", "png"), ["must have a map", "npz"]),
        (("--only-heads", "4"), ["heads=4", "0 to 3"]),
        (("--only-heads", "a"), ["heads='a'", "commas"]),
        (("--items", "0,2"), ["items=2", "0 to 1"]),
        (("--mode", "sepia"), ["mode='sepia'", "light, dark"]),
        (("--scale", "cubic"), ["scale='cubic'", "per head"]),
        (
            (
                "--time",
                "100000000",
            ),
            ["TiB"],
        ),
        (("--time", "4000", "--format", "npz,csv"), ["rows=128000000", "20,000,000", "npz"]),
    ],
)
def test_a_bad_export_is_refused_before_anything_is_made(
    argv: tuple[str, ...], parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "export", "--out", str(tmp_path / "new"), *argv)
    for part in parts:
        assert part in said
    assert list(tmp_path.iterdir()) == []


def test_out_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--out" in refused(capsys, "export")


def test_a_place_that_cannot_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("here")
    assert f"out='{file}': cannot be written" in refused(capsys, "export", "--out", str(file))
    inside = file / "inside"
    assert f"out='{inside}'" in refused(capsys, "export", "--out", str(inside))
    assert file.read_text() == "here"


def test_a_closed_pipe_is_quiet() -> None:
    command = f"{sys.executable} -m mha_core table | true"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""


def test_the_process_refuses_without_a_traceback() -> None:
    done = run("table", "--d-model", "65", "--heads", "8")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: d_model=65")
    assert "Traceback" not in done.stderr
