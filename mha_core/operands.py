"""Where numbers are computed, not moved: the row and column behind one element of a result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.trace import Trace
from mha_core.window import Element, Window, index_ranges

# The key shown beside the followed query: the first, which every causal query sees.
KEY = 0


@dataclass(frozen=True)
class Operand:
    """A row or column that goes into one result.

    Attributes:
        label: e.g. "q[0, 2, 3, :]".
        axis: name of the axis it runs along.
        indices: those drawn.
        values: the real numbers at those indices.
        length: of the whole row.
        head: the head it belongs to; None for x, W and the merged output.
    """

    label: str
    axis: str
    indices: tuple[int, ...]
    values: NDArray[np.float32]
    length: int
    head: int | None = None


def operands_of(
    trace: Trace, step: str, element: Element, win: Window
) -> tuple[tuple[Operand, ...], tuple[str, float]]:
    """The row and column that make the followed element at a step, and the element itself.

    Raises:
        ConfigError: the step computes nothing, or a tensor was not kept.
    """
    b, t, c = element.b, element.t, element.c
    head, j = divmod(c, trace.config.d_k)
    columns = tuple(int(i) for i in index_ranges(("d_model",), win, trace.config.d_k)[0])

    def take(label: str, axis: str, row: Tensor, indices: tuple[int, ...]) -> Operand:
        values = row.detach().float().cpu().numpy()
        owner = None if axis == "d_model" else head
        return Operand(label, axis, indices, values[list(indices)], len(values), owner)

    def value(name: str, place: tuple[int, ...]) -> float:
        return float(trace.tensor(name)[place])

    if step == "project_q":
        return (
            take(f"x[{b}, {t}, :]", "d_model", trace.tensor("input")[b, t], columns),
            take(f"W_q[{c}, :]", "d_model", trace.module.W_q.weight[c], columns),
        ), (f"q[{b}, {t}, {c}]", value(step, (b, t, c)))
    if step == "scores":
        return (
            take(
                f"q[{b}, {head}, {t}, :]", "d_k", trace.tensor("transpose_q")[b, head, t], win.d_k
            ),
            take(
                f"k[{b}, {head}, {KEY}, :]",
                "d_k",
                trace.tensor("transpose_k")[b, head, KEY],
                win.d_k,
            ),
        ), (f"scores[{b}, {head}, {t}, {KEY}]", value(step, (b, head, t, KEY)))
    if step in ("mask", "softmax"):
        before = "mask" if step == "softmax" and "mask" in trace else "scale"
        name = "masked" if before == "mask" else "scaled"
        after = "masked" if step == "mask" else "weights"
        return (
            take(
                f"{name}[{b}, {head}, {t}, :]", "time", trace.tensor(before)[b, head, t], win.time
            ),
            take(f"{after}[{b}, {head}, {t}, :]", "time", trace.tensor(step)[b, head, t], win.time),
        ), (f"{after}[{b}, {head}, {t}, {KEY}]", value(step, (b, head, t, KEY)))
    if step == "weighted_values":
        used = "dropout" if "dropout" in trace else "softmax"
        return (
            take(f"weights[{b}, {head}, {t}, :]", "time", trace.tensor(used)[b, head, t], win.time),
            take(
                f"v[{b}, {head}, :, {j}]",
                "time",
                trace.tensor("transpose_v")[b, head, :, j],
                win.time,
            ),
        ), (f"out[{b}, {head}, {t}, {j}]", value(step, (b, head, t, j)))
    if step == "output":
        return (
            take(f"out[{b}, {t}, :]", "d_model", trace.tensor("merge")[b, t], columns),
            take(f"W_o[{c}, :]", "d_model", trace.module.W_o.weight[c], columns),
        ), (f"y[{b}, {t}, {c}]", value(step, (b, t, c)))
    raise ConfigError("step", step, "moves its numbers and computes none")
