"""The shape table as a DataFrame and as text: CSV, Markdown, LaTeX, JSON, plain."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from mha_core.errors import ConfigError, human_bytes
from mha_core.records import Step
from mha_core.steps import NINE, symbolic

FORMATS = ("text", "csv", "markdown", "latex", "json")


def frame(steps: Sequence[Step], *, detail: bool = False) -> pd.DataFrame:
    """One row a step.

    Short: the nine steps, Q standing for Q, K and V. With `detail` every step that ran, with
    strides, storage, bytes, FLOPs, milliseconds and operators. Bytes and FLOPs are numbers;
    shapes are text, since one column holds several ranks.
    """
    if not detail:
        return pd.DataFrame([_short(step) for step in steps if step.id in NINE])
    return pd.DataFrame([_short(step) | _long(step) for step in steps])


def shape_text(shape: tuple[int, ...]) -> str:
    """(2, 6, 32); (6,) for one axis."""
    return str(tuple(shape))


def operands_text(shapes: tuple[tuple[int, ...], ...]) -> str:
    """(2, 4, 6, 8) × (2, 4, 8, 6)"""
    return " × ".join(shape_text(shape) for shape in shapes)


def storage_text(step: Step) -> str:
    """ "view of split_q", "copy 1.5 KiB" or "new 1.5 KiB"."""
    if step.view_of is not None:
        return f"view of {step.view_of}"
    return f"{step.storage} {human_bytes(step.nbytes)}"


def _short(step: Step) -> dict[str, object]:
    return {
        "step": step.number,
        "operation": step.spec.operation,
        "input": " × ".join(symbolic(shape) for shape in step.spec.inputs),
        "output": symbolic(step.spec.output),
        "input shape": operands_text(step.input_shapes),
        "output shape": shape_text(step.shape),
    }


def _long(step: Step) -> dict[str, object]:
    return {
        "id": step.id,
        "strides": shape_text(step.strides),
        "contiguous": step.contiguous,
        "storage": storage_text(step),
        "bytes": step.nbytes,
        "allocated": step.allocated,
        "copied": step.copied,
        "FLOPs": step.flops,
        "ms": step.milliseconds,
        "operators": " ".join(operator.name for operator in step.operators),
    }


def render(table: pd.DataFrame, form: str) -> str:
    """The table as text, without a trailing newline.

    Raises:
        ConfigError: if `form` is not one of FORMATS.
    """
    if form == "csv":
        return table.to_csv(index=False).rstrip("\n")
    if form == "markdown":
        return table.to_markdown(index=False, disable_numparse=True)
    if form == "latex":
        return _latex(table)
    if form == "json":
        return table.to_json(orient="records", force_ascii=False, indent=2)
    if form == "text":
        return table.to_markdown(index=False, disable_numparse=True, tablefmt="simple")
    raise ConfigError("format", form, "is not offered", works=f"These work: {', '.join(FORMATS)}")


# What LaTeX's text mode has no glyph for, in mathematics.
_LATEX = {"×": r"$\times$", "ᵀ": r"$^\top$", "√": r"$\surd$"}


def _latex(table: pd.DataFrame) -> str:
    text = table.style.hide(axis="index").format(escape="latex").format_index(
        escape="latex", axis=1
    ).to_latex(hrules=True)  # fmt: skip
    for glyph, command in _LATEX.items():
        text = text.replace(glyph, command)
    return text.rstrip("\n")
