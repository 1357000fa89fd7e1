"""The words beside the memory figure: the element, its neighbours, what ran, what torch refused."""

from __future__ import annotations

import html
from collections.abc import Sequence

from mha_core.errors import human_bytes
from mha_core.figures.text import number, plural
from mha_core.memory import (
    Call,
    InMemory,
    InTensor,
    Operand,
    Refusal,
    Stop,
    jumps,
    tensor_name,
    unbroken,
)
from mha_core.palette import Palette
from mha_core.records import Step
from mha_core.steps import MAP

_SHOWN = 4  # kinds of jumps named one by one


def axis_names(axes: Sequence[str]) -> list[str]:
    """The axes by names that differ: of a map, query and key."""
    return ["batch", "h", "query", "key"] if tuple(axes) == MAP else list(axes)


def element(stop: Stop) -> str:
    """Which number the chosen element is, and where it lies."""
    place = stop.place
    index = ", ".join(map(str, place.index))
    return (
        f"<b>{tensor_name(stop.step.id)}[{index}]</b> = {number(stop.value)} · offset "
        f"<b>{place.offset:,}</b> · byte {place.byte:,} of its storage"
    )


def walk(step: Step) -> str:
    """What the whole row-major walk is in memory."""
    found = jumps(step.shape, step.strides)
    run = unbroken(step.shape, step.strides)
    total = sum(found.values())
    if set(found) <= {1}:
        return f"Row-major walk: {plural(total + 1, 'element')}, every step +1: memory in order."
    named = [f"{plural(times, 'step')} of {_signed(by)}" for by, times in found.items()][:_SHOWN]
    more = len(found) - len(named)
    rest = f", {plural(more, 'other distance')}" if more > 0 else ""
    return (
        f"Row-major walk: {plural(total + 1, 'element')}, {', '.join(named)}{rest}. "
        f"Side by side in memory: {plural(run, 'element')}, then a jump."
    )


def neighbours(
    stop: Stop, beside: Sequence[InMemory], along: Sequence[InTensor], colours: Palette
) -> str:
    """Two lists: what lies beside the element in memory, what stands beside it in the tensor."""
    names = axis_names(stop.step.spec.output)
    axes = stop.step.spec.output
    lines = []
    for one in beside:
        if one.index is None:
            said = "not in this tensor"
        elif one.axis is not None:
            said = f"its neighbour along {_tint(names[one.axis], axes[one.axis], colours)} too"
        else:
            said = f"<b>no neighbour</b> in the tensor: {_apart(stop, one.index, names)}"
        at = "" if one.index is None else f"[{', '.join(map(str, one.index))}]"
        lines.append(
            f'<tr><th scope="row">{_signed(one.by)}</th><td class="num">{one.offset:,}</td>'
            f'<td class="mono">{at}</td><td>{said}</td></tr>'
        )
    memory = "".join(lines) or "<tr><td>the storage holds nothing else</td></tr>"
    size = stop.step.dtype.itemsize
    tensor = "".join(
        f'<tr><th scope="row">{_tint(names[axis], axes[axis], colours)}</th>'
        f'<td class="num">{_both(parts)}</td>'
        f'<td class="num">{human_bytes(abs(parts[0].distance) * size)}</td>'
        f"<td>{'side by side' if abs(parts[0].distance) == 1 else 'apart'}</td></tr>"
        for axis, parts in _by_axis(along).items()
    )
    return (
        '<div class="mem-near"><div><h3><i class="dot"></i>Neighbours in memory</h3>'
        f'<table class="mem-small"><thead><tr><th></th><th class="num">offset</th><th>index</th>'
        f"<th>in the tensor</th></tr></thead><tbody>{memory}</tbody></table></div>"
        '<div><h3><i class="ring"></i>Neighbours in the tensor</h3>'
        '<table class="mem-small"><thead><tr><th>one step along</th><th class="num">offset</th>'
        '<th class="num">away</th><th>in memory</th></tr></thead><tbody>'
        f"{tensor or '<tr><td>the tensor holds nothing else</td></tr>'}</tbody></table></div></div>"
    )


def _by_axis(along: Sequence[InTensor]) -> dict[int, list[InTensor]]:
    found: dict[int, list[InTensor]] = {}
    for one in along:
        found.setdefault(one.axis, []).append(one)
    return found


def _both(parts: Sequence[InTensor]) -> str:
    """±48; one sign at an edge."""
    if len(parts) == 2:
        return f"±{abs(parts[0].distance):,}"
    return _signed(parts[0].distance)


def _apart(stop: Stop, index: Sequence[int], names: Sequence[str]) -> str:
    parts = [
        f"{name} {other}, not {mine}"
        for name, mine, other in zip(names, stop.place.index, index, strict=True)
        if mine != other
    ]
    return ", ".join(parts)


def _tint(name: str, axis: str, colours: Palette) -> str:
    return f'<span style="color:{colours.tints[axis]}">{name}</span>'


def _signed(value: int) -> str:
    return f"{value:+,}".replace("-", "−")


