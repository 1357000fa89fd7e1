"""The ZIP, and the small files: table and configuration."""

import hashlib
import io
import json
import zipfile
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn

import numpy as np
import pytest

from mha_core import MHAConfig, trace_forward
from mha_core.export import FORMATS, Selection, bundle
from mha_core.export.selection import make_job
from tests.export.support import ODD, config, traced

SMALL = Selection(heads=(0,), items=(0,))


@cache
def built() -> bytes:
    return FORMATS["zip"].build(traced(), SMALL, tokens=ODD)


def strict(text: str | bytes) -> Any:
    """JSON as its standard has it: NaN and Infinity are not words of it."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


def test_the_manifest_is_true() -> None:
    with zipfile.ZipFile(io.BytesIO(built())) as archive:
        assert archive.testzip() is None
        manifest = strict(archive.read("manifest.json"))
        names = {entry["file"] for entry in manifest["files"]}
        assert names | {"manifest.json"} == set(archive.namelist())
        for entry in manifest["files"]:
            content = archive.read(entry["file"])
            assert len(content) == entry["bytes"] > 0
            assert hashlib.sha256(content).hexdigest() == entry["sha256"]
            assert entry["what"]
    assert len(manifest["files"]) == len(FORMATS) - 1
    assert manifest["left_out"] == []
    assert MHAConfig.from_dict(manifest["about"]["config"]) == config()


def test_files_in_the_bundle_are_those_built_alone() -> None:
    with zipfile.ZipFile(io.BytesIO(built())) as archive:
        for name in ("png", "pdf", "safetensors", "csv", "config"):
            form = FORMATS[name]
            content = archive.read(form.file_name(config(), SMALL, ODD))
            assert content == form.build(traced(), SMALL, tokens=ODD), name
        # NumPy marks sizes otherwise where it cannot seek, so its arrays are compared.
        stored = archive.read(FORMATS["npz"].file_name(config(), SMALL, ODD))
    with np.load(io.BytesIO(stored)) as arrays:
        assert (arrays["weights"] == traced().weights[:1, :1].numpy()).all()


def test_equal_bundles_are_equal_bytes() -> None:
    assert FORMATS["zip"].build(traced(), SMALL, tokens=ODD) == built()


def test_what_a_format_cannot_hold_is_left_out_with_the_reason() -> None:
    file = io.BytesIO()
    small = tuple(replace(FORMATS[name], most_maps=9) for name in ("png", "svg"))
    bundle.write(file, make_job(traced(), Selection()), (*small, FORMATS["npz"]))
    with zipfile.ZipFile(file) as archive:
        manifest = strict(archive.read("manifest.json"))
        assert [name.rsplit(".", 1)[-1] for name in archive.namelist()] == ["npz", "json"]
    left = {entry["file"].rsplit(".", 1)[-1]: entry["why"] for entry in manifest["left_out"]}
    assert set(left) == {"png", "svg"}
    assert all("maps=10: must be at most 9" in why for why in left.values())


def test_arrays_alone_make_a_bundle() -> None:
    data = FORMATS["zip"].build(traced(), Selection(("q", "output")))
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        manifest = strict(archive.read("manifest.json"))
    assert {entry["file"].rsplit(".", 1)[-1] for entry in manifest["left_out"]} == {
        "png", "svg", "pdf", "html", "csv"
    }  # fmt: skip


def test_the_configuration_reads_back() -> None:
    trace = traced(dtype="float64", seed=9)
    document = strict(FORMATS["config"].build(trace, tokens=ODD))
    assert MHAConfig.from_dict(document["config"]) == trace.config
    assert document["config"]["fill"] == "-inf"
    assert document["tokens"] == list(ODD)
    assert document["torch"]
    assert {"batch", "time", "d_model", "heads", "d_k", "scores", "weights"} <= set(
        document["words"]
    )


@pytest.mark.parametrize("profile", [True, False])
def test_tables_have_every_step_that_ran(profile: bool) -> None:
    trace = trace_forward(config(dropout=0.5), profile=profile)
    table = strict(FORMATS["table-json"].build(trace))
    assert [row["id"] for row in table] == [step.id for step in trace.steps]
    assert table[-1]["output shape"] == "(2, 7, 15)"
    for name in ("table-csv", "table-markdown", "table-latex"):
        text = FORMATS[name].build(trace).decode()
        assert text.endswith("\n")
        assert "nan" not in text
        assert text.count("(2, 5, 7, 7)") >= 5
    assert len(FORMATS["table-csv"].build(trace).decode().splitlines()) == 1 + len(trace.steps)
