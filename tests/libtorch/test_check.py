"""`mha_libtorch check`: what a case gives here against what it gave elsewhere."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

from mha_core import MHAConfig, trace_forward
from mha_core.inputs import random_input
from tests.libtorch.support import command, weights_of

CONFIG = MHAConfig(causal=True, dtype="float64")


def test_check(program: Path, tmp_path: Path) -> None:
    trace = trace_forward(CONFIG, profile=False)
    case = {
        **weights_of(trace.module),
        "x": random_input(CONFIG),
        "heads": torch.tensor(CONFIG.heads),
        "causal": torch.tensor(True),
    }
    expected = {step.id: trace.tensor(step.id).contiguous() for step in trace.steps}
    given, wanted = tmp_path / "case.safetensors", tmp_path / "expected.safetensors"
    save_file({name: tensor.clone() for name, tensor in case.items()}, given)

    def check(changed: dict[str, torch.Tensor], *options: str) -> tuple[int, list[str]]:
        save_file({name: tensor.clone() for name, tensor in (expected | changed).items()}, wanted)
        threads = str(torch.get_num_threads())
        done = command(program, "check", str(given), str(wanted), "--threads", threads, *options)
        return done.returncode, done.stdout.decode().splitlines()

    status, lines = check({})
    assert status == 0
    assert sorted(lines) == sorted(f"{name}  0.0" for name in expected)
    other = expected["softmax"].clone()
    other[1, 2, 3, 0] += 0.25
    gap = float((other - expected["softmax"]).abs().max())
    status, lines = check({"softmax": other})
    assert status == 1
    assert [line for line in lines if "DIFFERS" in line] == [f"softmax  {gap}  DIFFERS"]
    assert check({"softmax": other}, "--tolerance", "0.5")[0] == 0
    other[0, 0, 0, 0] = torch.nan
    assert check({"softmax": other}, "--tolerance", "0.5")[0] == 1
    assert "merge  has the shape (2, 6, 32)  DIFFERS" in check({"merge": torch.ones(3)})[1]
    assert "dropout  did not run  DIFFERS" in check({"dropout": torch.ones(3)})[1]
