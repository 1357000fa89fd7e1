"""Where every element stands at every step, found by moving index tensors as torch moves tensors.

The index tensor holds 0, 1, 2, … and goes through the very functions that the module applies
(`split`, `swap_time_and_heads`, `merge`), so that the picture cannot disagree with torch. What
stands at a place is read off it; where that place lies in memory is read off the real tensor's
strides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mha_core.attention import merge, split, swap_time_and_heads
from mha_core.config import MHAConfig
from mha_core.operands import KEY, Operand, operands_of
from mha_core.records import Step
from mha_core.steps import BY_HEAD, BY_TIME, FLAT, MAP
from mha_core.trace import Trace
from mha_core.window import Element, Window, check_element, index_ranges

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]

# Every scene, in order; the mask only where one was set. Q stands for Q, K and V.
SCENES = (
    "input", "project_q", "split_q", "transpose_q", "scores", "mask", "softmax",
    "weighted_values", "transpose_back", "merge", "output",
)  # fmt: skip

# Scenes whose numbers are moved, not computed.
MOVES = frozenset({"split_q", "transpose_q", "transpose_back", "merge"})


@dataclass(frozen=True)
class Cells:
    """The elements of one tensor inside the window; all arrays have one row an element.

    Attributes:
        axes: names of the tensor's axes.
        shape: the tensor's true shape.
        index: (n, rank) where the element stands in the tensor.
        identity: (n,) which element it is: its number in (batch, time, d_model) order. The
            same from the projection to the transpose, and from the weighted values to the
            merge; of a map, its number in (batch, h, time, time) order.
        offset: (n,) where it lies in its storage, in elements.
        values: (n,) the real numbers, as float32.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    index: Ints
    identity: Ints
    offset: Ints
    values: Floats


@dataclass(frozen=True)
class Scene:
    """One step of the flow.

    Attributes:
        step: the recorded step.
        cells: its tensor through the window, in the order of `identity`.
        operands: what goes into the followed element here, where it is computed.
        result: name and value of the followed element.
        place: index of the followed element in the tensor (of its row in a map).
        offset: its offset in the storage, in elements.
        hidden: (n,) cells whose key may not be attended; all False outside a map.
        d_k: width of a head.
    """

    step: Step
    cells: Cells
    operands: tuple[Operand, ...]
    result: tuple[str, float]
    place: tuple[int, ...]
    offset: int
    hidden: NDArray[np.bool_]
    d_k: int

    @property
    def moves(self) -> bool:
        """Whether the numbers are moved, not computed."""
        return self.step.id in MOVES

    @property
    def copied(self) -> int:
        """Bytes copied to make it, counted by torch's dispatcher; 0 where none moved."""
        return self.step.copied or 0


def numbered(config: MHAConfig) -> dict[str, Tensor]:
    """For every layout of (batch, time, d_model): which element stands where.

    Index tensors moved by the operations of the module itself.
    """
    batch, time, d_model = config.batch, config.time, config.d_model
    flat = torch.arange(batch * time * d_model, dtype=torch.int32).view(batch, time, d_model)
    by_time = split(flat, config.heads)
    by_head = swap_time_and_heads(by_time)
    back = swap_time_and_heads(by_head)
    return {
        "input": flat,
        "project_q": flat,
        "split_q": by_time,
        "transpose_q": by_head,
        "weighted_values": by_head,
        "transpose_back": back,
        "merge": merge(back),
        "output": flat,
    }


def cells(trace: Trace, step: str, win: Window, numbers: dict[str, Tensor]) -> Cells:
    """The elements of a step's tensor inside the window; `numbers` as `numbered` gives them."""
    record = trace[step]
    tensor = trace.tensor(step)
    axes = record.spec.output
    ranges = index_ranges(axes, win, trace.config.d_k)
    grid = np.meshgrid(*ranges, indexing="ij")
    index = np.stack([axis.ravel() for axis in grid], axis=1).astype(np.int64)
    places = tuple(torch.from_numpy(column) for column in index.T)
    if axes == MAP:
        identity = np.ravel_multi_index(tuple(index.T), record.shape)
        order: Ints | slice = slice(None)
    else:
        identity = numbers[step][places].numpy().astype(np.int64)
        order = np.argsort(identity, kind="stable")
    values = tensor[tuple(place.to(tensor.device) for place in places)].float().cpu().numpy()
    strides = np.array(record.strides, dtype=np.int64)
    return Cells(
        axes=axes,
        shape=record.shape,
        index=index[order],
        identity=np.asarray(identity[order], dtype=np.int64),
        offset=(index @ strides + record.offset)[order],
        values=values[order],
    )


def scenes(trace: Trace, element: Element, win: Window) -> list[Scene]:
    """Every scene of the flow, with the element followed through it.

    Raises:
        ConfigError: the element is outside the tensor, or a tensor was not kept.
    """
    check_element(trace.config, element)
    numbers = numbered(trace.config)
    return [_scene(trace, step, element, win, numbers) for step in SCENES if step in trace]


def _scene(
    trace: Trace, step: str, element: Element, win: Window, numbers: dict[str, Tensor]
) -> Scene:
    record = trace[step]
    place = _place(trace, step, element, numbers)
    operands: tuple[Operand, ...] = ()
    if step in MOVES or step == "input":
        name = {"input": "x", "split_q": "q", "transpose_q": "q"}.get(step, "out")
        value = float(trace.tensor(step)[place])
        result = (f"{name}[{', '.join(map(str, place))}]", value)
    else:
        operands, result = operands_of(trace, step, element, win)
    drawn = cells(trace, step, win, numbers)
    return Scene(
        step=record,
        cells=drawn,
        operands=operands,
        result=result,
        place=place,
        offset=int(np.dot(place, record.strides)) + record.offset,
        hidden=_hidden(trace, drawn),
        d_k=trace.config.d_k,
    )


def _hidden(trace: Trace, drawn: Cells) -> NDArray[np.bool_]:
    if drawn.axes != MAP or trace.visible is None:
        return np.zeros(len(drawn.values), dtype=bool)
    places = tuple(torch.from_numpy(column) for column in drawn.index.T)
    seen = trace.visible.cpu().broadcast_to(drawn.shape)[places]
    return ~seen.numpy()


def _place(
    trace: Trace, step: str, element: Element, numbers: dict[str, Tensor]
) -> tuple[int, ...]:
    """Where the element stands at a step, found in the index tensor; in a map, row t, key 0."""
    axes = trace[step].spec.output
    head, j = divmod(element.c, trace.config.d_k)
    if axes == MAP:
        return element.b, head, element.t, KEY
    candidate = {
        FLAT: (element.b, element.t, element.c),
        BY_TIME: (element.b, element.t, head, j),
        BY_HEAD: (element.b, head, element.t, j),
    }[axes]
    config = trace.config
    wanted = (element.b * config.time + element.t) * config.d_model + element.c
    # The candidate is a claim; the index tensor, moved by torch, is the proof.
    found = int(numbers[step][candidate])
    if found != wanted:
        raise AssertionError(f"{step}: element {wanted} expected at {candidate}, found {found}")
    return candidate
