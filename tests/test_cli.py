"""The command line: what it prints, what it writes, and how it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mha_core.__main__ import main
from tests.export.support import SMALL, refused

ROOT = Path(__file__).parents[1]
GOLDEN = Path(__file__).parent / "golden"


def golden(name: str, text: str) -> None:
    """Compares with the stored text; REWRITE_GOLDEN=1 stores it instead."""
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_bytes(text.encode())
    assert text.encode() == path.read_bytes()


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


def test_the_process_writes_files_and_shows_progress(tmp_path: Path) -> None:
    done = run("export", *SMALL, "--out", str(tmp_path), "--format", "npz,table-json")
    assert done.returncode == 0
    assert "%|" in done.stderr
    assert "error" not in done.stderr
    table, arrays = sorted(tmp_path.iterdir())
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [str(arrays), str(table)]
    # The exported table is measured.
    assert all(row["ms"] is not None for row in json.loads(table.read_text()))


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
