"""Files from strangers: nothing in them is run, and nothing but a ConfigError comes of them."""

from __future__ import annotations

import contextlib
import io
import pickle
import zipfile

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_core import ConfigError
from mha_core.attention_files import read_attention
from tests.core.attention_support import SHAPE, maps, npy, npz, pt


class Runs:
    """Would run code when unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemExit('ran')",)


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (pt(Runs()), "a.pt", "cannot be read as .pt"),
        (pickle.dumps(Runs()), "a.pt", "not the ZIP archive"),
        (pt(maps(*SHAPE), _use_new_zipfile_serialization=False), "a.pt", "before 1.6"),
        (npy(np.array([Runs()], dtype=object)), "a.npy", "Python objects, which are never loaded"),
        (npz(np.array([Runs()], dtype=object)), "a.npz", "arr_0.npy.*Python objects"),
    ],
)
def test_nothing_in_a_file_is_run(data, name, message):
    with pytest.raises(ConfigError, match=message):
        read_attention(data, name)


def header(shape):
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def bomb():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", bytes(2**20))
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (bytes(1025 * 1024), "a.npy", r"holds 1\.0 MiB, over the limit of 1\.0 MiB"),
        (header((1, 1, 10**6, 10**6)), "a.npy", r"holds 3\.6 TiB, over the limit"),
        (header((1, 1, 9, 9)), "a.npy", r"must hold 324 bytes of numbers for shape.*holds 0"),
        # A view of one number costs a file nothing, and its copy everything.
        (pt(torch.ones(1).expand(1, 1, 10**6, 10**6)), "a.pt", r"take 3\.6 TiB in float32, over"),
        (pt(maps(1, 1, 600, 600, dtype=torch.float16)), "a.pt", r"take 1\.4 MiB in float32, over"),
    ],
)
def test_too_much_is_refused_with_the_figure_before_it_is_allocated(data, name, message):
    with pytest.raises(ConfigError, match=message):
        read_attention(data, name, limit=2**20)


def test_what_an_archive_unpacks_to_counts():
    with pytest.raises(ConfigError, match=r"holds 1\.0 MiB, over the limit of 64\.0 KiB"):
        read_attention(bomb(), "a.npz", limit=2**16)
    with pytest.raises(ConfigError, match=r"holds 1\.0 MiB, over the limit of 64\.0 KiB"):
        read_attention(bomb(), "a.pt", limit=2**16)


@pytest.mark.parametrize("name", ["a.txt", "a", "", "a.pt.exe", "\x00"])
def test_other_kinds_of_file_are_refused_with_those_that_are_read(name):
    with pytest.raises(ConfigError, match=r"no kind that is read.*npz, \.npy, \.safetensors, \.pt"):
        read_attention(b"", name)


SMALL = maps(1, 2, 3, 3)
WHOLE = {
    ".npy": npy(SMALL.numpy()),
    ".npz": npz(SMALL.numpy(), SMALL.numpy()),
    ".safetensors": safetensors.torch.save({"a": SMALL}),
    ".pt": pt((SMALL, SMALL)),
}


@given(st.sampled_from(sorted(WHOLE)), st.binary(max_size=300), st.booleans())
@settings(max_examples=400)
def test_any_bytes_are_weights_or_a_config_error(kind, data, opened):
    start = {".npy": b"\x93NUMPY\x01\x00", ".npz": b"PK\x03\x04", ".pt": b"PK\x03\x04"}
    with contextlib.suppress(ConfigError):
        read_attention(start.get(kind, b"") * opened + data, f"a{kind}")


@given(st.sampled_from(sorted(WHOLE)), st.data())
@settings(max_examples=400)
def test_a_damaged_file_is_weights_or_a_config_error(kind, data):
    """Cut, or with a few bytes changed: what passes still has values that are weights."""
    whole = bytearray(WHOLE[kind])
    places = st.integers(0, len(whole) - 1)
    for place in data.draw(st.lists(places, max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(whole)), places))
    try:
        found = read_attention(bytes(whole[:cut]), f"a{kind}")
    except ConfigError:
        return
    for layer in found.layers:
        assert layer.dim() == 4
        assert layer.isfinite().all()
        assert (layer >= 0).all()


def test_a_header_of_brackets_is_a_config_error():
    for text in (b"(" * 9000, b"[" * 65000, b"{'descr': '" + b"f" * 500 + b"'}"):
        data = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        with pytest.raises(ConfigError, match=r"cannot be read as \.npy"):
            read_attention(data, "a.npy")
