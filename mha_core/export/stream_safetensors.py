"""safetensors as a stream: byte for byte what `safetensors.torch.save` writes.

The format is eight bytes for the length of a JSON header, the header, and the tensors one after
the other (github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import IO, Any

import torch

from mha_core.export import disk
from mha_core.export.blocks import Meter, Stream, check_names
from mha_core.export.selection import Progress

# In the order in which tensors stand: the widest first, so that each is aligned.
_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
}


def _ordered(streams: Sequence[Stream]) -> list[Stream]:
    places = list(_NAMES)
    return sorted(streams, key=lambda one: (places.index(one.dtype), one.key.encode()))


def _header(streams: Sequence[Stream], metadata: Mapping[str, Any] | None) -> bytes:
    """The length, and the header with names, dtypes, shapes and places."""
    check_names(streams)
    entries: dict[str, Any] = {}
    if metadata is not None:
        entries["__metadata__"] = {"mha": json.dumps(metadata, allow_nan=False)}
    place = 0
    for stream in _ordered(streams):
        end = place + stream.nbytes
        entries[stream.key] = {
            "dtype": _NAMES[stream.dtype],
            "shape": stream.shape,
            "data_offsets": (place, end),
        }
        place = end
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    return struct.pack("<Q", len(text)) + text


def safetensors_size(streams: Sequence[Stream], metadata: Mapping[str, Any] | None = None) -> int:
    """Bytes that `write_safetensors` writes."""
    return len(_header(streams, metadata)) + sum(stream.nbytes for stream in streams)


def write_safetensors(
    file: IO[bytes],
    streams: Sequence[Stream],
    metadata: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes every tensor in its own dtype, and `metadata` as JSON under the header's "mha".

    Args:
        file: binary, open for writing.
        streams: in any order; the format sorts them by dtype and name.
        metadata: what JSON can hold.
        progress: told the share of bytes written; what it raises ends the export.

    Raises:
        ConfigError: names that do not fit side by side.
        DiskError: the disk is full.
    """
    needed = safetensors_size(streams, metadata)
    meter = Meter(progress, needed)
    with disk.room(file, needed):
        header = _header(streams, metadata)
        file.write(header)
        meter.add(len(header), "header")
        for stream in _ordered(streams):
            for piece in stream.pieces():
                file.write(piece)
                meter.add(len(piece), stream.name)
        file.flush()