def what_ran(step: Step, sides: Sequence[Operand]) -> str:
    """What torch dispatched under a step; of a product, why it copies its operands."""
    if step.view_of is not None:
        said = f"No byte moved: {step.id} has the storage of {step.view_of}, read by other strides."
    elif step.id == "input":
        said = "The input was there before."
    elif step.storage == "copy":
        said = f"A copy: {human_bytes(step.copied or 0)} written in a new order, nothing computed."
    else:
        said = f"New memory, {human_bytes(step.nbytes)}"
        said += f"; {human_bytes(step.copied)} copied on the way." if step.copied else "."
    rows = "".join(
        f'<tr><td class="mono">{html.escape(one.name)}</td>'
        f'<td class="mono">{_shapes(one.inputs)} → {_shapes((one.output,))}</td>'
        f'<td class="num">{_bytes(one.allocated)}</td>'
        f'<td class="num">{_bytes(one.copied)}</td></tr>'
        for one in step.operators
    )
    table = (
        '<div class="mem-scroll"><table class="mem-small"><thead><tr><th>dispatched</th>'
        '<th>shapes</th><th class="num">new</th><th class="num">copied</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
        if rows
        else ""
    )
    reasons = "".join(f"<p>{_operand(side)}</p>" for side in sides)
    code = html.escape(step.spec.code)
    return f"<h3>What ran: <code>{code}</code></h3><p>{said}</p>{reasons}{table}"


def _operand(side: Operand) -> str:
    """Whether a batched product can take an operand as it lies."""
    name = f"<code>{html.escape(side.name)}</code>"
    if side.refusal is None:
        return f"{name} is taken as it lies: batch and h are read as one axis by its strides."
    batch, heads = side.shape[:2]
    return (
        f"{name} is copied, {human_bytes(side.nbytes)}: one <code>bmm</code> does all "
        f"{batch} × {heads} heads, batch and h as one axis; that takes stride(batch) = "
        f"h · stride(h) = {side.refusal.needed:,}, and it is {side.refusal.stride:,}."
    )


def _bytes(count: int) -> str:
    return human_bytes(count) if count else "<i>0</i>"


def _shapes(shapes: Sequence[Sequence[int]]) -> str:
    return " × ".join(f"({', '.join(map(str, shape))})" for shape in shapes)


def call_table(calls: Sequence[Call]) -> str:
    """Calls made just now, and what came of each."""
    rows = "".join(_call(one) for one in calls)
    return (
        '<div class="mem-scroll mem-calls"><table class="mem-small calls"><thead><tr><th>call</th>'
        "<th>on strides</th><th>dispatched</th>"
        '<th class="num">copied</th><th>result</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _call(one: Call) -> str:
    names = ", ".join(operator.name.removeprefix("aten.") for operator in one.operators)
    if one.error is not None:
        result, kind = "refused: RuntimeError, below", " class=refused"
    elif one.itself:
        result, kind = "the tensor itself", ""
    else:
        memory = "the same storage" if one.shares else "a storage of its own"
        result, kind = f"{memory}, strides {one.strides}", ""
    return (
        f'<tr{kind}><td class="mono">{html.escape(one.code)}</td>'
        f'<td class="mono">{one.before}</td>'
        f'<td class="mono">{html.escape(names) or "nothing"}</td>'
        f'<td class="num">{_bytes(one.copied)}</td><td>{result}</td></tr>'
    )


def refused(
    call: Call, rule: Refusal | tuple[int, ...], step: Step, new: Sequence[str], copy: int
) -> str:
    """`view` after `transpose`: torch's own words, and the stride that stands in the way.

    Args:
        call: the `view`, as it was made.
        rule: what the strides say of it.
        step: on whose tensor; new: names of the wanted axes.
        copy: bytes that contiguous() copies instead.
    """
    names = step.spec.output
    code = f"out = out.transpose(1, 2)\n{call.code}"
    if isinstance(rule, Refusal):
        inner = names[rule.axis + 1]
        size, stride = rule.inner
        outer = names[rule.axis]
        why = (
            f"A view moves no byte, so one stride must do for the whole of <b>{new[rule.into]}</b>:"
            f" a step along {outer} must be {size} steps along {inner}, stride({outer}) = {size} · "
            f"{stride} = {rule.needed:,}. After the transpose stride({outer}) is "
            f"<b>{rule.stride:,}</b>. <code>contiguous()</code> writes the elements side by side "
            f"first, {human_bytes(copy)}; <code>reshape</code> does so where it must."
        )
    else:
        why = (
            "At these sizes the strides allow it: an axis of size 1 is never stepped along. "
            "With time, h and d_k above 1, torch refuses."
        )
    said = (
        f'<div class="words">RuntimeError: {html.escape(call.error)}</div>'
        if call.error is not None
        else f'<div class="words fine">no error; strides {call.strides}</div>'
    )
    return f'<div class="mem-error"><pre>{html.escape(code)}</pre>{said}<p>{why}</p></div>'
