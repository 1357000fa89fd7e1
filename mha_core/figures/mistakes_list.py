"""All mistakes as a table one can choose from: what gives each away, and what it changes."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from mha_core.figures.text import number
from mha_core.mistakes.examine import Betrayed, Finding
from mha_core.mistakes.summary import GIVES_AWAY

_CLASSES: dict[Betrayed, str] = {
    "error": "error", "shape": "shape", "nothing": "nothing", "no change": "same",
}  # fmt: skip


def list_html(groups: Mapping[str, Sequence[Finding]], picked: str) -> str:
    """A `<table>`; rows carry `data-pick="mistake id"` and can be focused.

    Args:
        groups: name of the group -> its findings.
        picked: id of the open one.
    """
    head = "<tr><th>mistake</th><th>given away by</th><th class='num'>Δ output</th></tr>"
    body = ""
    for name, findings in groups.items():
        body += f'<tr class="group"><th colspan="3" scope="rowgroup">{html.escape(name)}</th></tr>'
        body += "".join(_row(finding, finding.mistake.id == picked) for finding in findings)
    return f'<table class="mis-list"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _row(finding: Finding, picked: bool) -> str:
    mistake = finding.mistake
    chosen = "true" if picked else "false"
    return (
        f'<tr data-pick="{mistake.id}" tabindex="0" aria-selected="{chosen}">'
        f'<th scope="row">{html.escape(mistake.title)}</th>'
        f"<td>{tag(finding)}</td>"
        f'<td class="num">{html.escape(changed(finding))}</td></tr>'
    )


def tag(finding: Finding) -> str:
    """What gives it away, as a chip."""
    kind = finding.betrayed
    return f'<span class="mis-tag {_CLASSES[kind]}">{GIVES_AWAY[kind]}</span>'


def changed(finding: Finding) -> str:
    """The largest change of the output in a few digits; NaN where some of it became that."""
    if finding.wrong.not_finite > finding.right.not_finite:
        return "NaN"
    return "–" if finding.change is None else measured(finding.change)


def measured(value: float) -> str:
    """Two decimals; of what is too small for them, two digits."""
    return f"{value:.2f}" if value == 0 or abs(value) >= 0.01 else number(value, 2)
