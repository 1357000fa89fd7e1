"""One flat projection as HTML: whose columns are whose, and the ways to project side by side."""

from __future__ import annotations

import html
from collections.abc import Sequence

from torch import Tensor

from mha_core.config import MHAConfig
from mha_core.figures.text import number, tinted_sizes
from mha_core.figures.weight_pictures import Pictures
from mha_core.palette import Palette
from mha_core.projections import LABELS, Facts, OneHead

_LABELLED = 12  # heads that have room for a label each
EXACT = 1e-12  # the most that float64 may differ by


def headline(config: MHAConfig, colours: Palette) -> str:
    """The projection in shapes, and the claim that the page is about."""
    x = tinted_sizes(
        (config.batch, config.time, config.d_model), ("batch", "time", "d_model"), colours
    )
    w = tinted_sizes((config.d_model, config.d_model), ("d_model", "d_model"), colours)
    own = tinted_sizes((config.d_model, config.d_k), ("d_model", "d_k"), colours)
    line = (
        f'<span class="shape">{x}</span> <span class="verb">@ W_q</span>'
        f'<span class="shape">{w}</span> <span class="verb">→</span><span class="shape">{x}</span>'
    )
    say = (
        f"One flat matrix makes the queries of all heads in one product. It is {config.heads} of "
        f'<span class="mono">{own}</span> side by side, one a head: the same numbers, and the '
        "same q."
    )
    return f'<div class="glance"><div class="line">{line}</div></div><p class="fp-say">{say}</p>'


def matrices(
    pictures: dict[str, Pictures], *, d_model: int, heads: int, picked: int, colours: Palette
) -> str:
    """W_q three ways, and the fused matrix below; strips carry `data-pick="head"`.

    Args:
        pictures: of "q", "k" and "v".
        d_model, heads: of the matrices.
        picked: the head whose strip is marked.
        colours: of the ground.
    """
    d_k = d_model // heads
    q = pictures["q"]

    def sizes(*shape: tuple[int, str]) -> str:
        return tinted_sizes([size for size, _ in shape], [name for _, name in shape], colours)

    flat = sizes((d_model, "d_model"), (d_model, "d_model"))
    cut = sizes((d_model, "d_model"), (d_k, "d_k"))
    wide = sizes((d_model, "d_model"), (3 * d_model, "d_model"))
    figures = [
        _figure(
            "W_q, as in x @ W_q", flat, "a head is d_k columns",
            _strips(q.columns, "columns", d_k, picked),
        ),
        _figure(
            "W_q.weight", flat,
            "the transpose, as nn.Linear keeps it: a head is d_k rows",
            _strips(q.rows, "rows", d_k, picked),
        ),
        _figure(
            "h separate matrices", f"{heads} × {cut}", "the same numbers, cut apart",
            _strips(q.columns, "columns apart", d_k, picked),
        ),
    ]  # fmt: skip
    three = "".join(
        f"<div>{_strips(pictures[n].columns, 'columns', d_k, picked, 6)}"
        f'<div class="fp-name">W_{n}</div></div>'
        for n in "qkv"
    )
    fused = _figure(
        "Fused QKV, as in x @ W_qkv", wide, "W_q, W_k, W_v side by side",
        f'<div class="fp-three">{three}</div>',
    )  # fmt: skip
    pooled = (
        ""
        if q.pooled == 1
        else f", the mean of up to {q.pooled} × {q.pooled} numbers, never of two heads"
    )
    note = (
        f'<div class="key">A pixel is |w|{pooled}: the head’s colour at the largest, on a square-'
        "root scale. Choose a head: click, or Tab and Enter.</div>"
    )
    return f'<div class="fp-figures">{"".join(figures)}</div>{fused}{note}'


def _figure(title: str, shape: str, caption: str, body: str) -> str:
    return (
        f'<figure class="fp-figure"><figcaption><b>{html.escape(title)}</b> '
        f'<span class="mono">{shape}</span><span class="fp-caption">{caption}</span></figcaption>'
        f"{body}</figure>"
    )


