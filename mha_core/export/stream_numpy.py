"""NPY and NPZ as streams: byte for byte what numpy.save and numpy.savez write."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from mha_core.errors import ConfigError
from mha_core.export import disk
from mha_core.export.blocks import Meter, Stream, check_names
from mha_core.export.selection import Progress

_NUMPY: dict[torch.dtype, np.dtype[Any]] = {
    torch.float16: np.dtype(np.float16),
    torch.float32: np.dtype(np.float32),
    torch.float64: np.dtype(np.float64),
}

# Of PKWARE's APPNOTE, sections 4.3 and 4.5: bytes of the records that make a ZIP file ...
_LOCAL, _LOCAL_ZIP64, _CENTRAL, _END, _END_ZIP64 = 30, 20, 46, 22, 56 + 20
# ... and from where zipfile writes the 64-bit ones.
_FAR, _MANY = 2**31 - 1, 2**16 - 1


def stored_dtype(dtype: torch.dtype) -> torch.dtype:
    """NumPy has no bfloat16: float32 holds each of its values exactly."""
    return torch.float32 if dtype is torch.bfloat16 else dtype


def _header(stream: Stream) -> bytes:
    """What stands in an .npy file before the numbers."""
    text = io.BytesIO()
    descr = np.lib.format.dtype_to_descr(_NUMPY[stored_dtype(stream.dtype)])
    fields = {"descr": descr, "fortran_order": False, "shape": stream.shape}
    np.lib.format.write_array_header_1_0(text, fields)
    return text.getvalue()


def _array_size(stream: Stream) -> int:
    return len(_header(stream)) + stream.count * stored_dtype(stream.dtype).itemsize


def _write_array(file: IO[bytes], stream: Stream, meter: Meter) -> None:
    header = _header(stream)
    file.write(header)
    meter.add(len(header), stream.name)
    for piece in stream.pieces(stored_dtype(stream.dtype)):
        file.write(piece)
        meter.add(len(piece), stream.name)


# --- NPY: one tensor, and nothing about it ---------------------------------------------------


def npy_size(streams: Sequence[Stream], metadata: Mapping[str, Any] | None = None) -> int:  # noqa: ARG001
    """Bytes that `write_npy` writes."""
    return _array_size(_only(streams))


def write_npy(
    file: IO[bytes],
    streams: Sequence[Stream],
    metadata: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes the one tensor, as `numpy.save` does; the format has no place for metadata.

    Raises:
        ConfigError: more than one tensor.
        DiskError: the disk is full.
    """
    needed = npy_size(streams, metadata)
    with disk.room(file, needed):
        _write_array(file, _only(streams), Meter(progress, needed))
        file.flush()


def _only(streams: Sequence[Stream]) -> Stream:
    check_names(streams)
    if len(streams) != 1:
        raise ConfigError(
            "tensors", tuple(stream.name for stream in streams), "must be one in an npy file",
            works="npz and safetensors hold any number",
        )  # fmt: skip
    return streams[0]


# --- NPZ: a ZIP of NPY files -----------------------------------------------------------------


def npz_size(streams: Sequence[Stream], metadata: Mapping[str, Any] | None = None) -> int:
    """Bytes that `write_npz` writes."""
    check_names(streams)
    members = [(stream.key, _array_size(stream)) for stream in streams]
    members += [(key, len(data)) for key, data in _extras(metadata)]
    offset = directory = 0
    for key, size in members:
        name = len(f"{key}.npy".encode())
        far = 2 * (size > _FAR) + (offset > _FAR)  # numbers of 64 bits
        directory += _CENTRAL + name + (4 + 8 * far if far else 0)
        offset += _LOCAL + name + _LOCAL_ZIP64 + size
    big = len(members) > _MANY or offset > _FAR or directory > _FAR
    return offset + directory + (_END_ZIP64 if big else 0) + _END


def write_npz(
    file: IO[bytes],
    streams: Sequence[Stream],
    metadata: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes one array a tensor, and `metadata` (JSON, 0-d text), as `numpy.savez` does.

    Args:
        file: binary, open for writing, seekable.
        streams: in the order in which they are to stand; bfloat16 is stored as float32.
        metadata: what JSON can hold; its "tokens", if any, are an array of their own as well.
        progress: told the share of bytes written; what it raises ends the export.

    Raises:
        ConfigError: names that do not fit side by side.
        DiskError: the disk is full.
    """
    needed = npz_size(streams, metadata)
    meter = Meter(progress, needed)
    with disk.room(file, needed):
        with zipfile.ZipFile(file, "w") as archive:
            for stream in streams:
                with archive.open(f"{stream.key}.npy", "w", force_zip64=True) as member:
                    _write_array(member, stream, meter)
            for key, data in _extras(metadata):
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    member.write(data)
        file.flush()
    meter.whole("npz")


def _extras(metadata: Mapping[str, Any] | None) -> Iterator[tuple[str, bytes]]:
    """Name and NPY file of what is stored beside the tensors."""
    if metadata is None:
        return
    tokens = metadata.get("tokens")
    if tokens is not None:
        yield "tokens", _array(np.array(tokens, dtype=np.str_))
    yield "metadata", _array(np.array(json.dumps(metadata, allow_nan=False)))


def _array(values: NDArray[Any]) -> bytes:
    text = io.BytesIO()
    np.lib.format.write_array(text, values, allow_pickle=False)
    return text.getvalue()
