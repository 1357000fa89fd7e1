"""SVG: one tall figure of the selected maps, with its text as text."""

from __future__ import annotations

import html
import io
import warnings
from typing import IO

from mha_core.export import figure
from mha_core.export.panels import alt_text
from mha_core.export.selection import Job


def write(file: IO[bytes], job: Job) -> None:
    """Writes the figure with a role and a label for screen readers."""
    shown = list(figure.panels(job))
    page = io.BytesIO()
    with figure.drawing(), warnings.catch_warnings():
        # The reader's fonts draw the text, so a letter missing from this machine's is no fault.
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        drawn = figure.draw(job, shown, embedded=False)
        drawn.savefig(page, format="svg", metadata={"Date": None} | figure.description(job))
    label = html.escape(alt_text(job))
    file.write(
        page.getvalue().replace(b"<svg ", f'<svg role="img" aria-label="{label}" '.encode(), 1)
    )
    job.report(1.0, "svg")
