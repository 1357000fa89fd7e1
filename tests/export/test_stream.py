"""Tensors written as a stream: the bytes of numpy and of safetensors, and their size beforehand."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load, save
from torch import Tensor

from mha_core import MHAConfig
from mha_core.errors import ConfigError
from mha_core.export import FORMATS, Selection
from mha_core.export import blocks as blocks_module
from mha_core.export.stream import FORMS, Stream, about, map_stream, size, write
from tests.export.stream_support import DTYPES, bits, cut, stream, tensor
from tests.export.support import ODD, traced

ABOUT = {"tokens": ["the", "<b>", "é", ""], "config": {"time": 4}}

shapes = st.lists(st.integers(0, 6), min_size=0, max_size=4).map(tuple)
tensors = st.builds(tensor, shapes, st.sampled_from(DTYPES), st.integers(0, 99))
cuts = st.lists(st.integers(1, 50), min_size=1, max_size=3)
metadata = st.sampled_from([None, {}, ABOUT, {"tokens": None, "note": "ö" * 300}])


def written(form: str, streams: list[Stream], about: Any = None) -> bytes:
    file = io.BytesIO()
    write(form, file, streams, about)
    return file.getvalue()


def as_numpy(values: Tensor) -> np.ndarray[Any, Any]:
    """Every number; NumPy has no bfloat16."""
    return (values.float() if values.dtype is torch.bfloat16 else values).numpy()


@settings(deadline=None, max_examples=60)
@given(st.lists(tensors, min_size=1, max_size=4), cuts, metadata)
def test_npz_is_what_numpy_writes(all_values: list[Tensor], sizes: list[int], about: Any) -> None:
    streams = [stream(f"t{i}", values, sizes) for i, values in enumerate(all_values)]
    arrays = {f"t{i}": as_numpy(values) for i, values in enumerate(all_values)}
    if about is not None:
        if about.get("tokens") is not None:
            arrays["tokens"] = np.array(about["tokens"], dtype=np.str_)
        arrays["metadata"] = np.array(json.dumps(about))
    oracle = io.BytesIO()
    np.savez(oracle, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    data = written("npz", streams, about)
    assert data == oracle.getvalue()
    assert size("npz", streams, about) == len(data)


@settings(deadline=None, max_examples=60)
@given(tensors, cuts)
def test_npy_is_what_numpy_writes(values: Tensor, sizes: list[int]) -> None:
    oracle = io.BytesIO()
    np.save(oracle, as_numpy(values), allow_pickle=False)
    data = written("npy", [stream("weights", values, sizes)])
    assert data == oracle.getvalue()
    assert size("npy", [stream("weights", values)]) == len(data)


@settings(deadline=None, max_examples=60)
@given(st.lists(tensors, min_size=1, max_size=5), cuts, metadata)
def test_safetensors_is_what_its_library_writes(
    all_values: list[Tensor], sizes: list[int], about: Any
) -> None:
    named = {f"t{(i * 7) % 5}": values for i, values in enumerate(all_values)}
    streams = [stream(name, values, sizes) for name, values in named.items()]
    data = written("safetensors", streams, about)
    assert data == save(named, None if about is None else {"mha": json.dumps(about)})
    assert size("safetensors", streams, about) == len(data)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_it_reads_back_bit_for_bit(form: str, dtype: torch.dtype, tmp_path: Path) -> None:
    values = tensor((2, 3, 5, 5), dtype)
    path = tmp_path / f"a.{form}"
    with path.open("wb") as file:
        write(form, file, [stream("weights", values, (11,))])
    if form == "safetensors":
        back = load(path.read_bytes())["weights"]
    else:
        read = np.load(path, allow_pickle=False)
        back = torch.from_numpy(read["weights"] if form == "npz" else read)
        if dtype is torch.bfloat16:
            assert back.dtype is torch.float32
            assert torch.equal(back.nan_to_num(3.0), values.float().nan_to_num(3.0))
            return
    assert back.dtype is dtype
    assert back.shape == values.shape
    assert torch.equal(bits(back), bits(values))


def test_npy_can_be_mapped_into_memory(tmp_path: Path) -> None:
    values = tensor((3, 4, 4), torch.float32)
    with (tmp_path / "a.npy").open("wb") as file:
        write("npy", file, [stream("weights", values)])
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    assert mapped[1].tobytes() == values[1].numpy().tobytes()


@pytest.mark.parametrize("form", ["npz", "safetensors"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_is_the_file_of_the_whole_tensors(form: str, dtype: str) -> None:
    """Of a run that keeps every tensor, both ways of writing give the same bytes."""
    trace = traced(dtype=dtype)
    selection = Selection(("scores", "weights"), heads=(3, 1), items=(1,))
    whole = FORMATS[form].build(trace, selection, tokens=ODD)

    def rows(step: str, item: int, head: int) -> list[Tensor]:
        return list(trace.tensor(step)[item, head].split(2))

    streams = [
        map_stream(
            name, lambda item, head, step=step: rows(step, item, head), items=(1,), heads=(3, 1),
            time=7, dtype=trace.weights.dtype,
        )
        for name, step in (("scores", "scores"), ("weights", "softmax"))
    ]  # fmt: skip
    said = about(form, streams, trace.config, heads=(3, 1), items=(1,), tokens=ODD)
    assert written(form, streams, said) == whole


def test_the_metadata_is_in_the_header(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    streams = [stream("after dropout", tensor((2, 3), torch.float32))]
    said = about("safetensors", streams, MHAConfig(seed=5), heads=(0, 2), items=(1,))
    with path.open("wb") as file:
        write("safetensors", file, streams, said)
    with safe_open(path, "pt") as file:
        assert file.keys() == ["after_dropout"]
        read = json.loads(file.metadata()["mha"])
    assert MHAConfig.from_dict(read["config"]) == MHAConfig(seed=5)
    assert read["heads"] == [0, 2]
    assert read["tensors"]["after_dropout"]["step"] == "dropout"
    assert read["tensors"]["after_dropout"]["axes"] == ["time (query)", "time (key)"]


# --- what is held, and told -------------------------------------------------------------------


def test_one_buffer_may_serve_for_every_block() -> None:
    values = torch.arange(12.0).reshape(4, 3)
    buffer = torch.empty(3)

    def blocks() -> Any:
        for row in values:
            yield buffer.copy_(row)

    one = Stream("weights", (4, 3), torch.float32, blocks)
    assert torch.equal(load(written("safetensors", [one]))["weights"], values)


@pytest.mark.parametrize("form", FORMS)
def test_a_large_block_is_written_in_pieces(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "PIECE", 24)
    values = tensor((5, 31), torch.float32)
    told: list[float] = []
    file = io.BytesIO()
    write(
        form, file, [stream("weights", values, (10**6,))], None, lambda done, _: told.append(done)
    )
    assert len(told) > values.numel() * 4 / 24
    assert all(before <= after for before, after in pairwise(told))
    assert told[-1] == 1.0
    assert len(file.getvalue()) == size(form, [stream("weights", values)])


@pytest.mark.parametrize("form", FORMS)
def test_progress_says_the_bytes_and_ends_the_export(form: str) -> None:
    closed: list[bool] = []
    made: list[int] = []

    def blocks() -> Any:
        try:
            for i in range(8):
                made.append(i)
                yield torch.full((2**18,), float(i))
        finally:
            closed.append(True)

    def stop(done: float, what: str) -> None:
        if done > 0.4:
            assert what.startswith("weights: ")
            assert what.endswith(f"MiB of {8.0} MiB")
            raise KeyboardInterrupt

    one = Stream("weights", (8, 2**18), torch.float32, blocks)
    with pytest.raises(KeyboardInterrupt):
        write(form, io.BytesIO(), [one], None, stop)
    assert made == [0, 1, 2, 3]
    assert closed == [True]


def test_nothing_is_computed_for_the_size() -> None:
    def blocks() -> Any:
        raise AssertionError("asked for a block")

    for form in FORMS:
        one = Stream("weights", (8, 32_768, 32_768), torch.float32, blocks)
        assert size(form, [one]) > 8 * 32_768**2 * 4


# --- what does not fit ------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 5, 7, 12])
def test_blocks_that_are_not_the_tensors_are_refused(form: str, count: int) -> None:
    one = Stream("weights", (2, 3), torch.float32, lambda: cut(torch.zeros(count), (5,)))
    with pytest.raises(ValueError, match=r"weights: blocks of torch.float32 with \d+ numbers"):
        write(form, io.BytesIO(), [one])


def test_blocks_of_another_dtype_are_refused() -> None:
    one = Stream("weights", (2, 3), torch.float32, lambda: cut(torch.zeros(6).double(), (6,)))
    with pytest.raises(ValueError, match=r"blocks of torch\.float64"):
        write("npz", io.BytesIO(), [one])


@pytest.mark.parametrize(
    ("names", "form"),
    [
        ((), "npz"), (("a", "a"), "npz"), (("a b", "a_b"), "safetensors"), (("metadata",), "npz"),
        (("../a",), "npz"), (("a", "b"), "npy"), (("__metadata__",), "safetensors"),
        (("a\0b",), "npz"), (("",), "npy"),
    ],
)  # fmt: skip
def test_names_that_no_file_holds_are_refused(names: tuple[str, ...], form: str) -> None:
    streams = [stream(name, torch.zeros(1)) for name in names]
    file = io.BytesIO()
    with pytest.raises(ConfigError, match="tensors="):
        size(form, streams)
    with pytest.raises(ConfigError, match="tensors="):
        write(form, file, streams)
    assert file.getvalue() == b""


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shape=\(2, -1\)"):
        Stream("a", (2, -1), torch.float32, lambda: iter(()))
    with pytest.raises(ConfigError, match=r"dtype='torch.int64'"):
        Stream("a", (2,), torch.int64, lambda: iter(()))
    with pytest.raises(ConfigError, match=r"format='csv'.*npz, npy, safetensors"):
        size("csv", [stream("a", torch.zeros(1))])
