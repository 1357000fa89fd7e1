"""Files are read without running them; whatever the bytes, only a ConfigError leaves."""

from __future__ import annotations

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from mha_core import ConfigError
from mha_core.layouts import FORMS, build, files, read_state, survey, to_bytes
from tests.layouts.support import equal, layer

STATE = layer("torch", d_model=6, heads=2)


def saved(thing, **options) -> bytes:
    file = io.BytesIO()
    torch.save(thing, file, **options)
    return file.getvalue()


def old(thing) -> bytes:
    """As PyTorch before 1.6 wrote it."""
    return saved(thing, _use_new_zipfile_serialization=False)


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return file.getvalue()


class Code:
    """Runs a command when an unguarded reader meets it."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


TORCHSCRIPT = zipped({"m/constants.pkl": b"", "m/data.pkl": b""})
VALID = {
    "safetensors": to_bytes(STATE, "safetensors"),
    "pt": to_bytes(STATE, "pt"),
    "pth": old(STATE),
}


@pytest.mark.parametrize("suffix", VALID)
def test_every_kind_of_file_is_read_bit_for_bit(suffix):
    read = read_state(VALID[suffix], f"my.weights.{suffix.upper()}")

    assert read.keys() == STATE.keys()
    assert all(equal(read[name], STATE[name]) for name in STATE)


@pytest.mark.parametrize("form", FORMS)
def test_tensors_that_share_memory_or_have_gaps_are_written(form):
    whole = torch.arange(12.0).view(3, 4)
    state = {"a": whole, "b": whole, "c": whole.T, "d": whole[:, 1:3]}

    read = read_state(to_bytes(state, form), f"x.{form}")

    assert all(equal(read[name], state[name]) for name in state)


def test_what_is_no_tensor_is_left_out():
    things = {"epoch": 3, "names": ["a"], 7: torch.ones(2), "nothing": None, "w": torch.ones(3)}

    assert read_state(saved(things), "x.pt").keys() == {"w"}


def test_parameters_come_without_their_gradients():
    read = read_state(saved(dict(nn.Linear(2, 3).named_parameters())), "x.pt")

    assert not any(tensor.requires_grad for tensor in read.values())


@pytest.mark.parametrize("write", [saved, old])
def test_code_in_a_pickle_is_refused_and_never_run(write, tmp_path):
    marker = tmp_path / "ran"

    with pytest.raises(ConfigError, match=r"Python objects.*mkdir.*none is run.*state_dict"):
        read_state(write({"w": torch.ones(2), "x": Code(marker)}), "x.pt")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("data", "name", "says"),
    [
        (b"", "x.pt", "file='x.pt': is empty"),
        (b"", "x.safetensors", "is empty"),
        (VALID["pt"], "x.bin", r"must end in .*\.pth; the bytes are a PyTorch file.*named \.pt"),
        (VALID["safetensors"], "weights", "must end in .*the bytes are a safetensors file"),
        (b"", "x.onnx", "must end in"),
        (VALID["safetensors"], "x.pt", r"found a safetensors file.*named \.safetensors"),
        (VALID["pt"], "x.safetensors", r"found a PyTorch file.*named \.pt"),
        (VALID["safetensors"][:-1], "x.safetensors", "broken, incomplete"),
        (VALID["safetensors"][:60], "x.safetensors", "broken, incomplete"),
        (VALID["pt"][:-9], "x.pt", "found a broken or incomplete archive"),
        (VALID["pth"][:-9], "x.pth", "a pickle that is broken or incomplete"),
        (b"\x80\x02", "x.pt", "a pickle that is broken or incomplete"),
        (saved(nn.Linear(2, 3)), "x.pt", r"Python objects .*Linear\).*model\.state_dict"),
        (saved({"w": np.ones(2)}), "x.pt", "Python objects .*numpy"),
        (
            zipped({"m/constants.pkl": b"", "m/data.pkl": b""}),
            "x.pt",
            r"TorchScript archive.*C\+\+.*state_dict",
        ),
        (zipped({"x.npy": b""}), "x.pt", "found an NPZ file"),
        (zipped({"x.txt": b""}), "x.pt", "found a ZIP archive"),
        (b"version https://git-lfs.github.com/spec/v1", "x.safetensors", "found a Git LFS pointer"),
        (b"<!DOCTYPE html>", "x.pt", "found a web page"),
        (b"GGUF\x03", "x.pt", "found a GGUF file"),
        (b"\x89HDF\r\n", "x.pt", "found an HDF5 file"),
        (b"hello", "x.pt", "found something else"),
        (saved([torch.ones(2)]), "x.pt", "holds a list, not tensors by name"),
        (saved(torch.ones(2)), "x.pt", "holds a Tensor, not tensors by name"),
        (saved({}), "x.pt", "no tensors by name; found an empty dictionary"),
        (to_bytes({}, "safetensors"), "x.safetensors", "holds no tensors"),
        (saved({"model": {"epoch": 3}}), "x.pt", r"no tensors by name; found epoch \(int\)"),
        (saved({7: 1}), "x.pt", r"no tensors by name; found int \(int\)"),
        (saved({"w": torch.eye(2).to_sparse()}), "x.pt", "w='sparse_coo': must be a dense"),
        (saved({"w": torch.empty(2, device="meta")}), "x.pt", "w='on device meta, without"),
        (
            saved({"w": torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])}),
            "x.pt",
            "w='nested': must be a dense",
        ),
        (saved({"w": torch.ones(1).expand(10**6, 10**6)}), "x.pt", "w=.*is 3.6 TiB, over"),
        (saved({"\ud800": torch.ones(1)}), "x.pt", "printable"),
    ],
)
def test_what_is_no_file_of_tensors_says_what_it_is(data, name, says):
    with pytest.raises(ConfigError, match=says):
        read_state(data, name)


def test_a_dictionary_that_holds_itself_is_refused():
    loop: dict[str, object] = {}
    loop["model"] = loop

    with pytest.raises(ConfigError, match="no tensors by name"):
        read_state(saved(loop), "x.pt")


def test_a_file_over_the_limit_is_refused_with_both_sizes(monkeypatch):
    monkeypatch.setattr(files, "MAX_BYTES", 400)

    with pytest.raises(ConfigError, match=r"has 1\.. KiB, over the limit of 400 B"):
        read_state(VALID["safetensors"], "x.safetensors")


def test_an_archive_that_unpacks_beyond_the_limit_is_refused(monkeypatch):
    packed = zipped(unzipped(saved({"w": torch.zeros(10**5)})), zipfile.ZIP_DEFLATED)
    assert read_state(packed, "x.pt")["w"].shape == (10**5,)
    monkeypatch.setattr(files, "MAX_BYTES", 10**5)

    with pytest.raises(ConfigError, match=r"unpacks to 39.\.. KiB, over"):
        read_state(packed, "x.pt")


def all_the_way(data: bytes, name: str) -> None:
    """Read, searched and built; a ConfigError is an answer, anything else is not."""
    try:
        state = read_state(data, name)
        for found in survey(state).found:
            answers = {question.field: question.choices[0] for question in found.asks}
            build(state, found, **answers)
    except ConfigError:
        return


NAMES = st.sampled_from(["x.pt", "x.pth", "x.safetensors", "x.npz", "", ".pt"])


@settings(max_examples=300)
@given(data=st.binary(max_size=200), name=NAMES)
@example(data=pickle.dumps({"a": 1}), name="x.pt")
@example(data=b"\xff" * 8 + b"{", name="x.safetensors")
@example(data=b"\x80\x02}q\x00.", name="x.pt")
def test_no_bytes_raise_anything_else(data, name):
    all_the_way(data, name)


@settings(max_examples=300)
@given(
    start=st.sampled_from([b"PK\x03\x04", b"\x80\x02", b"\x20\0\0\0\0\0\0\0{", old({})[:24]]),
    data=st.binary(max_size=100),
    name=NAMES,
)
def test_no_bytes_behind_a_known_start_raise_anything_else(start, data, name):
    all_the_way(start + data, name)


@pytest.mark.parametrize("suffix", VALID)
@settings(max_examples=200)
@given(
    changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=5),
    end=st.integers(0, 10**6),
    cut=st.booleans(),
)
def test_no_damaged_file_raises_anything_else(suffix, changes, end, cut):
    data = bytearray(VALID[suffix])
    for place, byte in changes:
        data[place % len(data)] = byte
    if cut:
        del data[end % len(data) :]
    all_the_way(bytes(data), f"x.{suffix}")


@settings(max_examples=300)
@given(changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=3))
def test_no_damaged_pickle_in_a_whole_archive_raises_anything_else(changes):
    """With its checksums right, the damage reaches the unpickler and the tensors it rebuilds."""
    entries = unzipped(VALID["pt"])
    name = next(name for name in entries if name.endswith("data.pkl"))
    pickled = bytearray(entries[name])
    for place, byte in changes:
        pickled[place % len(pickled)] = byte
    all_the_way(zipped(entries | {name: bytes(pickled)}), "x.pt")
