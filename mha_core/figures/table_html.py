"""The shape table as HTML: tinted axis names, memory as chips, one row a step."""

from __future__ import annotations

import html
from collections.abc import Sequence

from mha_core.errors import human_bytes
from mha_core.figures.text import breakable, number, tinted, tinted_sizes
from mha_core.palette import Palette
from mha_core.records import Step
from mha_core.steps import NINE

_SHORT = ("", "operation", "input", "output", "memory")
_LONG = (
    "", "operation", "input", "output", "memory", "strides", "contiguous",
    "bytes", "copied", "FLOPs", "ms", "operators",
)  # fmt: skip
_NUMBERS = frozenset({"bytes", "copied", "FLOPs", "ms"})


def shape_table(
    steps: Sequence[Step], *, detail: bool, picked: str | None, colours: Palette
) -> str:
    """A `<table>`; rows carry `data-pick="step id"` and can be focused."""
    # A step between the nine has a row where it was chosen, which other pages link to.
    rows = [step for step in steps if detail or step.id in NINE or step.id == picked]
    titles = _LONG if detail else _SHORT
    head = "".join(
        f'<th scope="col"{_right(title)}>{title or "<span class=sr>step</span>"}</th>'
        for title in titles
    )
    body = "".join(_row(step, detail, step.id == picked, colours) for step in rows)
    kind = "detail" if detail else "short"
    return (
        f'<table class="shapes {kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _right(title: str) -> str:
    return ' class="num"' if title in _NUMBERS else ""


def _row(step: Step, detail: bool, picked: bool, colours: Palette) -> str:
    spec = step.spec
    times = '<span class="times"> × </span>'
    symbolic = times.join(tinted(shape, colours) for shape in spec.inputs)
    sizes = times.join(
        tinted_sizes(shape, names, colours)
        for shape, names in zip(step.input_shapes, spec.inputs, strict=True)
    )
    made = tinted_sizes(step.shape, spec.output, colours)
    cells = [
        f'<td class="no">{step.number}</td>',
        f'<th scope="row" class="op">{breakable(spec.operation)}{_which(step, detail)}</th>',
        f'<td class="in">{_shape(symbolic, sizes)}</td>',
        f'<td class="out">{_shape(tinted(spec.output, colours), made)}</td>',
        f'<td class="mem">{chip(step)}</td>',
    ]
    if detail:
        operators = ", ".join(operator.name.removeprefix("aten.") for operator in step.operators)
        milliseconds = "" if step.milliseconds is None else f"{step.milliseconds:.3f}"
        cells += [
            f'<td class="mono">{step.strides}</td>',
            f"<td>{'yes' if step.contiguous else 'no'}</td>",
            f'<td class="num">{step.nbytes:,}</td>',
            f'<td class="num">{step.copied or 0:,}</td>',
            f'<td class="num">{step.flops or 0:,}</td>',
            f'<td class="num">{milliseconds}</td>',
            f'<td class="ops">{html.escape(operators)}</td>',
        ]
    chosen = "true" if picked else "false"
    return f'<tr data-pick="{step.id}" tabindex="0" aria-selected="{chosen}">{"".join(cells)}</tr>'


def _which(step: Step, detail: bool) -> str:
    """Which of q, k and v a row is about, where its operation does not say."""
    if step.number not in ("2", "3"):
        return ""
    between = detail or step.id not in NINE
    return f' <span class="which">{step.id[-1]}</span>' if between else ""


def _shape(symbolic: str, sizes: str) -> str:
    if not symbolic:
        return ""
    return f'<div class="sym">{symbolic}</div><div class="now">{sizes}</div>'


def chip(step: Step) -> str:
    """Memory in a word: view, new with its bytes, copy with its bytes."""
    size = "" if step.storage == "view" else f" {human_bytes(step.nbytes)}"
    title = f"shares the memory of {step.view_of}" if step.view_of else "memory of its own"
    return f'<span class="chip {step.storage}" title="{title}">{step.storage}{size}</span>'


def values_table(step: Step, colours: Palette, *, rows: int = 6, columns: int = 8) -> str:
    """A corner of the tensor's last two axes, in real numbers."""
    tensor = step.tensor
    if tensor is None:
        return ""
    lead = tensor.dim() - 2
    corner = tensor[(0,) * lead][:rows, :columns].float().cpu()
    names = step.spec.output
    header = "".join(f"<th>{j}</th>" for j in range(corner.shape[1]))
    body = "".join(
        f"<tr><th>{i}</th>{''.join(f'<td>{number(float(v), 3)}</td>' for v in row)}</tr>"
        for i, row in enumerate(corner)
    )
    place = ", ".join([*("0" for _ in range(lead)), f":{corner.shape[0]}", f":{corner.shape[1]}"])
    axes = (
        f'rows <span style="color:{colours.tints[names[-2]]}">{names[-2]}</span>, '
        f'columns <span style="color:{colours.tints[names[-1]]}">{names[-1]}</span>'
    )
    return (
        f'<div class="corner"><div class="caption">[{place}] of {tuple(tensor.shape)}: {axes}</div>'
        f'<table class="values"><tr><th></th>{header}</tr>{body}</table></div>'
    )
