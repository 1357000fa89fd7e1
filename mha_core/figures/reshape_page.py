"""The flow of a reshape as one page that opens offline, plotly.js inside."""

from __future__ import annotations

import html

from plotly.offline import get_plotlyjs

from mha_core.figures.reshape_flow import flow_figure
from mha_core.palette import Palette
from mha_core.reshape.flow import Flow
from mha_core.reshape.listing import program
from mha_core.reshape.run import Run

_STYLE = """
:root {{ color-scheme: {mode}; }}
body {{ margin: 2rem; background: {background}; color: {text};
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }}
h1 {{ margin: 0 0 1rem; font: 600 1.4rem ui-monospace, "DejaVu Sans Mono", monospace; }}
.flow {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin: 1.5rem 0; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: 4px 18px 4px 0; border-bottom: 1px solid {line};
         font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; white-space: nowrap; }}
thead th {{ color: {muted}; }} .num {{ text-align: right; }}
.table {{ overflow-x: auto; }}
pre {{ font-size: 13px; overflow-x: auto; border-left: 3px solid {line}; padding-left: 1rem; }}
"""


def flow_page(
    run: Run, flow: Flow, *, colours: Palette, colour: str = "", width: int = 1040
) -> str:
    """The flow with its own controls, the table of steps and the program; asks for no network."""
    title = run.plan.pattern or ".".join(["x", *(op.code for op in run.plan.ops)])
    figure = flow_figure(run, flow, colours=colours, colour=colour, width=width)
    drawn = figure.to_html(
        full_html=False, include_plotlyjs=False, auto_play=False, div_id="flow",
        config={"displayModeBar": False, "responsive": False, "typesetMath": False},
    )  # fmt: skip
    style = _STYLE.format(
        mode=colours.mode, background=colours.background, text=colours.text,
        muted=colours.muted, line=colours.line,
    )  # fmt: skip
    alt = f"Animation of {title} on a tensor of shape {run.plan.shape}"
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{style}</style>
<script>{get_plotlyjs()}</script>
</head><body><main>
<h1>{html.escape(title)}</h1>
<div class="flow" role="figure" aria-label="{html.escape(alt)}">{drawn}</div>
<div class="table"><table><thead><tr><th>step</th><th>operation</th><th>shape</th><th>strides</th>
<th>memory</th><th class="num">bytes allocated</th></tr></thead>
<tbody>{_rows(run)}</tbody></table></div>
<pre>{html.escape(program(run))}</pre>
</main></body></html>
"""


def _rows(run: Run) -> str:
    return "".join(
        f"<tr><td>{step.number}</td><td>{html.escape(step.code)}</td><td>{step.shape}</td>"
        f"<td>{step.strides}</td><td>{step.storage}</td>"
        f'<td class="num">{step.allocated:,}</td></tr>'
        for step in run.steps
    )
