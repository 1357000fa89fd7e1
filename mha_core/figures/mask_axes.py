"""How a shape broadcasts, axis by axis, and what each library said to it."""

from __future__ import annotations

import html
from collections.abc import Sequence

from mha_core.figures.text import plural
from mha_core.mask_lab.broadcast import Attempt, Axis
from mha_core.palette import Palette

SAID = {
    "same": "same size",
    "stretched": "1, repeated",
    "added": "missing: added as 1, repeated",
    "wrong": "does not fit",
    "extra": "one axis too many",
}
_TINTS = {"batch": "batch", "h": "h", "Tq": "time", "Tk": "time", "": "d_k"}


def axes_html(axes: Sequence[Axis], colours: Palette) -> str:
    """The axes side by side: the scores' size above the mask's, and the verdict below."""
    columns = "".join(_axis(axis, colours) for axis in axes)
    return (
        f'<div class="mk-axes"><div class="mk-axis names"><span>axis</span><span>scores</span>'
        f"<span>mask</span><span></span></div>{columns}</div>"
    )


def _axis(axis: Axis, colours: Palette) -> str:
    tint = colours.tints[_TINTS[axis.name]]
    has = "–" if axis.given is None else str(axis.given)
    size = "–" if axis.name == "" else str(axis.size)
    kind = "good" if axis.fits else "bad"
    said = SAID[axis.verdict]
    if axis.verdict == "stretched":
        said = f"1, repeated {axis.size} ×"
    elif axis.verdict == "added":
        said = f"missing: added as 1, repeated {axis.size} ×"
    elif axis.verdict == "wrong":
        said = f"{axis.given} is neither 1 nor {axis.size}"
    return (
        f'<div class="mk-axis {axis.verdict}"><span style="color:{tint}">{axis.name or "?"}</span>'
        f'<span style="color:{tint}">{size}</span><span class="has">{has}</span>'
        f'<span class="{kind}">{said}</span></div>'
    )


def result_html(
    shape: Sequence[int], target: Sequence[int], strides: Sequence[int] | None, traps: Sequence[str]
) -> str:
    """Whether the shape fits, the strides that torch gave it, and traps."""
    stored = 1
    for size in shape:
        stored *= size
    full = 1
    for size in target:
        full *= size
    if strides is None:
        line = (
            f'<div class="mk-verdict bad">✗ {tuple(shape)} does not broadcast to '
            f"{tuple(target)}</div>"
        )
    else:
        line = (
            f'<div class="mk-verdict good">✓ {tuple(shape)} broadcasts to {tuple(target)}</div>'
            f'<div class="mk-why">expanded strides {tuple(strides)}: a stride of 0 reads the same '
            f"number again, so {plural(stored, 'number')} in memory stand for {full:,} and none is "
            "copied</div>"
        )
    return line + "".join(f'<div class="mk-trap">{html.escape(trap)}</div>' for trap in traps)


def attempts_html(ours: str, attempts: Sequence[Attempt]) -> str:
    """Who takes the shape: ours and torch's own, with the error each raised."""
    rows = [Attempt("attend(q, k, v, mask=mask)  # this package", ours), *attempts]
    body = "".join(
        f'<div class="mk-try"><span class="{"bad" if row.error else "good"}">'
        f"{'✗' if row.error else '✓'}</span><div><code>{html.escape(row.call)}</code>"
        f"<p>{html.escape(row.error) or 'runs'}</p></div></div>"
        for row in rows
    )
    return f'<div class="mk-tries">{body}</div>'
