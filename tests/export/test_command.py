"""`python -m mha_core export`: what it writes is what the library computes, whole or not at all."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from mha_core import MHAConfig, trace_forward
from mha_core.__main__ import main
from mha_core.inputs import text_input
from tests.export.support import SMALL, refused


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


def test_no_partial_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_arrays: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mha_core.export.npz.np.savez", fail)
    assert main(["export", *SMALL, "--out", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_file_appears_under_its_name_only_when_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", fail)
    assert main(["export", *SMALL, "--out", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("argv", "fields"),
    [
        (["--no-bias"], {"bias": False}),
        (["--dropout", "0.5"], {"dropout": 0.5}),
        (["--dtype", "float64", "--device", "cpu"], {"dtype": "float64"}),
    ],
)
def test_every_flag_reaches_the_configuration(
    argv: list[str], fields: dict[str, Any], tmp_path: Path
) -> None:
    argv = ["export", *SMALL, *argv, "--tensors", "output", "--out", str(tmp_path)]
    assert main(argv) == 0
    config = MHAConfig(batch=2, time=5, d_model=12, heads=3, **fields)
    output = trace_forward(config, profile=False).output.numpy()
    with np.load(next(tmp_path.iterdir())) as arrays:
        assert arrays["output"].tobytes() == output.tobytes()
        assert json.loads(str(arrays["metadata"]))["config"] == config.to_dict()


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
