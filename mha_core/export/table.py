"""The shape table of every step that ran, as the other views have it."""

from __future__ import annotations

from typing import IO

from mha_core import tables
from mha_core.export.selection import Job


def write(file: IO[bytes], job: Job, form: str) -> None:
    """Writes `tables.render(..., form)` of the detailed table, UTF-8, with a last line feed."""
    text = tables.render(job.trace.table(detail=True), form)
    file.write(f"{text}\n".encode())
    job.report(1.0, f"table as {form}")
