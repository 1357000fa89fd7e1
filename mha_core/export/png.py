"""PNG: one tall figure of the selected maps."""

from __future__ import annotations

from typing import BinaryIO

from mha_core.export import figure
from mha_core.export.panels import check_count
from mha_core.export.selection import Job

MOST_MAPS = 128


def write(file: BinaryIO, job: Job) -> None:
    """Writes the figure at `figure.DPI` dots an inch.

    Raises:
        ConfigError: no map is selected, or more than MOST_MAPS.
    """
    check_count(job, "PNG", MOST_MAPS)
    shown = list(figure.panels(job))
    with figure.drawing():
        drawn = figure.draw(job, shown, embedded=True)
        drawn.savefig(file, format="png", metadata={"Software": None} | figure.description(job))
    job.report(1.0, "png")
