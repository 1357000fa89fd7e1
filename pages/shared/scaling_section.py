"""What a forward costs as one size grows: formulas, measurements, and the reason for √d_k."""

from __future__ import annotations

from functools import partial

import streamlit as st

from mha_core import Trace, scaling, scaling_charts, spread
from mha_core.figures import scaling_words
from mha_core.listing_scaling import program
from mha_core.scaling import AXES, Cost, Ended, Measured
from mha_core.scaling_charts import AXIS_NAMES
from pages.shared import look, measured, plot, runs
from pages.shared.chart_export import chart_export
from pages.shared.choice import Choice
from pages.shared.measured import Panel

SECONDS = 30.0  # of measuring, at most


def controls(choice: Choice) -> tuple[str, bool]:
    """Which size grows, and whether every step has a line of its own."""
    config = choice.config
    st.html(look.block(scaling_words.headline(config, look.colours())))
    look.section("Cost, as one size grows", "lines: closed form; points: counted and measured")
    with st.container(horizontal=True, key="sc_controls", vertical_alignment="center"):
        axis = st.segmented_control(
            "the size that grows", AXES, key="w_sc_axis", default="time", required=True,
            format_func=lambda name: AXIS_NAMES[name], label_visibility="collapsed",
        )  # fmt: skip
        detail = st.toggle("every step", key="w_sc_detail")
    axis = axis or "time"
    said = f'<p class="fp-say">{scaling_words.closed_words(axis, config)}</p>'
    st.html(look.block(scaling_words.heading(config, axis, look.colours()) + said))
    return axis, detail


def costs(choice: Choice, axis: str, detail: bool, width: int) -> Panel:
    """The four panels and what they come to; the button that measures."""
    formulas, points, ended = _both(choice, axis)
    panel = measured.panel(choice, _name(axis), f"Measure on this device, at most {SECONDS:.0f} s")
    kept = measured.kept(choice, _name(axis))
    broken = kept is not None and not kept.done
    words = scaling_words.sentences(axis, points, ended, broken=broken)
    panels = scaling_charts.charts(axis, formulas, points, detail=detail)
    plot.charts(panels, key="sc_costs", width=width)
    st.html(look.block("".join(f'<p class="fp-say">{line}</p>' for line in words)))
    return panel


def _name(axis: str) -> str:
    return f"scaling {axis}"


def _both(choice: Choice, axis: str) -> tuple[list[Cost], list[Measured], Ended | None]:
    """The formulas along the axis, what was measured of it, and why no more was."""
    formulas = [scaling.closed(config) for config in scaling.along(choice.config, axis)]
    kept = measured.kept(choice, _name(axis))
    results = [] if kept is None else kept.results
    points = [one for one in results if isinstance(one, Measured)]
    return formulas, points, next((one for one in results if isinstance(one, Ended)), None)


def measure(panel: Panel, choice: Choice, axis: str) -> None:
    """Measures, if the button was pressed."""
    configs = scaling.along(choice.config, axis)
    measured.run(
        panel, choice, lambda report: scaling.measure(configs, allowed=SECONDS, report=report)
    )


def root(choice: Choice, trace: Trace, width: int) -> None:
    """Spread of scores and entropy of weights over d_k, and where this run stands."""
    found, own = _spreads(), _own(choice, trace)
    look.section("Why scores are divided by √d_k", "standard normal q and k, drawn and attended")
    st.html(look.block(f'<p class="fp-say">{scaling_words.spread_words(found, own)}</p>'))
    plot.charts(scaling_charts.spread_charts(found, own), key="sc_spread", width=width)


def _own(choice: Choice, trace: Trace) -> spread.Spread:
    own: spread.Spread = runs.derived(choice, ("spread",), lambda: spread.of_trace(trace))
    return own


def _spreads() -> list[spread.Spread]:
    found: list[spread.Spread] = runs.derived("spreads", (), spread.spreads)
    return found


def export(choice: Choice, trace: Trace, axis: str, detail: bool) -> None:
    """Both figures, and all their numbers."""
    formulas, points, _ = _both(choice, axis)
    title = scaling_words.title(choice.config, axis)
    chart_export(
        choice, f"scaling_{axis}", title=title, label="Export the costs",
        charts=partial(scaling_charts.charts, axis, formulas, points, detail=detail),
        table=partial(scaling_charts.table, axis, formulas, points),
    )  # fmt: skip
    found, own = _spreads(), _own(choice, trace)
    chart_export(
        choice, "spread", label="Export the spread over d_k",
        title=f"standard normal q and k, {found[0].keys} keys",
        charts=partial(scaling_charts.spread_charts, found, own),
        table=partial(scaling_charts.spread_table, found),
    )  # fmt: skip


def code(choice: Choice) -> None:
    """The program, closed until opened."""
    panel = st.expander("Code: PyTorch that counts and measures", key="w_code",
                        on_change="rerun", icon=":material/code:")  # fmt: skip
    if panel.open:
        panel.code(program(choice.config), language="python")
