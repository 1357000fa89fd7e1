"""Weights travel both ways, in safetensors and .pt; broken files are refused, never read beyond."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save, save_file

from mha_core import MHAConfig, attend, trace_forward
from mha_core.inputs import build_module, random_input
from mha_core.layouts import build as build_layer
from mha_core.layouts import find_layers, read_state, to_bytes, write
from tests.core.support import randn
from tests.libtorch.support import Refused, Server, command, same_bits, weights_of

CONFIG = MHAConfig(batch=2, time=5, d_model=21, heads=3, causal=True, seed=11)


@pytest.mark.parametrize("form", ["safetensors", "pt"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_weights_that_the_app_saves(program: Path, tmp_path: Path, form: str, dtype: str) -> None:
    config = MHAConfig(**(CONFIG.to_dict() | {"dtype": dtype, "fill": -torch.inf}))
    weights, x = tmp_path / f"w.{form}", tmp_path / f"x.{form}"
    weights.write_bytes(to_bytes(write(build_module(config), "mha_core"), form))
    x.write_bytes(to_bytes({"input": random_input(config)}, form))
    out = tmp_path / f"out.{form}"
    done = command(program, "run", str(weights), str(x), str(out), "--heads", "3", "--causal")
    assert done.stderr == b""
    found = load_file(out) if form == "safetensors" else torch.load(out, weights_only=True)
    trace = trace_forward(config, profile=False)
    assert found.keys() == {step.id for step in trace.steps}
    for step in trace.steps:
        assert same_bits(found[step.id], trace.tensor(step.id)), step.id


@pytest.mark.parametrize("what", ["dict", "parameters"])
def test_what_torch_save_writes(program: Path, tmp_path: Path, what: str) -> None:
    module = build_module(CONFIG)
    state = {
        "dict": dict(module.state_dict()),
        "parameters": dict(module.named_parameters()),
    }[what]
    torch.save(state, tmp_path / "w.pt")
    save_file({"x": random_input(CONFIG)}, tmp_path / "x.safetensors")
    out = tmp_path / "out.safetensors"
    done = command(
        program, "run", str(tmp_path / "w.pt"), str(tmp_path / "x.safetensors"), str(out),
        "--heads", "3", "--causal",
    )  # fmt: skip
    assert done.stderr == b""
    assert same_bits(load_file(out)["output"], trace_forward(CONFIG, profile=False).output)


def test_a_state_dict_that_is_no_plain_dict_is_refused(server: Server, tmp_path: Path) -> None:
    """LibTorch's reader takes no OrderedDict; the sentence says what to save instead."""
    torch.save(build_module(CONFIG).state_dict(), tmp_path / "w.pt")
    words = said(server, tmp_path, (tmp_path / "w.pt").read_bytes(), "case.pt")
    assert words.endswith("Save a plain dict: torch.save(dict(model.state_dict()), path).")


@pytest.mark.parametrize("form", ["safetensors", "pt"])
def test_weights_that_the_program_saves(program: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"w.{form}"
    sizes = ["--d-model", "21", "--heads", "3", "--seed", "11"]
    assert command(program, "weights", str(file), *sizes).stderr == b""
    state = read_state(file.read_bytes(), file.name)
    (layer,) = find_layers(state)
    module = build_layer(state, layer, heads=3)
    expected = weights_of(build_module(CONFIG))
    assert all(same_bits(weights_of(module)[name], expected[name]) for name in expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_every_dtype_through_safetensors(server: Server, dtype: torch.dtype) -> None:
    """q, k and v in one, the mask in its own, and the result in that of q, bit for bit."""
    q, k, v = (randn(1, 2, 3, 4, seed=n, dtype=dtype) for n in range(3))
    for mask in (torch.ones(3, 3, dtype=torch.bool).tril(), randn(3, 3, dtype=dtype)):
        output, weights = attend(q, k, v, mask=mask)
        found = server({"q": q, "k": k, "v": v, "mask": mask})
        assert same_bits(found["output"], output)
        assert same_bits(found["weights"], weights)


VALID = save({"x": torch.arange(6.0).view(1, 2, 3), "W_q.weight": torch.eye(3)})


def said(server: Server, folder: Path, data: bytes, name: str = "case.safetensors") -> str:
    file = folder / name
    file.write_bytes(data)
    with pytest.raises(Refused) as refused:
        server.files(file, folder / "result.safetensors")
    return str(refused.value)


def header(fields: object, data: bytes = b"") -> bytes:
    text = fields.encode() if isinstance(fields, str) else json.dumps(fields).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "first 8 bytes"),
        (b"\xff" * 8, "longer than the file"),
        (struct.pack("<Q", 2**63) + b"{}", "longer than the file"),
        (VALID[:-1], "within the file"),
        (VALID + b"\0", "left over"),
        (header({"x": tensor([2], 0, 8)}), "larger than the file"),
        (header({"x": tensor([2], 0, 4)}, bytes(8)), "within the file"),
        (header({"x": tensor([2], 8, 0)}, bytes(8)), "within the file"),
        (header({"x": tensor([2**32, 2**32], 0, 0)}), "larger than the file"),
        (header({"x": tensor([2**62, 4, 0], 0, 8)}, bytes(8)), "within the file"),
        (header({"x": tensor([2**63], 0, 0)}), "no number"),
        (header({"x": tensor([-1], 0, 0)}), "no text, whole number"),
        (header({"x": tensor([1], 0, 4), "y": tensor([1], 0, 4)}, bytes(4)), "shares"),
        (header({"x": tensor([2], 0, 8), "y": tensor([2], 4, 12)}, bytes(12)), "overlap"),
        (header({"x": tensor([1], 4, 8)}, bytes(8)), "gap"),
        (header({"x": tensor([1], 0, 1, "F8_E4M3")}, bytes(1)), "not read here"),
        (header('{"x":1}'), "not described"),
        (header('{"x":{},"x":{}}'), "twice"),
        (header("[" * 100_000), "too deeply"),
        (header('{"\\ud800":{}}'), "surrogate"),
        (header("[]"), "no dictionary"),
        (header("{}"), "no tensors"),
        (header('{"x'), "too early"),
    ],
)  # fmt: skip
def test_broken_safetensors(server: Server, tmp_path: Path, data: bytes, why: str) -> None:
    assert why in said(server, tmp_path, data)


