"""The programs of the flat projection and scaling pages run, and print what the pages show."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from mha_core import MHAConfig, cost
from mha_core.inputs import build_module, random_input
from mha_core.listing_projections import program as projections_program
from mha_core.listing_scaling import program as scaling_program
from mha_core.projections import compare
from tests.core.support import config


def printed(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("bias", [True, False])
def test_the_projections_program_counts_the_pages_kernels(bias: bool) -> None:
    made = config(bias=bias)
    found = {
        name: (int(kernels), float(largest))
        for name, kernels, largest in re.findall(
            r"(\w+) +(\d+) kernels, largest difference ([\d.e+-]+)",
            printed(projections_program(made)),
        )
    }
    facts = {one.name: one for one in compare(build_module(made), random_input(made))}
    assert set(found) == {"flat", "separate", "fused"}
    for name, (kernels, largest) in found.items():
        assert kernels == facts[name].kernels
        assert largest < 1e-12


@pytest.mark.parametrize("scale", [None, 0.5])
def test_the_scaling_programs_flops_and_peaks_are_the_formulas(scale: float | None) -> None:
    made = MHAConfig(batch=2, time=96, d_model=24, heads=3, causal=True, scale=scale)
    lines = re.findall(
        r"time +(\d+): (\S+) FLOPs, .* peak bytes of attention (\d+) whole, (\d+) fused",
        printed(scaling_program(made)),
    )
    assert [int(time) for time, *_ in lines] == [16, 64, 96, 256]
    for time, flops, whole, fused in lines:
        at = MHAConfig(**(vars(made) | {"time": int(time)}))
        assert flops == f"{sum(cost.flops(at).values()):.3g}"
        formula = cost.attend_peak(at)
        assert abs(int(whole) - formula) <= 0.05 * formula + 64
        assert int(fused) >= cost.activation_bytes(at)