def _strips(
    pictures: Sequence[str], kind: str, d_k: int, picked: int, labelled: int = _LABELLED
) -> str:
    """One picture a head, side by side or one below the other, each with its label."""
    of = "rows" if kind == "rows" else "columns"
    strips = "".join(
        f'<span class="strip" data-pick="{head}" tabindex="0" role="button" '
        f'aria-pressed="{"true" if head == picked else "false"}" '
        f'aria-label="head {head}: {of} {head * d_k} to {(head + 1) * d_k - 1}">'
        f'<img alt="" src="{source}">'
        f"<i>{head if len(pictures) <= labelled or head == picked else ''}</i></span>"
        for head, source in enumerate(pictures)
    )
    return f'<div class="fp-strips {kind}" style="--n:{len(pictures)}">{strips}</div>'


def head_lesson(one: OneHead, head: int, *, d_model: int, colours: Palette) -> str:
    """What the chosen head owns, and its product alone beside the flat one's columns."""
    d_k = one.stop - one.start
    last = one.offset + d_k * d_model - 1
    shape = tinted_sizes((d_k, d_model), ("d_k", "d_model"), colours)
    say = (
        f"Head {head} owns columns {one.start} to {one.stop - 1} of W_q. nn.Linear keeps the "
        f"transpose, so these are rows {one.start} to {one.stop - 1} of W_q.weight: one block of "
        f"memory, elements {one.offset:,} to {last:,}."
    )
    code = (
        f"W_q.weight[{one.start}:{one.stop}]  # {shape}<br>"
        f"x @ W_q.weight[{one.start}:{one.stop}].T  # q of head {head}, before the bias"
    )
    shown = min(d_k, 5)
    header = "".join(f"<th>{one.start + j}</th>" for j in range(shown))
    rows = "".join(
        f'<tr><th class="fp-row">{name}</th>{_numbers(values[:shown])}</tr>'
        for name, values in (("head alone", one.alone), ("flat, its columns", one.flat))
    )
    return (
        f'<div class="lesson fp-lesson" style="border-color:{colours.head(head)}"><div class="say">'
        f"<p>{say}</p><code>{code}</code></div>"
        f'<div class="corner"><div class="caption">q of batch item 0, position 0</div>'
        f'<table class="values"><tr><th></th>{header}</tr>{rows}</table></div></div>'
    )


def _numbers(values: Tensor) -> str:
    return "".join(f"<td>{number(float(value), 4)}</td>" for value in values)


def facts_table(facts: Sequence[Facts], dtype: str, colours: Palette) -> str:
    """A row for each way to project: parameter tensors, kernels, differences."""
    titles = (
        "parameter tensors", "kernels", f"largest difference, {dtype}", "in float64", "numbers",
        "weights, as nn.Linear keeps them",
    )  # fmt: skip
    head = "".join(f'<th scope="col">{title}</th>' for title in ("q, k and v from", *titles))
    body = "".join(_row(one, colours) for one in facts)
    return f'<div class="stats fp-facts"><table><tr>{head}</tr>{body}</table></div>'


def _row(one: Facts, colours: Palette) -> str:
    rows = "d_k" if one.name in ("separate", "apart") else "d_model"
    shape = tinted_sizes(one.shape, (rows, "d_model"), colours)
    launched = " + ".join(f"{count} {name}" for name, count in one.operators.items())
    kernels = f"{one.kernels:,}<span class='fp-which'>{html.escape(launched)}</span>"
    differences = ["the reference", ""]
    if one.name != "flat":
        good = one.exact < EXACT
        mark = f'<span class="{"holds" if good else "fails"}">{"✓" if good else "✗"}</span>'
        exact = number(one.exact, 2)
        differences = [number(one.difference, 2), f"{exact} {'&lt;' if good else '≥'} 1e−12 {mark}"]
    cells = (
        f"{one.tensors:,}", kernels, *differences, f"{one.parameters:,}",
        f'{one.matrices} × <span class="mono">{shape}</span>',
    )  # fmt: skip
    return f"<tr><td>{LABELS[one.name]}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
