"""Weights of the user's own: read a file, find its attention layers, build one, write it back.

state = read_state(data, "model.safetensors")
found = find_layers(state)[0]
module = build(state, found, heads=8)
data = to_bytes(write(module, "torch"), "safetensors")
"""

from mha_core.layouts.build import build
from mha_core.layouts.files import FORMS, MAX_BYTES, SUFFIXES, read_state, to_bytes
from mha_core.layouts.find import find_layers, survey
from mha_core.layouts.records import Found, Question, Survey
from mha_core.layouts.registry import LAYOUTS, ORDERS, ORIENTATIONS, Layout
from mha_core.layouts.write import write

__all__ = [
    "FORMS",
    "LAYOUTS",
    "MAX_BYTES",
    "ORDERS",
    "ORIENTATIONS",
    "SUFFIXES",
    "Found",
    "Layout",
    "Question",
    "Survey",
    "build",
    "find_layers",
    "read_state",
    "survey",
    "to_bytes",
    "write",
]
