"""The code of a reshape, as it would be written in torch and in einops."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from mha_core.reshape.run import Run


def torch_chain(run: Run) -> str:
    """The steps as one expression: x.view(2, 6, 4, 8).transpose(1, 2)."""
    return ".".join(["x", *(op.code for op in run.plan.ops)])


@dataclass(frozen=True)
class Typed:
    """A reshape as one would type it: the three texts of a chain, or of a pattern."""

    text: str
    shape: str
    axes: str


def as_chain(run: Run) -> Typed:
    """The run as a chain to be typed, with the names of its axes where all of them have one."""
    plan = run.plan
    sizes = {
        name: size
        for step in run.steps
        for name, size in zip(step.names, step.shape, strict=True)
        if name.isidentifier()
    }
    sizes |= {atom.name: atom.size for axis in plan.parts.steps[0] for atom in axis if atom.name}

    def written(size: int, name: str) -> str:
        """h*d for (h d), where that comes to the size; else the number."""
        factors = [word for word in name.strip("()").split() if word != "1"]
        known = all(word in sizes for word in factors) and factors
        product = math.prod(sizes[word] for word in factors) if known else None
        return "*".join(factors) if product == size else str(size)

    calls: list[str] = []
    for op in plan.ops:
        if op.name in ("view", "reshape", "expand"):
            listed = map(written, op.shape, op.names)
            calls.append(f"{op.name}({', '.join(listed)})" if op.shape else op.code)
        else:
            calls.append(op.code)
    shape = ", ".join(map(written, plan.shape, plan.names))
    text = ".".join(calls)
    used = set(re.findall(r"[A-Za-z_]\w*", f"{shape} {text}"))
    axes = " ".join(f"{name}={size}" for name, size in sizes.items() if name in used)
    return Typed(text, shape, axes)


def as_pattern(run: Run) -> Typed | None:
    """The run as an einops pattern to be typed; None where there is none."""
    call = run.einops
    if call is None:
        return None
    told = " ".join(f"{name}={size}" for name, size in call.sizes)
    return Typed(call.pattern, ", ".join(map(str, run.plan.shape)), told)


def program(run: Run) -> str:
    """A complete program: the chain, a shape comment where the shape changes, einops beside it.

    It asserts what the page shows: shapes, strides, copies, and that einops agrees.
    """
    plan, call = run.plan, run.einops
    shape = ", ".join(map(str, plan.shape))
    lines = ["import torch"]
    if call is not None:
        lines.append(f"from einops import {call.function}")
    lines += ["", f"x = torch.arange({plan.numel}).view({shape})  # every element its own number"]
    lines.append("y = x")
    before = plan.shape
    for op, step in zip(plan.ops, run.steps[1:], strict=True):
        change = f"{before} -> {op.shape}, " if op.shape != before else ""
        lines.append(
            f"y = y.{op.code}  # {change}{'copies' if step.storage == 'copy' else 'a view'}"
        )
        before = op.shape
    last = run.steps[-1]
    shared = all(step.storage != "copy" for step in run.steps)
    lines += [
        "",
        f"assert y.shape == {last.shape} and y.stride() == {last.strides}",
        f"assert (y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) is {shared}",
    ]
    if call is None:
        lines += ["", "# No einops pattern: a view regroups elements across the axes."]
    else:
        lines += ["", f"z = {call.code}", "assert torch.equal(z, y)"]
    return "\n".join(lines) + "\n"
