"""PNG: one tall figure of the selected maps."""

from __future__ import annotations

from typing import IO

from mha_core.export import figure
from mha_core.export.selection import Job


def write(file: IO[bytes], job: Job) -> None:
    """Writes the figure at `figure.DPI` dots an inch."""
    shown = list(figure.panels(job))
    with figure.drawing():
        drawn = figure.draw(job, shown, embedded=True)
        drawn.savefig(file, format="png", metadata={"Software": None} | figure.description(job))
    job.report(1.0, "png")
