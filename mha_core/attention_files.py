"""Files of attention weights: NumPy's, safetensors and torch's, none of which may run code."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray

from mha_core.attention_given import LIMIT, GivenAttention, given_attention
from mha_core.attention_rows import check_rows
from mha_core.errors import ConfigError, human_bytes

# The longest header of an array that numpy.load itself accepts from a stranger.
_HEADER = 10_000


def read_attention(data: bytes, name: str, *, limit: int = LIMIT) -> GivenAttention:
    """The weights in an uploaded file; its name's ending says which kind it is.

    Args:
        data: the whole file. NPY and NPZ are read without pickle, PT with `weights_only=True`.
        name: ends in .npy, .npz, .safetensors, .pt or .pth.
        limit: the most bytes of the file, unpacked, and of its maps in float32.

    Returns:
        Layers of float32 (B, h, Tq, Tk); what the file may hold is told at `given_attention`.
        Rows that do not sum to 1 are for `check_rows` to tell.

    Raises:
        ConfigError: another kind of file, a damaged one, one over the limit, one without
            weights, or arrays that are no weights.
    """
    kind = PurePath(name).suffix.lower()
    if kind not in _READERS:
        raise ConfigError("file", name, "is of no kind that is read", works=", ".join(_READERS))
    _within(len(data), name, limit)
    try:
        found = _READERS[kind](data, name, limit)
    except ConfigError:
        raise
    except Exception as wrong:  # a damaged file makes its reader fail in every way there is
        raise ConfigError(
            "file",
            name,
            f"cannot be read as {kind}: {_reason(wrong)}",
            works="Save tensors or arrays alone: objects of other classes are never loaded",
        ) from None
    given = given_attention(found, source=name, limit=limit)
    check_rows(given)
    return given


def _reason(wrong: Exception) -> str:
    """The first sentence of what a library says, which may go on for a page."""
    text = " ".join(str(wrong).split()).partition(". ")[0].rstrip(".")
    return text[:160] or type(wrong).__name__


def _within(size: int, name: str, limit: int) -> None:
    if size > limit:
        raise ConfigError(
            "file",
            name,
            f"holds {human_bytes(size)}, over the limit of {human_bytes(limit)}",
            works="Keep fewer layers, batch items or positions",
        )


def _npy(data: bytes, name: str, limit: int) -> NDArray[Any]:
    """One array, whose header must not promise more than the file has."""
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(file, max_header_size=_HEADER)
    if dtype.hasobject:
        raise ConfigError(
            "file",
            name,
            "holds Python objects, which are never loaded",
            works="Save one array, or several in an .npz: np.savez(path, *outputs.attentions)",
        )
    promised = math.prod(shape) * dtype.itemsize
    _within(promised, name, limit)
    if promised != len(data) - file.tell():
        raise ConfigError(
            "file",
            name,
            f"must hold {promised} bytes of numbers for shape {shape}; it holds "
            f"{len(data) - file.tell()}",
        )
    array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _npz(data: bytes, name: str, limit: int) -> dict[str, NDArray[Any]]:
    with _unpacked(data, name, limit) as archive:
        return {
            member.removesuffix(".npy"): _npy(archive.read(member), f"{name}: {member}", limit)
            for member in archive.namelist()
        }


def _safetensors(data: bytes, _name: str, _limit: int) -> Any:
    return safetensors.torch.load(data)


def _pt(data: bytes, name: str, limit: int) -> Any:
    with _unpacked(data, name, limit):
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def _unpacked(data: bytes, name: str, limit: int) -> zipfile.ZipFile:
    """The archive, if what it unpacks to is within the limit: a small one may hold a lot."""
    if not data.startswith(b"PK"):
        raise ConfigError(
            "file",
            name,
            "is not the ZIP archive that files with this ending are",
            works="Files of torch before 1.6 must be loaded and saved again",
        )
    archive = zipfile.ZipFile(io.BytesIO(data))
    _within(sum(member.file_size for member in archive.infolist()), name, limit)
    return archive


_READERS: dict[str, Callable[[bytes, str, int], Any]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".safetensors": _safetensors,
    ".pt": _pt,
    ".pth": _pt,
}
