"""Our forward on a layer of a real model, kept for a while."""

from __future__ import annotations

import html

from mha_core import Trace
from mha_core.models.layer import TOLERANCE, Captured, Retraced, retrace
from mha_core.proofs import Proof
from pages.shared import layers, own_picture
from pages.shared.choice import Origin, Picture
from pages.shared.store import store


def captured(origin: Origin | Picture) -> Captured:
    """What the layer was given, and what the model made of it."""
    if isinstance(origin, Picture):
        return own_picture.captured(origin)
    return layers.captured(origin)


def retraced(origin: Origin | Picture) -> Retraced:
    """Our forward on the layer, not yet timed, with the differences from the model's own."""
    found: Retraced = store("traces").get(
        origin, lambda: retrace(captured(origin), clock=False), lambda one: trace_bytes(one.trace)
    )
    return found


def trace_bytes(trace: Trace) -> int:
    """Bytes of what a trace holds: its tensors and its module's weights."""
    return trace.kept_bytes + sum(parameter.nbytes for parameter in trace.module.parameters())


def same(origin: Origin | Picture) -> Proof:
    """Our forward gives what the model itself gave."""
    one = retraced(origin)
    limit = TOLERANCE[one.trace.x.dtype]
    return Proof(
        f"equals {html.escape(origin.name)}",
        one.weights_difference <= limit,  # `retrace` has refused what is not
        f"weights {one.weights_difference:.1e}, output {one.output_difference:.1e}",
        f"largest difference from the model's own layer {origin.layer}, over all batch items, "
        "heads, queries and keys",
    )
