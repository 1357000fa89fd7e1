"""Where every drawn element stands at every step, found by torch.

The marks are chosen in the last tensor and traced back: each step is done once more on the numbers
of the places it starts from, so that what stands at a place says which place it came from. A copy
then leads back to the one element that it is a copy of. What torch put there in the real run must
be that very element, and this is checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from mha_core.errors import ConfigError
from mha_core.reshape.marks import marks_of
from mha_core.reshape.ops import Op, apply
from mha_core.reshape.run import Run, Step, tensors

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Scene:
    """One step of the flow.

    Attributes:
        step: as it ran.
        index: (n, axes) where each mark stands in the tensor.
        place: where the followed element stands (the first place, of several).
        offset: where it lies in the storage, in elements.
    """

    step: Step
    index: Ints
    place: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Flow:
    """All scenes: the same marks in each, in one order.

    Attributes:
        scenes: x and every step.
        identity: (n,) the number of each mark's element in x.
        element: the one followed.
        marked: (n,) the marks that are it.
        copies: at how many places each element stands in the end.
        complete: whether every element of the last tensor is drawn.
    """

    scenes: tuple[Scene, ...]
    identity: Ints
    element: int
    marked: NDArray[np.bool_]
    copies: int
    complete: bool

    def places(self, n: int) -> int:
        """At how many places each element stands in scene n."""
        shape = self.scenes[n].step.shape
        return math.prod(shape) // math.prod(self.scenes[0].step.shape)


def flow(run: Run, element: int, *, marks: int = 500, across: int = 96, down: int = 40) -> Flow:
    """The flow of a run.

    Args:
        run: what ran.
        element: number of the element to follow, from 0.
        marks: elements drawn at most, about.
        across, down: cells that a scene may be wide and high, about.

    Raises:
        ConfigError: there is no such element.
    """
    plan = run.plan
    if not 0 <= element < plan.numel:
        nearest = 0 if element < 0 else plan.numel - 1
        raise ConfigError(
            "element", element, f"must be from 0 to {plan.numel - 1}",
            works=f"Nearest that works: {nearest}", repairs=[{"element": nearest}],
        )  # fmt: skip
    last = run.steps[-1].shape
    followed = _first_place(run, element)
    chosen = marks_of(run, followed, marks=marks, across=across, down=down)
    # The followed place is traced as one more mark, in front.
    flat = np.concatenate([[_flat(followed, last)], chosen])
    places = _traced(run, flat)
    _check(run, places)
    order = 1 + np.lexsort((places[-1][1:], places[0][1:]))
    identity = places[0][order]
    scenes = []
    for step, at in zip(run.steps, places, strict=True):
        index = np.stack(_unflat(at, step.shape), axis=1) if step.shape else np.zeros((len(at), 0))
        index = index.astype(np.int64)
        place = tuple(int(i) for i in index[0])
        offset = step.offset + sum(i * s for i, s in zip(place, step.strides, strict=True))
        scenes.append(Scene(step, index[order], place, offset))
    return Flow(
        scenes=tuple(scenes),
        identity=identity,
        element=element,
        marked=identity == element,
        copies=math.prod(last) // plan.numel,
        complete=len(chosen) == math.prod(last),
    )


def _flat(place: tuple[int, ...], shape: tuple[int, ...]) -> int:
    return int(np.ravel_multi_index(place, shape)) if shape else 0


def _unflat(flat: Ints, shape: tuple[int, ...]) -> list[Ints]:
    return [np.asarray(axis, dtype=np.int64) for axis in np.unravel_index(flat, shape)]


def _first_place(run: Run, element: int) -> tuple[int, ...]:
    """Where the element stands first in the last tensor."""
    y = None
    for y in tensors(run.plan):  # noqa: B007  the last is wanted
        pass
    assert y is not None
    # Of equal largest values, argmax names the first.
    found = int((y == element).flatten().to(torch.uint8).argmax())
    return tuple(int(i) for i in np.unravel_index(found, tuple(y.shape))) if y.dim() else ()


def _traced(run: Run, flat: Ints) -> list[Ints]:
    """Row-major places of the marks in x and after every step, from their places in the end."""
    places = [flat]
    for before, op in zip(reversed(run.steps[:-1]), reversed(run.plan.ops), strict=True):
        numbers = torch.arange(math.prod(before.shape), dtype=torch.int32).view(before.shape)
        came_from = apply(_free_of_strides(op), numbers).reshape(-1)
        places.append(came_from[torch.from_numpy(places[-1])].numpy().astype(np.int64))
    return places[::-1]


def _free_of_strides(op: Op) -> Op:
    """A view of numbers that lie row-major: where the real tensor's do not, the view still ran."""
    return replace(op, name="reshape") if op.name == "view" else op


def _check(run: Run, places: list[Ints]) -> None:
    """What the real run has at a mark's place is the element that the mark is."""
    for step, y, at in zip(run.steps, tensors(run.plan), places, strict=True):
        index = (
            tuple(torch.from_numpy(axis) for axis in _unflat(at, step.shape)) if step.shape else ()
        )
        found = y[index].reshape(-1).numpy() if step.shape else y.reshape(-1).numpy()
        if not np.array_equal(np.broadcast_to(found, places[0].shape), places[0]):
            raise AssertionError(f"{step.code}: a mark does not stand where torch put it")


def colour_axes(run: Run) -> dict[str, str]:
    """Axes that can give the elements their colours: "in1" or "out1" -> what it is called."""
    first, last = run.steps[0], run.steps[-1]
    found: dict[str, str] = {}
    for side, step in (("in", first), ("out", last)):
        for n, (size, name) in enumerate(zip(step.shape, step.names, strict=True)):
            if size > 1:
                found[f"{side}{n}"] = (
                    f"{name or f'axis {n}'} of {'x' if side == 'in' else 'the result'}"
                )
    return found


def colour_axis(run: Run, wanted: str) -> str:
    """The axis wanted, where there is one; else the first of few that comes to stand elsewhere."""
    offered = colour_axes(run)
    if wanted in offered or not offered:
        return wanted if wanted in offered else ""
    first, last = run.steps[0], run.steps[-1]
    same = [
        n for n in range(min(len(first.shape), len(last.shape)))
        if (first.shape[n], first.names[n]) == (last.shape[n], last.names[n])
    ]  # fmt: skip
    few = [
        key for step, side in ((last, "out"), (first, "in"))
        for n, size in enumerate(step.shape)
        if 2 <= size <= 16 and n not in same and (key := f"{side}{n}") in offered
    ]  # fmt: skip
    return (few or list(offered))[0]
