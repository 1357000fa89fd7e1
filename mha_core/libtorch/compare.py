"""Builds the C++ module, gives it the run in view, and holds every step against Python's."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import psutil
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from mha_core.errors import ConfigError
from mha_core.libtorch import build
from mha_core.libtorch.case import case_of, check_bytes, run_case
from mha_core.measure import Report, unreported
from mha_core.steps import STEPS
from mha_core.trace import Trace

LIMIT = 2**29  # bytes of the tensors that are written for C++ and read back
_BUILT = 0.9  # share of the progress
_LOOK = 0.25  # seconds between two reports


@dataclass(frozen=True)
class Difference:
    """One step in C++ and in Python.

    Attributes:
        step: its id.
        shape: as C++ gave it.
        python_shape: as Python gave it.
        largest: difference of two of its values; NaN where they cannot be compared.
        equal: every bit is the same.
    """

    step: str
    shape: tuple[int, ...]
    python_shape: tuple[int, ...]
    largest: float
    equal: bool


def compare(trace: Trace, report: Report = unreported) -> Iterator[Difference]:
    """Every step in the order they ran; both run on the CPU, with as many threads.

    Args:
        trace: what runs.
        report: told how far the build is; may raise to end it.

    Raises:
        ConfigError: the tensors are too large, nothing can be built here, or the program refuses.
    """
    # Both sides hold what is written and read, and the differences are taken in float64.
    check_bytes(trace, min(LIMIT, psutil.virtual_memory().available // 12))
    try:
        program = build.program(lambda done, what: report(_BUILT * done, what))
    except build.BuildError as error:
        raise ConfigError("C++ module", error.reason, "cannot be built here") from error
    report(_BUILT, "running both")
    case = case_of(trace)
    python = run_case(case)
    with tempfile.TemporaryDirectory() as folder:
        found = _run(program, case, Path(folder), report)
    for step in STEPS:
        if step in python:
            yield _difference(step, found.get(step), python[step])


def csv(differences: Sequence[Difference]) -> str:
    """A row a step."""
    frame = pd.DataFrame([asdict(one) for one in differences])
    return str(frame.to_csv(index=False))


def _run(program: Path, case: dict[str, Tensor], folder: Path, report: Report) -> dict[str, Tensor]:
    given, made = folder / "case.safetensors", folder / "result.safetensors"
    save_file(case, given)
    with subprocess.Popen(
        [program, "serve", "--threads", str(torch.get_num_threads())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        sent: str | None = f"{given}\t{made}\n"
        while True:
            try:
                answer, said = process.communicate(sent, timeout=_LOOK)
                break
            except subprocess.TimeoutExpired:
                sent = None  # it has it
            try:
                report(_BUILT, "running both")
            except BaseException:
                process.kill()
                raise
    if answer.strip() != "ok":
        why = answer.strip().removeprefix("error ") or said.strip()[-200:] or "nothing"
        raise ConfigError("C++ program", why, "ended without a result")
    return load_file(made)


def _difference(step: str, cpp: Tensor | None, python: Tensor) -> Difference:
    if cpp is None or cpp.shape != python.shape or cpp.dtype is not python.dtype:
        shape = () if cpp is None else tuple(cpp.shape)
        return Difference(step, shape, tuple(python.shape), math.nan, equal=False)
    bits = torch.equal(cpp.contiguous().view(torch.uint8), python.contiguous().view(torch.uint8))
    gaps = [] if bits else [_gap(*item) for item in zip(cpp, python, strict=True)]
    largest = math.nan if any(map(math.isnan, gaps)) else max(gaps, default=0.0)
    return Difference(step, tuple(cpp.shape), tuple(python.shape), largest, equal=bits)


def _gap(cpp: Tensor, python: Tensor) -> float:
    """The largest difference in one batch item."""
    # Equal infinities differ by nothing, though their difference is NaN.
    gap = (cpp.double() - python.double()).abs().masked_fill(cpp == python, 0.0)
    return float(gap.max())
