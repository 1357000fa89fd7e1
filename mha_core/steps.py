"""The vocabulary of the pipeline: every step's id, number, operation, symbolic shape and lesson.

The numbers are those of the standard walkthrough; letters are sub-steps. Whatever names a step
on the page, in a file or on the command line reads it here.
"""

from __future__ import annotations

from dataclasses import dataclass

FLAT = ("batch", "time", "d_model")
BY_TIME = ("batch", "time", "h", "d_k")
BY_HEAD = ("batch", "h", "time", "d_k")
KEYS = ("batch", "h", "d_k", "time")
MAP = ("batch", "h", "time", "time")


@dataclass(frozen=True)
class StepSpec:
    """One step as it is described, before anything ran.

    Attributes:
        id: key of the step in a trace, e.g. "project_q".
        number: "0" to "9", with a letter for a sub-step.
        operation: as written in the step table.
        reads: ids of the steps whose tensors it takes.
        inputs: symbolic shape of each operand.
        output: symbolic shape of the result.
        code: the line of PyTorch.
        lesson: what to take away, in one sentence.
    """

    id: str
    number: str
    operation: str
    reads: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]
    code: str
    lesson: str


def _each(
    number: str,
    name: str,
    operation: str,
    reads: str,
    shapes: tuple[tuple[str, ...], tuple[str, ...]],
    code: str,
    lesson: str,
) -> list[StepSpec]:
    """The same step for q, k and v. `{n}` stands for the letter."""
    return [
        StepSpec(
            id=f"{name}_{n}",
            number=number,
            operation=operation.format(n=n),
            reads=(reads.format(n=n),),
            inputs=(shapes[0],),
            output=shapes[1],
            code=code.format(n=n),
            lesson=lesson,
        )
        for n in "qkv"
    ]


_SPECS: list[StepSpec] = [
    StepSpec(
        "input", "0", "x", (), (), FLAT,
        "x  # (batch, time, d_model)",
        "Each position of each sequence is one row of d_model numbers.",
    ),
    *_each(
        "1", "project", "W_{n}(x)", "input", (FLAT, FLAT),
        "{n} = self.W_{n}(x)",
        "One flat (d_model, d_model) matrix makes the queries of all heads at once, and one each "
        "the keys and the values: head i owns columns i·d_k to (i+1)·d_k − 1 of the result.",
    ),
    *_each(
        "2", "split", "view(batch, time, h, d_k)", "project_{n}", (FLAT, BY_TIME),
        "{n} = {n}.view(batch, time, h, d_k)",
        "The last axis is renamed, not moved: d_model columns are read as h groups of d_k, "
        "and every number stays where it was in memory.",
    ),
    *_each(
        "3", "transpose", "transpose(1, 2)", "split_{n}", (BY_TIME, BY_HEAD),
        "{n} = {n}.transpose(1, 2)",
        "Two strides change places, so that each head is a (time, d_k) matrix of its own; "
        "no byte moves, and the tensor is no longer contiguous.",
    ),
    StepSpec(
        "scores", "4", "Q @ Kᵀ", ("transpose_q", "transpose_k"), (BY_HEAD, KEYS), MAP,
        "scores = q @ k.transpose(-2, -1)",
        "Every query meets every key of its own head: time × time dot products a head, "
        "the step whose memory grows with the square of time.",
    ),
    StepSpec(
        "scale", "4a", "/ √d_k", ("scores",), (MAP,), MAP,
        "scores = scores / math.sqrt(d_k)",
        "A sum of d_k products has a spread of √d_k; dividing by it keeps softmax out of its "
        "flat ends, where gradients vanish.",
    ),
    StepSpec(
        "mask", "4b", "mask", ("scale",), (MAP,), MAP,
        "scores = scores.masked_fill(~keep, -math.inf)",
        "A score that must not count becomes −∞ before softmax, so that its weight is exactly 0 "
        "and the rest of the row still sums to 1.",
    ),
    StepSpec(
        "softmax", "5", "softmax(-1)", ("mask", "scale"), (MAP,), MAP,
        "weights = scores.softmax(-1)",
        "Each query's row becomes shares that sum to 1 over the keys: the last axis, not the "
        "one before it.",
    ),
    StepSpec(
        "dropout", "5a", "dropout", ("softmax",), (MAP,), MAP,
        "weights = dropout(weights)",
        "In training a share p of the weights is zeroed and the rest divided by 1 − p: rows sum "
        "to 1 on average, no longer one by one.",
    ),
    StepSpec(
        "weighted_values", "6", "weights @ V",
        ("dropout", "softmax", "transpose_v"), (MAP, BY_HEAD), BY_HEAD,
        "out = weights @ v",
        "Each query's output is the average of the values of its head, weighted by its row.",
    ),
    StepSpec(
        "transpose_back", "7", "transpose(1, 2)", ("weighted_values",), (BY_HEAD,), BY_TIME,
        "out = out.transpose(1, 2)",
        "The heads of one position come side by side again, by strides alone.",
    ),
    StepSpec(
        "merge", "8", "contiguous().view(batch, time, d_model)",
        ("transpose_back",), (BY_TIME,), FLAT,
        "out = out.contiguous().view(batch, time, d_model)",
        "The heads of one position do not lie side by side in memory, so view alone would raise: "
        "contiguous() copies every byte into place, and view renames the axes.",
    ),
    StepSpec(
        "output", "9", "W_o(out)", ("merge",), (FLAT,), FLAT,
        "out = self.W_o(out)",
        "Until here the heads never met; W_o mixes their columns into one d_model vector a "
        "position.",
    ),
]  # fmt: skip

STEPS: dict[str, StepSpec] = {spec.id: spec for spec in _SPECS}

# The nine rows of the short table: the step that stands for each number. Q stands for Q, K, V.
NINE: tuple[str, ...] = (
    "project_q", "split_q", "transpose_q", "scores", "softmax",
    "weighted_values", "transpose_back", "merge", "output",
)  # fmt: skip

# The steps whose tensor is a map over (query, key), in order.
MAP_STEPS: tuple[str, ...] = tuple(spec.id for spec in _SPECS if spec.output == MAP)

_MAP_NAMES = {
    "scores": "scores",
    "scale": "scaled",
    "mask": "masked",
    "softmax": "weights",
    "dropout": "after dropout",
}


def map_name(step: str) -> str:
    """What the tensor of a map step is called: scores, scaled, masked, weights."""
    return _MAP_NAMES[step]


def symbolic(shape: tuple[str, ...]) -> str:
    """("batch", "time") -> "(batch, time)"."""
    return f"({', '.join(shape)})"
