"""A ZIP with every format and a manifest, the same bytes for the same export."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import replace
from typing import IO, Any

from mha_core.errors import ConfigError
from mha_core.export.metadata import describe
from mha_core.export.registry import Format
from mha_core.export.selection import Job, share

MANIFEST = "manifest.json"
# ZIP has no earlier date: a real one would make two equal exports differ.
_DATE = (1980, 1, 1, 0, 0, 0)
_PACKED = ("png", "npz", "safetensors")


def write(file: IO[bytes], job: Job, formats: tuple[Format, ...]) -> None:
    """Writes `formats` and the manifest: file, bytes, sha256 and what it is.

    A format that cannot hold this export (too many rows, too many maps) is left out, and the
    manifest says why.
    """
    files: list[dict[str, Any]] = []
    left_out: list[dict[str, str]] = []
    with zipfile.ZipFile(file, "w") as archive:
        for place, form in enumerate(formats):
            part = replace(job, progress=share(job.progress, place, len(formats)))
            name = form.file_name(job.config, job.selection, job.tokens)
            try:
                form.check(job.config, job.selection)
            except ConfigError as error:
                left_out.append({"file": name, "why": str(error)})
                continue
            with archive.open(_member(name), "w", force_zip64=True) as member:
                noted = _Noted(member)
                with io.BufferedWriter(noted) as buffered:
                    form.writer(buffered, part)
            files.append(
                {"file": name, "bytes": noted.size, "sha256": noted.sha256.hexdigest()}
                | {"what": form.description}
            )
        manifest = {"about": describe(job), "files": files, "left_out": left_out}
        text = json.dumps(manifest, indent=2, allow_nan=False)
        archive.writestr(_member(MANIFEST), f"{text}\n")
    job.report(1.0, "zip")


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, date_time=_DATE)
    packed = name.rsplit(".", 1)[-1] in _PACKED
    member.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    return member


class _Noted(io.RawIOBase):
    """Counts and hashes what passes through, so that no file is held whole."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.size = 0
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._file.write(view)
        self.sha256.update(view)
        self.size += len(view)
        return len(view)
