"""NPZ and safetensors: what is read back is what ran, bit for bit."""

import io
import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load

from mha_core import MHAConfig, trace_forward
from mha_core.export import FORMATS, TENSORS, Selection
from tests.export.support import ODD, config, overflowing, traced

DTYPES = ("float32", "float64", "bfloat16", "float16")
EVERY = tuple(TENSORS)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Equal to the last bit: -0.0 and 0.0 differ, and NaN equals itself."""
    if one.dtype is not other.dtype or one.shape != other.shape:
        return False
    kind = BITS[one.itemsize]
    return torch.equal(one.contiguous().view(kind), other.contiguous().view(kind))


def read_npz(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file}


@pytest.mark.parametrize("dtype", DTYPES)
def test_npz_reads_back_bit_for_bit(dtype: str) -> None:
    trace = traced(dtype=dtype, dropout=0.25)
    arrays = read_npz(FORMATS["npz"].build(trace, Selection(EVERY)))
    for name, step in TENSORS.items():
        back = torch.from_numpy(arrays[name.replace(" ", "_")])
        # NumPy has no bfloat16: float32 holds each of its values.
        assert back.dtype is (
            torch.float32 if dtype == "bfloat16" else config(dtype=dtype).torch_dtype
        )
        assert same_bits(back.to(config(dtype=dtype).torch_dtype), trace.tensor(step)), name
    about = json.loads(str(arrays["metadata"]))
    assert about["tensors"]["weights"]["dtype"] == dtype
    assert about["tensors"]["weights"]["stored"] == ("float32" if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_safetensors_reads_back_bit_for_bit(dtype: str) -> None:
    trace = traced(dtype=dtype, dropout=0.25)
    tensors = load(FORMATS["safetensors"].build(trace, Selection(EVERY)))
    assert set(tensors) == {name.replace(" ", "_") for name in EVERY}
    for name, step in TENSORS.items():
        assert same_bits(tensors[name.replace(" ", "_")], trace.tensor(step)), name


def test_masked_scores_keep_minus_infinity_above_the_diagonal() -> None:
    masked = read_npz(FORMATS["npz"].build(traced(), Selection(("masked",))))["masked"]
    above = np.triu(np.ones((7, 7), dtype=bool), 1)
    assert np.isneginf(masked[..., above]).all()
    assert np.isfinite(masked[..., ~above]).all()


@pytest.mark.parametrize("name", ["npz", "safetensors"])
def test_heads_and_items_are_selected_in_the_order_given(name: str) -> None:
    trace = traced()
    selection = Selection(("weights", "q", "output"), heads=(4, 1), items=(1,))
    data = FORMATS[name].build(trace, selection)
    read = (
        load(data)
        if name == "safetensors"
        else {
            key: torch.from_numpy(value)
            for key, value in read_npz(data).items()
            if key != "metadata"
        }
    )
    assert same_bits(read["weights"], torch.stack([trace.weights[1, 4], trace.weights[1, 1]])[None])
    q = trace.tensor("transpose_q")
    assert same_bits(read["q"], torch.stack([q[1, 4], q[1, 1]])[None])
    assert same_bits(read["output"], trace.output[1:])


@pytest.mark.parametrize("name", ["npz", "safetensors"])
def test_the_file_says_how_to_run_it_again(name: str, tmp_path: Any) -> None:
    trace = traced(dtype="float64", seed=5)
    data = FORMATS[name].build(trace, tokens=ODD)
    if name == "npz":
        arrays = read_npz(data)
        about, weights = json.loads(str(arrays["metadata"])), torch.from_numpy(arrays["weights"])
        assert arrays["tokens"].tolist() == list(ODD)
    else:
        path = tmp_path / "a.safetensors"
        path.write_bytes(data)
        with safe_open(path, "pt") as file:
            about, weights = json.loads(file.metadata()["mha"]), file.get_tensor("weights")
    assert about["tokens"] == list(ODD)
    again = trace_forward(MHAConfig.from_dict(about["config"]), profile=False)
    assert same_bits(again.weights, weights)


@pytest.mark.parametrize("name", ["npz", "safetensors"])
def test_equal_runs_give_equal_bytes(name: str) -> None:
    first = FORMATS[name].build(trace_forward(config(), profile=False))
    second = FORMATS[name].build(trace_forward(config(), profile=False))
    assert first == second
    assert first != FORMATS[name].build(traced(seed=1))


def test_what_is_not_a_number_is_stored_as_it_is() -> None:
    tensors = load(FORMATS["safetensors"].build(overflowing(), Selection(("scores", "weights"))))
    assert same_bits(tensors["scores"], overflowing().tensor("scores"))
    assert tensors["weights"][0, :, 3:].isnan().any()


def test_an_input_that_needs_a_gradient_is_stored() -> None:
    x = torch.ones(2, 7, 15, requires_grad=True)
    trace = trace_forward(config(), x=x, profile=False)
    assert load(FORMATS["safetensors"].build(trace, Selection(("input",))))["input"].sum() == 210
