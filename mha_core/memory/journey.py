"""One element through the forward: its index and its place in memory at every step."""

from __future__ import annotations

from dataclasses import dataclass

from mha_core.errors import ConfigError
from mha_core.memory.places import Index, Place, index_at, place_at
from mha_core.records import Step
from mha_core.steps import BY_HEAD, BY_TIME, MAP
from mha_core.trace import Trace
from mha_core.window import Element, check_element


@dataclass(frozen=True)
class Stop:
    """The element at one step.

    Attributes:
        step: the recorded step.
        place: where the element is.
        unmoved: it lies at the very address it had in the step that this one is a view of.
        value: what stands there.
    """

    step: Step
    place: Place
    unmoved: bool
    value: float


def tensor_name(step: str) -> str:
    """What the tensor of a step is called in code: x, q, scores, weights, out."""
    if step[-2:] in ("_q", "_k", "_v"):
        return step[-1]
    if step in ("scores", "scale", "mask"):
        return "scores"
    return {"input": "x", "softmax": "weights", "dropout": "dropped"}.get(step, "out")


def journey(trace: Trace, element: Element, key: int = 0) -> list[Stop]:
    """The element (b, t, c) at every step, in the order they ran.

    Column c of position t is column c % d_k of head c // d_k. In a map (batch, h, time, time) it
    is that head's weight of query t for key `key`. At a view its index is found by its address,
    which a view leaves as it was.

    Raises:
        ConfigError: the element or the key is outside, or a tensor was not kept.
    """
    check_element(trace.config, element)
    if not 0 <= key < trace.config.time:
        nearest = min(max(key, 0), trace.config.time - 1)
        raise ConfigError("key", key, f"must be from 0 to {trace.config.time - 1}",
                          works=f"Nearest that works: {nearest}")  # fmt: skip
    stops: dict[str, Stop] = {}
    for step in trace.steps:
        tensor = trace.tensor(step.id)
        index = None
        if step.view_of is not None:
            index = index_at(tensor, stops[step.view_of].place.offset)
        place = place_at(tensor, _made(step, element, key, trace.config.d_k, index))
        stops[step.id] = Stop(step, place, index is not None, float(tensor[place.index]))
    return list(stops.values())


def _made(step: Step, element: Element, key: int, d_k: int, found: Index | None) -> Index:
    """Where a step that made new numbers put the element; for a view, where it was found."""
    if found is not None:
        return found
    head, j = divmod(element.c, d_k)
    axes = step.spec.output
    if axes == MAP:
        return element.b, head, element.t, key
    if axes == BY_HEAD:
        return element.b, head, element.t, j
    if axes == BY_TIME:
        return element.b, element.t, head, j
    return element.b, element.t, element.c
