"""The same seed gives the same weights and input in both languages."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from mha_core import MHAConfig
from mha_core.inputs import build_module
from tests.libtorch.support import command, same_bits, weights_of


@pytest.mark.parametrize("seed", [0, 1, 20_001, 2**63 - 1])
def test_weights(program: Path, tmp_path: Path, seed: int) -> None:
    config = MHAConfig(d_model=48, heads=3, seed=seed)
    file = tmp_path / "w.safetensors"
    sizes = ["--d-model", "48", "--heads", "3", "--seed", str(seed)]
    assert command(program, "weights", str(file), *sizes).returncode == 0
    expected, found = weights_of(build_module(config)), load_file(file)
    assert found.keys() == expected.keys()
    assert all(same_bits(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_weights_of_another_dtype_without_bias(program: Path, tmp_path: Path, dtype: str) -> None:
    file = tmp_path / "w.safetensors"
    command(program, "weights", str(file), "--no-bias", "--dtype", dtype)
    expected = weights_of(build_module(MHAConfig(bias=False, dtype=dtype)))
    found = load_file(file)
    assert found.keys() == expected.keys()
    assert all(same_bits(found[name], expected[name]) for name in expected)
