"""What a file is by its first bytes, so that a refusal can name it."""

from __future__ import annotations

import io
import zipfile

SAFETENSORS = "a safetensors file"
TORCH = "a PyTorch file"
PICKLE = "a pickle"  # PyTorch before 1.6 wrote several, one after the other
TORCHSCRIPT = "a TorchScript archive"

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x80", PICKLE),
    (b"GGUF", "a GGUF file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"version https://git-lfs", "a Git LFS pointer, not the file it points to"),
    (b"<", "a web page or XML, not the file behind its link"),
    (b"{", "JSON"),
)


def kind(data: bytes) -> str:
    """One of the names above, or a description of something else."""
    if data[:2] == b"PK":
        return _archive(data)
    # A safetensors file begins with the length of its JSON header, in 8 bytes.
    if len(data) > 8 and data[8:9] == b"{" and int.from_bytes(data[:8], "little") < 2**32:
        return SAFETENSORS
    for start, what in _STARTS:
        if data.startswith(start):
            return what
    return "something else"


def _archive(data: bytes) -> str:
    try:
        names = zipfile.ZipFile(io.BytesIO(data)).namelist()
    except Exception:  # a broken directory raises whatever its fields lead to
        return "a broken or incomplete archive"
    ends = {name.rpartition("/")[2] for name in names}
    if "constants.pkl" in ends:
        return TORCHSCRIPT
    if "data.pkl" in ends:
        return TORCH
    return "an NPZ file" if any(end.endswith(".npy") for end in ends) else "a ZIP archive"


def unpacked_bytes(data: bytes) -> int:
    """Bytes that an archive holds once unpacked; its entries may be compressed."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return sum(entry.file_size for entry in archive.infolist())
