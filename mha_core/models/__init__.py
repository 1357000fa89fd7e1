"""Real models: one of their attention layers, on its real input, through our own forward."""

from mha_core.models.capture import capture, trace_layer, traced
from mha_core.models.layer import Captured, Retraced, retrace

__all__ = ["Captured", "Retraced", "capture", "retrace", "trace_layer", "traced"]
