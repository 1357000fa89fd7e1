"""Runs a mistake and its repair, and says what the mistake did."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from mha_core.attention import MultiHeadAttention
from mha_core.mistakes.parts import Run, close
from mha_core.mistakes.records import Mistake

# What betrays a mistake to one who looks at no value: torch's error, a shape that is not the
# right one, or nothing. "no change" where it does no harm at the sizes it ran at.
Betrayed = Literal["error", "shape", "nothing", "no change"]

# What torch raises for what does not fit.
_RAISED = (RuntimeError, AssertionError, ValueError, TypeError, IndexError)


@dataclass(frozen=True)
class Outcome:
    """What one forward gave.

    Attributes:
        output: (batch, time, d_model); None where it raised.
        weights: (batch, h, time, time), of less where the code returns less; None likewise.
        error: kind and message of what torch raised; "" where it ran.
    """

    output: Tensor | None = None
    weights: Tensor | None = None
    error: str = ""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of output and weights; empty where it raised."""
        found = (self.output, self.weights)
        return tuple(tuple(tensor.shape) for tensor in found if tensor is not None)

    @property
    def not_finite(self) -> int:
        """Numbers of output and weights that are NaN or infinite."""
        found = (self.output, self.weights)
        return sum(int((~tensor.isfinite()).sum()) for tensor in found if tensor is not None)


@dataclass(frozen=True)
class Finding:
    """A mistake beside its repair, after both ran.

    Attributes:
        mistake: what ran.
        wrong, right: what came out.
        caught: the check fails on the wrong one, or it raised.
        passed: the check holds on the right one.
        mask: what was meant to be seen, (batch, h, time, time); None for all.
    """

    mistake: Mistake
    wrong: Outcome
    right: Outcome
    caught: bool
    passed: bool
    mask: Tensor | None

    @property
    def betrayed(self) -> Betrayed:
        """What shows it to one who looks at no value."""
        if self.wrong.error:
            return "error"
        if self.wrong.shapes != self.right.shapes:
            return "shape"
        pairs = ((self.wrong.output, self.right.output), (self.wrong.weights, self.right.weights))
        same = all(a is not None and b is not None and close(a, b) for a, b in pairs)
        return "no change" if same else "nothing"

    @property
    def change(self) -> float | None:
        """Largest difference of the outputs where both are finite; None where one raised."""
        return largest(self.wrong.output, self.right.output)

    @property
    def weight_change(self) -> float | None:
        """Of the weights; None where their shapes differ, too."""
        return largest(self.wrong.weights, self.right.weights)

    @property
    def nbytes(self) -> int:
        """Of all that it holds."""
        made = (self.wrong, self.right)
        tensors = [t for m in made for t in (m.output, m.weights)] + [self.mask]
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors if tensor is not None)


def largest(a: Tensor | None, b: Tensor | None) -> float | None:
    """Largest |a − b| over what is finite in both; None where there is nothing to compare."""
    if a is None or b is None or a.shape != b.shape:
        return None
    apart = (a.double() - b.double()).abs()
    apart = apart[apart.isfinite()]
    return float(apart.max()) if apart.numel() else None


def examine(mistake: Mistake, module: MultiHeadAttention, x: Tensor, *, seed: int = 0) -> Finding:
    """Runs both forwards and the check on both.

    Args:
        mistake: of `MISTAKES`.
        module: in evaluation, on the CPU, float32 or float64.
        x: (batch, time, d_model).
        seed: of what a forward draws at random.
    """
    with _quiet(seed):
        wrong, right = _outcome(mistake.wrong, module, x), _outcome(mistake.right, module, x)
        caught = not _holds(mistake, mistake.wrong, module, x)
        passed = _holds(mistake, mistake.right, module, x)
        mask = None if mistake.mask is None else mistake.mask(x)
    if mask is not None:
        mask = mask.expand(x.shape[0], module.heads, x.shape[1], x.shape[1])
    return Finding(mistake, wrong, right, caught, passed, mask)


def examine_all(
    mistakes: Sequence[Mistake], module: MultiHeadAttention, x: Tensor, *, seed: int = 0
) -> tuple[Finding, ...]:
    """One finding a mistake, in order."""
    return tuple(examine(mistake, module, x, seed=seed) for mistake in mistakes)


def _outcome(run: Run, module: MultiHeadAttention, x: Tensor) -> Outcome:
    try:
        output, weights = run(module, x)
    except _RAISED as error:
        return Outcome(error=f"{type(error).__name__}: {error}")
    return Outcome(output.detach(), weights.detach())


def _holds(mistake: Mistake, run: Run, module: MultiHeadAttention, x: Tensor) -> bool:
    try:
        return mistake.check(run, module, x)
    except _RAISED:
        return False


# F.dropout draws from torch's global stream, which other sessions' threads would share.
_lock = threading.Lock()


@contextmanager
def _quiet(seed: int) -> Iterator[None]:
    """No gradients; torch's global random stream seeded, and afterwards as it was."""
    with _lock, torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
