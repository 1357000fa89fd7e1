"""The wrong code and the right one as one listing: common lines once, the others signed."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from difflib import SequenceMatcher

_COMMENT = re.compile(r"(^|\s\s)(#\s.*)$")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def code_html(source: str) -> str:
    """A function, its comments quiet."""
    lines = "".join(_line("", [(text, False)]) for text in source.splitlines())
    return f'<pre class="mis-code"><code>{lines}</code></pre>'


def diff_html(wrong: str, right: str) -> str:
    """Both functions; what differs within a line is marked.

    Lines of the wrong one have the class `out` and a minus, of the right one `in` and a plus.
    """
    a, b = wrong.splitlines(), right.splitlines()
    rows: list[str] = []
    for kind, a_from, a_to, b_from, b_to in SequenceMatcher(None, a, b, False).get_opcodes():
        if kind == "equal":
            rows += [_line("", [(text, False)]) for text in a[a_from:a_to]]
            continue
        out, into = _marked(a[a_from:a_to], b[b_from:b_to])
        rows += [_line("out", parts) for parts in out]
        rows += [_line("in", parts) for parts in into]
    return f'<pre class="mis-code diff"><code>{"".join(rows)}</code></pre>'


Parts = list[tuple[str, bool]]


def _marked(a: Sequence[str], b: Sequence[str]) -> tuple[list[Parts], list[Parts]]:
    """Lines as (text, differs) parts; lines are compared one by one where there are as many."""
    if len(a) != len(b):
        return [[(text, False)] for text in a], [[(text, False)] for text in b]
    out, into = [], []
    for one, other in zip(a, b, strict=True):
        x, y = _WORDS.findall(one), _WORDS.findall(other)
        codes = SequenceMatcher(None, x, y, False).get_opcodes()
        out.append([("".join(x[i:j]), kind != "equal") for kind, i, j, _, _ in codes])
        into.append([("".join(y[i:j]), kind != "equal") for kind, _, _, i, j in codes])
    return out, into


def _line(kind: str, parts: Parts) -> str:
    """One line; its sign is drawn by the style sheet, so that copying leaves it out."""
    text = "".join(part for part, _ in parts)
    comment = _COMMENT.search(text)
    ends = comment.start(2) if comment else len(text)
    body, at = "", 0
    for part, differs in parts:
        code, quiet = part[: max(0, ends - at)], part[max(0, ends - at) :]
        shown = html.escape(code, quote=False)
        body += f"<mark>{shown}</mark>" if differs and code.strip() else shown
        body += f"<i>{html.escape(quiet, quote=False)}</i>" if quiet else ""
        at += len(part)
    said = {"out": '<b class="sr">wrong: </b>', "in": '<b class="sr">right: </b>'}.get(kind, "")
    return f'<span class="{kind or "both"}">{said}{body}\n</span>'
