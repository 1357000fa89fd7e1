"""One mistake, open: the code of both forwards, what the wrong one did, and how to notice."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from mha_core.figures.mistakes_code import code_html, diff_html
from mha_core.figures.mistakes_list import changed, measured, tag
from mha_core.figures.mistakes_maps import maps_html
from mha_core.figures.text import tinted_sizes
from mha_core.mistakes.examine import Finding, Outcome
from mha_core.mistakes.measures import MapsSeen, Measures
from mha_core.palette import Palette
from mha_core.steps import FLAT, MAP

_AXES = {3: FLAT, 4: MAP}
_SAME = (
    "At these sizes the wrong code gives the right numbers, and no check can tell: the mistake "
    "waits for a larger h, batch or time."
)


def detail_html(
    finding: Finding,
    seen: MapsSeen | None,
    *,
    heads: int,
    colours: Palette,
    tokens: Sequence[str] | None = None,
) -> str:
    """A mistake from its cause to its repair, in HTML.

    Args:
        finding: what ran.
        seen: its maps; None where one forward raised.
        heads: h of the module.
        colours: of the ground.
        tokens: one a position; positions are labelled by number when None.
    """
    mistake = finding.mistake
    fix = html.escape(mistake.fix)
    return "".join(
        [
            f'<div class="mis-title"><h2>{html.escape(mistake.title)}</h2>{tag(finding)}</div>',
            f'<p class="mis-why">{html.escape(mistake.why)}</p>',
            diff_html(mistake.code("wrong"), mistake.code("right")),
            f'<div class="mis-fix"><span>the fix</span><code>{fix}</code></div>',
            _said(finding),
            _numbers(finding, seen, colours),
            "" if seen is None else maps_html(seen, heads=heads, colours=colours, tokens=tokens),
            _noticed(finding),
            _around(mistake.around()),
            _seen_in(mistake.seen_in),
        ]
    )


def _said(finding: Finding) -> str:
    """torch's own words, where it had any."""
    if finding.wrong.error:
        return (
            '<div class="mis-error"><span>what torch said when the wrong code ran</span>'
            f"<code>{html.escape(finding.wrong.error)}</code></div>"
        )
    return f'<div class="mis-note">{_SAME}</div>' if finding.betrayed == "no change" else ""


def _numbers(finding: Finding, seen: MapsSeen | None, colours: Palette) -> str:
    """Shapes and statistics, wrong beside right; rows that differ stand out."""
    rows = [
        (f"{name}, shape", _shape(finding.wrong, n, colours), _shape(finding.right, n, colours))
        for n, name in enumerate(("output", "weights"))
    ]
    note = ""
    if seen is not None:
        right, wrong = seen.measures()
        rows += [
            ("sum of a row of weights", _sums(wrong), _sums(right)),
            ("entropy, nats", _mean(wrong, wrong.entropy), _mean(right, right.entropy)),
            ("effective keys", _mean(wrong, wrong.effective_keys),
             _mean(right, right.effective_keys)),
        ]  # fmt: skip
        if wrong.hidden is not None and right.hidden is not None:
            rows.append(("weight on hidden keys", _share(wrong.hidden), _share(right.hidden)))
        changes = finding.weight_change
        weights = "" if changes is None else f", of the weights {measured(changes)}"
        if wrong.broken_rows > right.broken_rows:
            weights = ", of the weights NaN"
        note = (
            f"Largest change of the output {changed(finding)}{weights}, over all heads and batch "
            "items. Sums, entropy and keys: of the head below."
        )
    body = "".join(
        f'<tr{"" if wrong == right else " class=apart"}><th scope="row">{name}</th>'
        f"<td>{wrong}</td><td>{right}</td></tr>"
        for name, wrong, right in rows
    )
    return (
        '<table class="mis-numbers"><thead><tr><th></th><th>wrong</th><th>right</th></tr></thead>'
        f'<tbody>{body}</tbody></table><div class="key">{note}</div>'
    )


def _shape(outcome: Outcome, n: int, colours: Palette) -> str:
    """In the tints of its axes, where it has those it should have."""
    if not outcome.shapes:
        return "raises"
    shape = outcome.shapes[n]
    names = _AXES.get(len(shape), ("time",) * len(shape))
    return f'<span class="mono">{tinted_sizes(shape, names, colours)}</span>'


def _sums(found: Measures) -> str:
    """The sums of the rows, from the smallest to the largest, and how many are NaN."""
    broken = f"NaN in {found.broken_rows} of {found.rows} rows" if found.broken_rows else ""
    if found.row_sums is None:
        return broken
    low, high = (f"{value:.3f}" for value in found.row_sums)
    span = low if low == high else f"{low} to {high}"
    return f"{broken}, else {span}" if broken else span


def _mean(found: Measures, value: float) -> str:
    return "NaN" if found.row_sums is None else measured(value)


def _share(share: float) -> str:
    return f"{100 * share:.1f} %"


def _noticed(finding: Finding) -> str:
    """The check in words and in code, and what it says of both."""
    mistake = finding.mistake
    wrong = _verdict("on the wrong code", not finding.caught)
    right = _verdict("on the right code", finding.passed)
    return (
        f'<div class="mis-where"><b>How to notice</b><span>{wrong}{right}</span></div>'
        f'<p class="mis-why">{html.escape(mistake.sign)}</p>{code_html(mistake.code("check"))}'
    )


def _verdict(where: str, holds: bool) -> str:
    kind, mark, word = ("holds", "✓", "holds") if holds else ("fails", "✗", "fails")
    return f'<span class="mis-verdict {kind}">{mark} {word} <i>{where}</i></span>'


def _around(helpers: Mapping[str, str]) -> str:
    """The helpers in full, closed until opened."""
    if not helpers:
        return ""
    names = html.escape(", ".join(helpers))
    listing = code_html("\n\n\n".join(helpers.values()))
    return f"<details><summary>{names}: what surrounds it</summary>{listing}</details>"


def _seen_in(places: Sequence[str]) -> str:
    """Where people met it, as links."""
    if not places:
        return ""
    links = ", ".join(
        f'<a href="https://github.com/{repository}/issues/{n}" target="_blank" '
        f'rel="noopener noreferrer">{repository}#{n}</a>'
        for repository, n in (place.rsplit("#", 1) for place in places)
    )
    return f'<div class="key">Met in {links}</div>'