@settings(max_examples=60)
@given(at=st.integers(0, len(VALID) - 1), byte=st.integers(0, 255), cut=st.integers(0, 40))
def test_any_damage_is_survived(
    server: Server, tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, cut: int
) -> None:
    """Whatever is damaged, the program refuses a case that lacks W_k, and runs on."""
    folder = tmp_path_factory.mktemp("damage")
    damaged = bytearray(VALID)
    damaged[at] = byte
    assert said(server, folder, bytes(damaged[: len(damaged) - cut]))


def test_names_with_escapes_are_read(server: Server, tmp_path: Path) -> None:
    """The sentence names the tensor as it is called, so it was read."""
    broken = said(server, tmp_path, header({"\u00e9\U0001f600\n": tensor([9], 0, 4)}, bytes(4)))
    assert "\u00e9\U0001f600\\u000a" in broken


def test_broken_and_foreign_pt(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "w.pt"
    torch.save({"x": torch.ones(3)}, file)
    whole = file.read_bytes()
    assert "LibTorch reads" in said(server, tmp_path, whole[: len(whole) // 2], "case.pt")
    assert "LibTorch reads" in said(server, tmp_path, b"not a zip", "case.pt")
    torch.save([torch.ones(3)], file)
    assert "no tensors by name" in said(server, tmp_path, file.read_bytes(), "case.pt")
    assert "must end in" in said(server, tmp_path, whole, "case.bin")


def test_a_pickle_that_calls_something_is_refused(server: Server, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "called",)

    torch.save({"x": Evil()}, tmp_path / "evil.pt")
    assert "LibTorch reads" in said(server, tmp_path, (tmp_path / "evil.pt").read_bytes(), "e.pt")
    assert not (tmp_path / "called").exists()


def test_run_says_what_is_wrong(program: Path, tmp_path: Path) -> None:
    w, x = tmp_path / "w.safetensors", tmp_path / "x.safetensors"
    save_file(weights_of(build_module(CONFIG)), w)

    def error(*arguments: object) -> str:
        done = command(program, "run", *map(str, arguments))
        assert done.returncode == 2
        return done.stderr.decode()

    assert "cannot be read" in error(w, x, tmp_path / "o.safetensors", "--heads", 3)
    bad = random_input(CONFIG)
    bad[1, 2, 3] = torch.nan
    save_file({"x": bad}, x)
    assert error(w, x, tmp_path / "o.safetensors", "--heads", 3) == (
        "error: x=nan: must be finite; the first of 1 that are not is at (1, 2, 3).\n"
    )
    save_file({"x": random_input(CONFIG)}, x)
    assert "must be a multiple of heads=4" in error(w, x, tmp_path / "o.pt", "--heads", 4)
    assert "--heads" in error(w, x, tmp_path / "o.pt")
    assert "cannot be written" in error(w, x, tmp_path / "no" / "o.pt", "--heads", 3)
    assert not list(tmp_path.glob("o.*"))
