"""One interactive page that opens offline: the maps with plotly.js inside the file."""

from __future__ import annotations

import html
import json
from typing import IO

from plotly.offline import get_plotlyjs

from mha_core.export import html_maps
from mha_core.export.metadata import describe
from mha_core.export.panels import Panel, alt_text, config_words, ground, panel
from mha_core.export.selection import Job

LARGEST_SIDE = 128

_CONFIG = {
    "displaylogo": False,
    "responsive": False,
    "typesetMath": False,  # a dollar sign in a label is a dollar sign
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}


def write(file: IO[bytes], job: Job) -> None:
    """Writes the page; it asks for nothing over the network.

    Hovering gives query, key and number. Maps over LARGEST_SIDE cells a side are pooled, and the
    page says so.
    """
    wanted = [(name, step, item) for name, step in job.maps.items() for item in job.items]
    file.write(_head(job).encode())
    for place, (name, step, item) in enumerate(wanted):
        job.report(place / len(wanted), f"{name}, batch item {item}")
        part = panel(job, name, step, item, limit=LARGEST_SIDE)
        file.write(_section(job, part, f"maps-{place}").encode())
    about = json.dumps(describe(job), indent=2, allow_nan=False)
    file.write(_TAIL.format(about=html.escape(about)).encode())
    job.report(1.0, "html")


_STYLE = """
:root {{ color-scheme: {mode}; }}
body {{ margin: 2rem; background: {background}; color: {text};
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }}
h1 {{ font-size: 1.4rem; margin: 0 0 .25rem; }}
h2 {{ font-size: 1.05rem; margin: 2rem 0 .25rem; }}
.words, pre {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .85rem; }}
.words, .note, summary {{ color: {muted}; }}
.words {{ margin: 0; }}
.note {{ font-size: .85rem; margin: 0; }}
.maps {{ overflow-x: auto; }}
details {{ margin-top: 2rem; border-top: 1px solid {line}; padding-top: 1rem; }}
"""

_TAIL = """<details><summary>Configuration</summary><pre>{about}</pre></details>
</main></body></html>
"""


def _head(job: Job) -> str:
    colours = ground(job)
    style = _STYLE.format(
        mode=job.mode, background=colours.background, text=colours.text,
        muted=colours.muted, line=colours.line,
    )  # fmt: skip
    words = " · ".join(
        word if tint is None else f'<span style="color:{colours.tints[tint]}">{word}</span>'
        for word, tint in config_words(job.config)
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{html.escape(alt_text(job))}">
<title>Multi-head attention maps</title>
<style>{style}</style>
<script>{get_plotlyjs()}</script>
</head><body><main>
<h1>Multi-head attention</h1>
<p class="words">{words}</p>
"""


def _section(job: Job, part: Panel, name: str) -> str:
    labels = None if part.pooled.factor > 1 else job.labels
    figure = html_maps.figure(part, labels, ground(job)).to_html(
        full_html=False, include_plotlyjs=False, div_id=name, config=_CONFIG
    )
    label = html.escape(f"{part.title}: {len(part.heads)} heatmaps, query from the top")
    notes = html.escape(" · ".join(part.notes))
    return f"""<section><h2>{html.escape(part.title)}</h2><p class="note">{notes}</p>
<div class="maps" role="img" aria-label="{label}">{figure}</div></section>
"""
