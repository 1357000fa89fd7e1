"""One flat projection: the matrices, the facts, and the times of the ways to project."""

from __future__ import annotations

from functools import partial

import streamlit as st

from mha_core import Trace, projection_times, projections
from mha_core.charts import Chart
from mha_core.figures import projection_html
from mha_core.figures.weight_pictures import Pictures, pictures
from mha_core.listing_projections import program
from mha_core.measure import machine
from mha_core.palette import Palette
from mha_core.projection_times import Timing
from mha_core.projections import Facts
from pages.shared import look, measured, plot, runs
from pages.shared.chart_export import chart_export
from pages.shared.choice import Choice
from pages.shared.measured import Panel
from pages.shared.store import store

NAME = "projections"
SECONDS = 8.0  # of measuring, in all


def intro(choice: Choice) -> None:
    """What the page is about, in the run's own sizes."""
    st.html(look.block(projection_html.headline(choice.config, look.colours())))


@st.fragment
def matrices(choice: Choice, trace: Trace) -> None:
    """W_q, W_k and W_v, coloured by head; choosing a head runs this alone."""
    c = look.colours()
    config = choice.config
    head = min(st.session_state.get("head", 0), config.heads - 1)
    drawn = store("weight pictures").get((choice, c.mode), lambda: _pictures(trace, c), _size)
    one = projections.one_head(trace.module, trace.x, head)
    shown = projection_html.matrices(
        drawn, d_model=config.d_model, heads=config.heads, picked=head, colours=c
    )
    lesson = projection_html.head_lesson(one, head, d_model=config.d_model, colours=c)
    title = look.heading("Which columns are head i’s", "W_q of the run in view, real numbers")
    look.clickable(look.block(f"{title}{shown}{lesson}"), key="fp_matrices", on_pick=_choose)


def _pictures(trace: Trace, c: Palette) -> dict[str, Pictures]:
    linears = zip("qkv", projections.linears(trace.module), strict=True)
    return {n: pictures(linear.weight, trace.config.heads, c) for n, linear in linears}


def _size(drawn: dict[str, Pictures]) -> int:
    return sum(len(text) for one in drawn.values() for text in (*one.columns, *one.rows))


def _choose(head: str) -> None:
    st.session_state["head"] = int(head)


def facts(choice: Choice, trace: Trace) -> list[Facts]:
    """The table of the ways to project, and what it comes to."""
    found: list[Facts] = runs.derived(
        choice, ("projections",), lambda: projections.compare(trace.module, trace.x)
    )
    rows, all_rows = projections.rows_compared(trace.x), trace.x.shape[0] * trace.x.shape[1]
    over = "every position" if rows == all_rows else f"{rows:,} of {all_rows:,} positions"
    title = look.heading("The same numbers, in other parcels", f"run just now, over {over}")
    table = projection_html.facts_table(found, choice.config.dtype, look.colours())
    words = projections.summary(found, choice.config.heads)
    st.html(look.block(f'{title}{table}<p class="fp-say">{words}</p>'))
    return found


def times(choice: Choice, width: int) -> Panel:
    """The measured times as ratios over h, and the button that measures them."""
    kept = measured.kept(choice, NAME)
    timings: list[Timing] = kept.results if kept is not None else []
    on = f"{machine(choice.config.device)}, {choice.config.dtype}"
    look.section("Time, on this machine", f"{on}; rounds in turn, the middle half as the spread")
    panel = measured.panel(choice, NAME, f"Measure, about {SECONDS:.0f} s")
    plot.charts([_chart(choice, timings)], key="fp_chart", width=width)
    st.html(look.block(_words(timings, choice.config.heads, broken=bool(kept and not kept.done))))
    return panel


def _counts(choice: Choice) -> list[int]:
    return projection_times.head_counts(choice.config.d_model, choice.config.heads)


def _chart(choice: Choice, timings: list[Timing]) -> Chart:
    return projection_times.ratio_chart(timings, choice.config.heads, _counts(choice))


def _words(timings: list[Timing], heads: int, *, broken: bool) -> str:
    own = next((one for one in timings if one.heads == heads), None)
    said = [] if own is None else projection_times.sentences(own)
    if broken:
        said.append("Broken off: only the sizes shown were measured.")
    if not timings:
        said = [
            "Neither always wins: h small products can cost more than one large one, or less. "
            "Measure at these sizes to see what holds here."
        ]
    return f'<p class="fp-say">{"<br>".join(said)}</p>'


def measure(panel: Panel, choice: Choice, trace: Trace) -> None:
    """Measures, if the button was pressed."""

    def start(report: measured.Report) -> measured.Results:
        projection_times.check_budget(trace.module, trace.x)
        return projection_times.time_over_heads(
            trace.module, trace.x, _counts(choice), allowed=SECONDS, report=report
        )

    measured.run(panel, choice, start)


def export(choice: Choice, found: list[Facts]) -> None:
    """The figure of the times with their numbers once measured; before, the table's."""
    kept = measured.kept(choice, NAME)
    timings: list[Timing] = kept.results if kept is not None else []
    config = choice.config
    title = (
        f"batch {config.batch}, time {config.time}, d_model {config.d_model}, {config.dtype}, "
        f"{machine(config.device)}"
    )
    chart_export(
        choice, "projections", title=title,
        charts=lambda: [_chart(choice, timings)],
        table=partial(projection_times.export_frame, found, timings, config.device),
    )  # fmt: skip


def code(choice: Choice) -> None:
    """The program, closed until opened."""
    panel = st.expander("Code: PyTorch that compares them", key="w_code", on_change="rerun",
                        icon=":material/code:")  # fmt: skip
    if panel.open:
        panel.code(program(choice.config), language="python")
