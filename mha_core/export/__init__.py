"""Exports: one file a format, and a bundle of all. `FORMATS["npz"].build(trace)` is the bytes."""

from mha_core.export.metadata import file_name, stem
from mha_core.export.registry import FORMATS, Format, format_named
from mha_core.export.selection import MAPS, TENSORS, Progress, Selection

__all__ = [
    "FORMATS",
    "MAPS",
    "TENSORS",
    "Format",
    "Progress",
    "Selection",
    "file_name",
    "format_named",
    "stem",
]
