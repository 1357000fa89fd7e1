"""Fills by dtype: what each becomes, what leaks, where NaN is born and how far it spreads."""

from __future__ import annotations

import html
from collections.abc import Sequence

from mha_core.figures.text import number, plural
from mha_core.mask_lab.fill_records import FillRun, Found
from mha_core.mask_lab.fills import LOWEST, LOWEST_32
from mha_core.steps import STEPS

NAMES = {"-inf": "−∞", LOWEST: "finfo.min of the dtype", LOWEST_32: "finfo.min of float32",
         "-1e9": "−1e9", "-1e4": "−1e4", "ours": "this package"}  # fmt: skip
BLIND = {"0": "0", "NaN": "NaN", "even": "an even spread", "other": "uneven"}
TITLES = (
    "fill", "dtype", "how", "becomes", "refused", "largest leak", "at", "leak of a row",
    "rows without a key", "they become", "NaN born", "index", "NaN gradients",
)  # fmt: skip


def name_of(fill: str) -> str:
    return NAMES.get(fill, fill.replace("-", "−"))


def step_name(step: str) -> str:
    """The operation of a step, as the shape table says it."""
    return {"q": "q", "k": "k", "v": "v"}.get(step) or (
        STEPS[step].operation if step in STEPS else step
    )


def matrix_html(runs: Sequence[Sequence[FillRun]], picked: tuple[str, str]) -> str:
    """One row a fill, one cell a dtype; cells carry `data-pick="fill|dtype"`."""
    heads = "".join(f'<div class="mk-dtype">{run.dtype}</div>' for run in runs[0])
    rows = "".join(
        f'<div class="mk-fill">{html.escape(name_of(row[0].fill))}</div>'
        + "".join(_cell(run, (run.fill, run.dtype) == picked) for run in row)
        for row in runs
    )
    return f'<div class="mk-matrix"><div class="mk-dtype"></div>{heads}{rows}</div>'


def _cell(run: FillRun, picked: bool) -> str:
    lines = _lines(run)
    body = "".join(f'<div class="{kind}">{text}</div>' for text, kind in lines)
    return (
        f'<div class="mk-case" data-pick="{html.escape(run.fill)}|{run.dtype}" tabindex="0" '
        f'role="button" aria-selected="{str(picked).lower()}"><small>{run.dtype}</small>{body}'
        "</div>"
    )


def _lines(run: FillRun) -> list[tuple[str, str]]:
    """(HTML, class): what it became, what leaked, rows without a key, NaN."""
    if run.error:
        return [("refused by masked_fill", "bad")]
    became = number(run.stored.becomes, 7)
    shown = [(f"becomes {became}", "" if run.stored.exact else "warn")]
    if run.fill == "ours":
        shown = [("−∞, empty rows 0", "")]
    leak = run.leak
    if leak is None:
        return shown
    said = f"leaks {number(leak.largest, 2)}" if leak.largest else "no leak"
    shown.append((said, "bad" if leak.largest else "good"))
    if leak.blind:
        kind = "good" if leak.blind_weights == "0" else "bad"
        shown.append((f"empty rows: {BLIND[leak.blind_weights]}", kind))
    if run.overflowed is not None:
        shown.append((f"∞ in {html.escape(step_name(run.overflowed.step))}", "bad"))
    if run.born is not None:
        shown.append((f"NaN from {html.escape(step_name(run.born.step))}", "bad"))
    else:
        shown.append(("no NaN", "good"))
    return shown


def detail_html(run: FillRun) -> str:
    """The chosen run: in a sentence, then every step forward and every gradient backward."""
    title = f"<b>{html.escape(name_of(run.fill))} in {run.dtype}</b>"
    if run.error:
        return f'<div class="mk-detail">{title}<p class="bad">{html.escape(run.error)}</p></div>'
    back = ""
    if run.backward:
        sent = "" if not run.spoilt else f": {len(run.spoilt)} of {len(run.backward)} have NaN"
        back = (
            f'<div class="mk-why">gradients, from the output back{sent}</div>{_strip(run.backward)}'
        )
    else:
        back = '<div class="mk-why">No position sees a key: there is no loss to go back from.</div>'
    return (
        f'<div class="mk-detail">{title}<p>{_sentence(run)}</p>'
        f'<div class="mk-why">forward</div>{_strip(run.forward)}{back}</div>'
    )


def _sentence(run: FillRun) -> str:
    parts = []
    if run.stored.refused and run.fill != "ours":
        parts.append(f"masked_fill refuses the number ({html.escape(run.stored.refused)}).")
    leak = run.leak
    if leak is not None and leak.at is not None:
        item, head, query, key = leak.at
        parts.append(
            f"Most weight on a masked key: {number(leak.largest, 4)}, batch item {item}, head "
            f"{head}, query {query}, key {key}; a row leaks {number(leak.total, 4)} at most."
        )
    if leak is not None and leak.blind:
        parts.append(
            f"{plural(leak.blind, 'row')} without a visible key: {BLIND[leak.blind_weights]}."
        )
    born = run.born
    if run.overflowed is not None:
        parts.append(f"{_where(run.overflowed, 'infinity')}.")
    if born is not None:
        parts.append(f"{_where(born, 'NaN')}.")
    if not parts:
        parts.append("No weight on a masked key, no NaN, forward or backward.")
    return " ".join(parts)


def _where(found: Found, what: str) -> str:
    index = ", ".join(map(str, found.first or ()))
    count = found.nan or found.infinite
    return (
        f"First {what} in {html.escape(step_name(found.step))}, at [{index}]: {count:,} of "
        f"{found.total:,}"
    )


def _strip(found: Sequence[Found]) -> str:
    return f'<div class="mk-strip">{"".join(_chip(one) for one in found)}</div>'


def _chip(found: Found) -> str:
    kind, said = "good", "finite"
    if found.nan:
        kind, said = "bad", f"{found.nan:,} NaN"
    elif found.infinite:
        kind, said = "warn", f"{found.infinite:,} infinite"
    share = 100 * (found.nan or found.infinite) / max(1, found.total)
    index = ""
    if found.first is not None:
        index = f"<small>first [{', '.join(map(str, found.first))}]</small>"
    return (
        f'<div class="mk-step {kind}" data-step="{found.step}"><b>{html.escape(found.step)}</b>'
        f'<span>{said}</span><s style="width:{share:.0f}%"></s>{index}</div>'
    )


def fill_rows(runs: Sequence[Sequence[FillRun]]) -> list[tuple[object, ...]]:
    """Every run as a row under `TITLES`, numbers as they are."""
    rows: list[tuple[object, ...]] = []
    for run in (one for row in runs for one in row):
        leak, born = run.leak, run.born
        rows.append((
            run.fill, run.dtype, run.how, run.stored.becomes, run.stored.refused,
            None if leak is None else leak.largest, None if leak is None else leak.at,
            None if leak is None else leak.total, None if leak is None else leak.blind,
            None if leak is None else leak.blind_weights,
            None if born is None else born.step, None if born is None else born.first,
            " ".join(found.step for found in run.spoilt),
        ))  # fmt: skip
    return rows
