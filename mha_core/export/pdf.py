"""PDF: one page a tensor and batch item, with TrueType text."""

from __future__ import annotations

from typing import IO

from matplotlib.backends.backend_pdf import PdfPages

from mha_core.export import figure
from mha_core.export.panels import alt_text
from mha_core.export.selection import Job


def write(file: IO[bytes], job: Job) -> None:
    """Writes the pages one by one, so that one is held at a time."""
    about = {"Title": "Multi-head attention maps", "Subject": alt_text(job), "CreationDate": None}
    with figure.drawing(), PdfPages(file, metadata=about) as pages:
        for part in figure.panels(job):
            pages.savefig(figure.draw(job, [part], embedded=True))
    job.report(1.0, "pdf")
