"""Which atlas a choice has."""

from __future__ import annotations

from pages.shared import long_runs, runs
from pages.shared.atlas import Atlas
from pages.shared.atlas_long import Long
from pages.shared.atlas_whole import Whole
from pages.shared.choice import Choice, Given
from pages.shared.heads import of_given, of_trace

SIDE = 96  # cells a side of what is sent of a map
_SMALL = 48  # where there are many heads


def atlas_of(choice: Choice | Given) -> Atlas:
    """Whole maps where they are held anyway; of longer runs, block by block."""
    if isinstance(choice, Given):
        return Whole(of_given(choice), SIDE, None)
    if long_runs.is_long(choice):
        return Long(choice, SIDE)
    trace = runs.trace(choice)
    return Whole(of_trace(choice, trace), SIDE, trace)
