"""What must be asked about a layer that was found, and what must be said about it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from mha_core.layouts.listing import MOST_LISTED, short
from mha_core.layouts.records import Question
from mha_core.layouts.registry import ORDERS, Layout
from mha_core.sizes import divisors

# Parts of names under which models keep attention over another sequence.
CROSS = ("cross", "encoder_attn", "multihead_attn", "encdec")


def questions(layout: Layout, d_model: int) -> Iterator[Question]:
    """What `build` must be told: heads always, and what names and shapes leave open."""
    yield Question("heads", tuple(divisors(d_model)), "No file holds the number of heads")
    if len(layout.orders) > 1:
        text = (
            "One matrix holds W_q, W_k and W_v: one after the other [3, h, d_k], or head by head "
            "[h, 3, d_k]; the shape is the same"
        )
        yield Question("order", ORDERS, text)
    if len(layout.orientations) > 1:
        text = (
            "Square matrices are (out, in), y = x Wᵀ, as nn.Linear stores them, or (in, out), "
            "y = x W, as Conv1D does; the shape is the same"
        )
        yield Question("orientation", layout.orientations, text)


def notes(
    ordered: Sequence[str],
    prefix: str,
    layout: Layout,
    weights: Sequence[str],
    biases: Sequence[str | None],
) -> Iterator[str]:
    """What is not as in the file, each as one sentence.

    Args:
        ordered: every name of the file, sorted.
        prefix, layout, weights, biases: as in `Found`.
    """
    used = {*weights, *(name for name in biases if name is not None)}
    missing = [layout.biases[i] for i, name in enumerate(biases) if name is None]
    if missing and len(missing) < len(biases):
        yield f"Not in the file, zeros instead: {', '.join(missing)}"
    if any(part in prefix.lower() for part in CROSS):
        yield "The name says cross-attention; here query, key and value come from one sequence"
    if layout.note:
        yield layout.note
    beside = list(islice(_unused(ordered, prefix, used), MOST_LISTED + 1))
    if beside:
        more = " and more" if len(beside) > MOST_LISTED else ""
        yield f"Beside it and not used: {', '.join(beside[:MOST_LISTED])}{more}"


def _unused(ordered: Sequence[str], prefix: str, used: set[str]) -> Iterator[str]:
    for place in range(bisect_left(ordered, prefix), len(ordered)):
        name = ordered[place]
        if not name.startswith(prefix):
            return
        if name not in used:
            yield short(name.removeprefix(prefix))
