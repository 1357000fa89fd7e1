"""The two languages side by side as HTML: the code of every step, its shapes, how far apart."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from mha_core.figures.text import number, tinted_sizes
from mha_core.libtorch.compare import Difference
from mha_core.libtorch.lines import Lines
from mha_core.palette import Palette
from mha_core.records import Step

_SHORT = 2  # lines of a function that are shown where it is called; longer ones open


def side_by_side(
    steps: Sequence[Step],
    python: Mapping[str, Lines],
    cpp: Mapping[str, Lines],
    differences: Sequence[Difference],
    colours: Palette,
) -> str:
    """A block for every numbered step: its shapes, Python's lines and those of C++.

    Args:
        steps: those that ran.
        python, cpp: the lines of every step.
        differences: of the steps; empty before anything was compared.
        colours: of the ground.
    """
    found = {one.step: one for one in differences}
    blocks = [
        _block(list(same), python, cpp, found, colours)
        for _, same in groupby((step for step in steps if step.id != "input"), _number)
    ]
    return f'<div class="lt-steps">{"".join(blocks)}</div>'


def _number(step: Step) -> str:
    return step.number


def _block(
    steps: list[Step],
    python: Mapping[str, Lines],
    cpp: Mapping[str, Lines],
    found: Mapping[str, Difference],
    colours: Palette,
) -> str:
    first = steps[0]
    times = '<span class="times"> × </span>'
    taken = times.join(
        tinted_sizes(shape, names, colours)
        for shape, names in zip(first.input_shapes, first.spec.inputs, strict=True)
    )
    made = tinted_sizes(first.shape, first.spec.output, colours)
    each = '<span class="lt-each">q, k and v each</span>' if len(steps) > 1 else ""
    compared = [found[step.id] for step in steps if step.id in found]
    apart = _apart(max(compared, key=_badness)) if compared else ""
    title = html.escape(", ".join(dict.fromkeys(step.spec.operation for step in steps)))
    return (
        f'<section class="lt-step" data-step="{first.number}"><header><span class="no">'
        f"{first.number}</span><b>{title}</b>"
        f'<span class="mono lt-shapes">{taken} → {made}</span>{each}{apart}</header>'
        f'<div class="lt-two">{_code("Python", [python[step.id] for step in steps])}'
        f"{_code('C++', [cpp[step.id] for step in steps])}</div></section>"
    )


def _badness(one: Difference) -> float:
    if math.isnan(one.largest):
        return math.inf
    return one.largest if not one.equal else -1.0


def _apart(one: Difference) -> str:
    if one.equal:
        return '<span class="lt-apart holds">0, every bit the same</span>'
    if math.isnan(one.largest):
        return f'<span class="lt-apart fails">C++ gave {one.shape}, or no number</span>'
    kind = "holds" if one.largest == 0.0 else "differs"
    return f'<span class="lt-apart {kind}">largest difference {number(one.largest, 2)}</span>'


def _code(language: str, lines: Sequence[Lines]) -> str:
    statements = "".join(_wrapped(line.statement) for line in lines)
    # q, k and v call the same one.
    helpers = {name: body for line in lines for name, body in line.helpers}
    shown = "".join(_helper(name, body) for name, body in helpers.items())
    return (
        f'<figure><figcaption>{language}</figcaption><pre class="lt-code"><code>{statements}'
        f"</code></pre>{shown}</figure>"
    )


def _wrapped(code: str) -> str:
    """Each line a block of its own, so that what does not fit goes on further in."""
    return "".join(
        f"<span>{html.escape(line, quote=False).replace('-&gt;', '<b>-&gt;</b>')}\n</span>"
        for line in code.splitlines()
    )


def _helper(name: str, body: str) -> str:
    code = _wrapped(body)
    count = len(body.splitlines())
    if count <= _SHORT:
        return (
            f'<pre class="lt-code lt-helper"><code><i>{html.escape(name)}:\n</i>{code}</code></pre>'
        )
    return (
        f'<details class="lt-more"><summary>{html.escape(name)}, {count} lines</summary>'
        f'<pre class="lt-code lt-helper"><code>{code}</code></pre></details>'
    )


def verdict(differences: Sequence[Difference], threads: int) -> str:
    """What the comparison came to, in a sentence."""
    count = len(differences)
    equal = sum(one.equal for one in differences)
    on = f"on the CPU, with {threads} thread{'' if threads == 1 else 's'} each"
    if equal == count:
        return f"All {count} tensors are equal in C++ and in Python, bit for bit, {on}."
    worst = max((one for one in differences if not one.equal), key=_badness)
    if math.isnan(worst.largest):
        return f"{worst.step} cannot be compared: C++ gave {worst.shape}, {on}."
    return (
        f"{equal} of {count} tensors are equal bit for bit, {on}; the largest difference is "
        f"{number(worst.largest, 2)}, at {worst.step}."
    )
