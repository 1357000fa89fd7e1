"""The shape table, byte for byte that of `python -m mha_core table`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from mha_core import MHAConfig, tables, trace_forward
from mha_core.__main__ import main
from tests.libtorch.support import command, configs

README = ["--batch", "2", "--time", "8", "--d-model", "64", "--heads", "8", "--causal"]


def arguments(config: MHAConfig) -> list[str]:
    sizes = {
        "batch": config.batch, "time": config.time, "d-model": config.d_model,
        "heads": config.heads, "seed": config.seed, "dropout": config.dropout,
        "dtype": config.dtype,
    }  # fmt: skip
    given = [part for name, value in sizes.items() for part in (f"--{name}", str(value))]
    return [
        *given, *(["--causal"] if config.causal else []), *([] if config.bias else ["--no-bias"])
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        README, [], ["--batch", "1", "--time", "1", "--heads", "1"],
        ["--dtype", "float64", "--dropout", "0.5", "--no-bias", "--time", "100"],
        ["--batch=3", "--heads=32"],
    ],
)  # fmt: skip
def test_table(
    program: Path, capsysbinary: pytest.CaptureFixture[bytes], options: list[str]
) -> None:
    assert main(["table", *options]) == 0
    expected = capsysbinary.readouterr().out
    assert command(program, "table", *options).stdout == expected
    assert expected.startswith(b"step    operation")


@pytest.mark.parametrize(
    "options",
    [
        ["--d-model", "30"], ["--heads", "0"], ["--time", "-1"], ["--batch", "x"], ["--seed", "-4"],
        ["--dropout", "1.5"], ["--dropout", "many"], ["--dtype", "int8"], ["--batch"],
        ["--time", "2147483648"], ["--colour"],
    ],
)  # fmt: skip
def test_refused(
    program: Path, capsysbinary: pytest.CaptureFixture[bytes], options: list[str]
) -> None:
    status = main(["table", *options])
    done = command(program, "table", *options)
    assert (done.returncode, done.stderr) == (status, capsysbinary.readouterr().err)
    assert status == 2


@settings(max_examples=12)
@given(config=configs())
def test_detail(program: Path, config: MHAConfig) -> None:
    """Strides, storage and bytes; what is counted by torch's dispatcher is Python's alone."""
    config = MHAConfig(**(config.to_dict() | {"fill": -float("inf"), "scale": None}))
    frame = trace_forward(config, clock=False).table(detail=True)
    columns = list(frame.columns)
    shared = frame[columns[: columns.index("bytes") + 1]]
    done = command(program, "table", "--detail", *arguments(config))
    assert done.stdout.decode() == tables.render(shared, "text") + "\n"
