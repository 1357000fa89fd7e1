"""The code of a reshape, as it would be written in torch and in einops."""

from __future__ import annotations

from mha_core.reshape.run import Run


def torch_chain(run: Run) -> str:
    """The steps as one expression: x.view(2, 6, 4, 8).transpose(1, 2)."""
    return ".".join(["x", *(op.code for op in run.plan.ops)])


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
