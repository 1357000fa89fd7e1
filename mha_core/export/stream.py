"""Exact tensors of any length as files: written block after block, never held whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from mha_core.config import MHAConfig
from mha_core.errors import ConfigError
from mha_core.export.blocks import Stream, map_stream
from mha_core.export.metadata import MAP_AXES, document
from mha_core.export.selection import MAPS, Progress
from mha_core.export.stream_numpy import npy_size, npz_size, stored_dtype, write_npy, write_npz
from mha_core.export.stream_safetensors import safetensors_size, write_safetensors

__all__ = [
    "FORMS", "Form", "Stream", "about", "form_named", "map_stream", "size", "write", "write_npy",
    "write_npz", "write_safetensors",
]  # fmt: skip

_Size = Callable[[Sequence[Stream], Mapping[str, Any] | None], int]
_Write = Callable[
    [IO[bytes], Sequence[Stream], Mapping[str, Any] | None, Progress | None], None
]  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One kind of file that can be written as a stream.

    Attributes:
        name: key in `FORMS`, and the file's suffix.
        mime, description: of the file.
        size: bytes of the file, exactly, before anything is computed.
        write: writes it.
    """

    name: str
    mime: str
    description: str
    size: _Size
    write: _Write


FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Form("npz", "application/x-npz", "Exact tensors for NumPy", npz_size, write_npz),
        Form(
            "npy", "application/octet-stream",
            "One exact tensor for NumPy, which can be mapped into memory", npy_size, write_npy,
        ),
        Form(
            "safetensors", "application/octet-stream", "Exact tensors in their dtype",
            safetensors_size, write_safetensors,
        ),
    )
}  # fmt: skip


def form_named(name: str) -> Form:
    """The form of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in FORMS:
        works = f"These work: {', '.join(FORMS)}"
        raise ConfigError("format", name, "cannot be written as a stream", works=works)
    return FORMS[name]


def size(form: str, streams: Sequence[Stream], metadata: Mapping[str, Any] | None = None) -> int:
    """Bytes of the file, exactly, before anything is computed.

    Raises:
        ConfigError: no such form, or tensors that it does not hold.
    """
    return form_named(form).size(streams, metadata)


def write(
    form: str,
    file: IO[bytes],
    streams: Sequence[Stream],
    metadata: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes the file; no more than a block of one tensor is held at a time.

    Args:
        form: "npz", "npy" or "safetensors".
        file: binary, open for writing, seekable.
        streams: the tensors.
        metadata: what the file is to say about itself, see `about`.
        progress: told the share of bytes written, 0 to 1, and what is being written; what it
            raises ends the export.

    Raises:
        ConfigError: no such form, or tensors that it does not hold.
        DiskError: a ConfigError, where the disk is full.
    """
    form_named(form).write(file, streams, metadata, progress)


def about(
    form: str,
    streams: Sequence[Stream],
    config: MHAConfig,
    *,
    heads: Sequence[int],
    items: Sequence[int],
    tokens: Sequence[str] | None = None,
) -> dict[str, Any]:
    """What a file says about itself, in the words of `metadata.describe`.

    Args:
        form: of the file: NumPy's store bfloat16 as float32, and this says so.
        streams: maps, (items, heads, time, time) each.
        config: of the run.
        heads, items: indices of what is in the tensors.
        tokens: one a position.
    """
    tensors = {stream.key: _tensor(form, stream) for stream in streams}
    return document(config, heads=heads, items=items, tokens=tokens, tensors=tensors)


def _tensor(form: str, stream: Stream) -> dict[str, Any]:
    stored = stream.dtype if form == "safetensors" else stored_dtype(stream.dtype)
    return {
        "step": MAPS.get(stream.name.replace("_", " ")),
        "axes": list(MAP_AXES[-len(stream.shape) :]),
        "dtype": str(stream.dtype).removeprefix("torch."),
        "stored": str(stored).removeprefix("torch."),
    }
