"""What the export tests share: odd sizes, traces, and labels that break careless writers."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from mha_core import MHAConfig, Trace, trace_forward
from mha_core.__main__ import main

BATCH, TIME, HEADS, D_K = 2, 7, 5, 3

# Formulas, markup, mathematics, quoting, a formula hidden behind a space, and a repeated word.
ODD = ("=1+1", "<b>x</b>", "$\\frac{1}$", 'say "a,b"', "-2", "the", "the")


def config(**changes: Any) -> MHAConfig:
    sizes = {"batch": BATCH, "time": TIME, "d_model": HEADS * D_K, "heads": HEADS}
    return MHAConfig(**(sizes | {"causal": True} | changes))


@cache
def traced(**changes: Any) -> Trace:
    """Made once for each configuration; no test changes a trace."""
    return trace_forward(config(**changes), profile=False)


@cache
def overflowing() -> Trace:
    """float16 at position 3 of item 0 is so large that scores overflow and weights are NaN."""
    x = torch.ones(BATCH, TIME, HEADS * D_K, dtype=torch.float16)
    x[0, 3] = 30_000.0
    return trace_forward(config(dtype="float16"), x=x, profile=False)


SMALL = ["--batch", "2", "--time", "5", "--d-model", "12", "--heads", "3"]


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Runs a command that must fail, and returns its one line of complaint."""
    assert main(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    return printed.err
