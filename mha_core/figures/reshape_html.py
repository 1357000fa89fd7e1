"""A reshape as HTML: the mistake where it was typed, the line of shapes, the table, the values."""

from __future__ import annotations

import html

from mha_core.errors import human_bytes
from mha_core.figures.reshape_names import Names
from mha_core.figures.text import plural
from mha_core.palette import Palette
from mha_core.reshape.errors import ReshapeError
from mha_core.reshape.flow import Flow
from mha_core.reshape.run import Run, Step

_SHOWN = 5  # shapes in the line at the top; of more, the first and the last
_TITLES = ("", "operation", "shape", "strides", "row-major", "memory", "operators")


def error_html(error: ReshapeError) -> str:
    """What was typed, with a caret under the fault, and the error in words."""
    before, fault, after = (html.escape(part) for part in error.parts())
    works = f'<div class="works">{html.escape(error.works)}.</div>' if error.works else ""
    said = str(error).split(": ", 1)
    where, rule = said[0], f"{error.rule}."
    return (
        f'<div class="rp-error" role="alert"><div class="typed" aria-hidden="true">{before}'
        f"<mark>{fault}</mark>{after}</div>"
        f'<div class="rule"><b>{html.escape(where)}</b>: {html.escape(rule)}</div>{works}</div>'
    )


def glance_html(run: Run, colours: Palette) -> str:
    """The shapes in one line, from x to the result; what was copied in another."""
    names = Names(run, colours)
    steps = run.steps
    parts = [_shape(steps[0], names)]
    if len(steps) <= _SHOWN:
        parts += [f"{_verb(step.code.split('(')[0])}{_shape(step, names)}" for step in steps[1:]]
    else:
        parts.append(f"{_verb(f'{len(steps) - 1} steps')}{_shape(steps[-1], names)}")
    facts = [
        (f"{run.plan.numel:,}", "elements in x" if run.plan.numel > 1 else "element in x"),
        (human_bytes(steps[0].allocated), "as float32"),
        (plural(len(steps) - 1, "step"), ""),
        (str(run.copies), "copy" if run.copies == 1 else "copies"),
        (human_bytes(run.allocated), "allocated by them"),
    ]
    row = "".join(f"<span><b>{value}</b> {what}</span>" for value, what in facts)
    return (
        f'<div class="glance"><div class="line">{" ".join(parts)}</div>'
        f'<div class="facts">{row}{_agreement(run)}</div></div>'
    )


def _verb(text: str) -> str:
    return f'<span class="verb">{html.escape(text)} →</span> '


def _shape(step: Step, names: Names) -> str:
    return f'<span class="shape">{names.sizes(step.shape, step.names)}</span>'


def _agreement(run: Run) -> str:
    """Whether einops, run on the same tensor, gave the same."""
    if run.einops is None:
        return '<span class="rp-agrees">no einops pattern regroups elements like this</span>'
    mark = '<b class="holds">✓</b>' if run.agrees else '<b class="fails">✗</b>'
    return f'<span class="rp-agrees">same as einops.{run.einops.function} {mark}</span>'


def steps_table(run: Run, *, picked: int, colours: Palette) -> str:
    """A `<table>`; rows carry `data-pick="number"` and can be focused."""
    names = Names(run, colours)
    head = "".join(
        f'<th scope="col" class="{title.replace("-", "")}">'
        f"{title or '<span class=sr>step</span>'}</th>"
        for title in _TITLES
    )
    body = "".join(_row(step, names, step.number == picked) for step in run.steps)
    return f'<table class="shapes rp"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _row(step: Step, names: Names, picked: bool) -> str:
    symbolic = names.shape(step.names)
    sizes = names.sizes(step.shape, step.names)
    shape = f'<div class="sym">{symbolic}</div>' if symbolic else ""
    operators = ", ".join(step.operators)
    code = html.escape(step.code).replace("(", "(<wbr>").replace(", ", ", <wbr>")
    return (
        f'<tr data-pick="{step.number}" tabindex="0" aria-selected="{str(picked).lower()}">'
        f'<td class="no">{step.number}</td><th scope="row" class="op">{code}</th>'
        f'<td class="out">{shape}<div class="now">{sizes}</div>'
        f'<div class="rp-strides">strides {step.strides}</div></td>'
        f'<td class="strides mono">{step.strides}</td>'
        f'<td class="rowmajor">{"yes" if step.contiguous else "no"}</td>'
        f'<td class="mem">{_chip(step)}</td>'
        f'<td class="operators">{html.escape(operators)}</td></tr>'
    )


def _chip(step: Step) -> str:
    """Memory in a word: view, new with its bytes, copy with its bytes."""
    size = "" if step.storage == "view" else f" {human_bytes(step.allocated)}"
    title = "memory of its own" if size else "shares the memory of the step before"
    return f'<span class="chip {step.storage}" title="{title}">{step.storage}{size}</span>'


def lesson_html(run: Run, number: int, flow: Flow, colours: Palette) -> str:
    """What a step did to memory and why, its code, and the elements as they stand."""
    step = run.steps[number]
    names = Names(run, colours)
    code = "x" if number == 0 else f"y = y.{step.code}" if number > 1 else f"y = x.{step.code}"
    if number == 0:
        code = f"x = torch.arange({run.plan.numel}).view({', '.join(map(str, step.shape))})"
    return (
        f'<div class="lesson"><div class="say"><p>{html.escape(step.why)}</p>'
        f"<code>{html.escape(code)}</code></div>{_values(step, names, flow.element)}</div>"
    )


def _values(step: Step, names: Names, followed: int) -> str:
    """A corner of the tensor: the numbers of the elements that stand there."""
    rows, columns = step.corner.shape
    header = "".join(f"<th>{j}</th>" for j in range(columns))
    body = "".join(
        f"<tr><th>{i}</th>"
        + "".join(
            f'<td class="{"rp-here" if v == followed else ""}">{v}</td>' for v in row.tolist()
        )
        + "</tr>"
        for i, row in enumerate(step.corner)
    )
    rank = len(step.shape)
    place = [*("0" for _ in range(rank - 2)), f":{rows}", f":{columns}"]
    place = place[-rank:] if rank else []
    what = ""
    if rank >= 2:
        axes = [names.name(step.names[n], n) for n in (rank - 2, rank - 1)]
        what = f": rows {axes[0]}, columns {axes[1]}"
    caption = f"elements at [{', '.join(place)}] of {step.shape}{what}"
    return (
        f'<div class="corner"><div class="caption">{caption}</div>'
        f'<table class="values"><tr><th></th>{header}</tr>{body}</table></div>'
    )
