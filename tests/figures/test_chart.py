"""Line charts in Plotly: every number where the data has it, in the palette, at any width."""

from __future__ import annotations

import math

import plotly.graph_objects as go
import pytest

from mha_core.charts import Chart, Mark, Series, x_axis, y_axis
from mha_core.figures.chart import HEIGHT, chart_figure, chart_spec, legend_html
from mha_core.figures.typed import dumps
from mha_core.palette import DARK, LIGHT

LINE = Series("closed <form>", (16.0, 64.0), (1e3, 1e6), "d_model")
DASHED = Series("dashed", (16.0, 64.0), (2e3, 3e6), "muted", "dash")
POINTS = Series("measured", (16.0, 64.0), (1e4, 1e5), "time", "points", (9e3, 9e4), (2e4, 2e5))
CHARTS = [
    Chart("FLOPs", "time", "FLOPs", (LINE, DASHED), (Mark(32.0, "equal"), Mark(9e9, "far"))),
    Chart("Time", "time", "seconds", (POINTS,)),
    Chart("Entropy", "d_k", "nats", (LINE,), log_y=False),
    Chart("Later", "time", "seconds", (), empty="not <yet>", reach=(16.0, 64.0)),
]


def spec(charts=CHARTS, width=1000, colours=LIGHT, **options):
    return chart_spec(charts, width=width, colours=colours, **options)


def test_traces_are_the_series():
    made = spec()
    assert [trace["name"] for trace in made["data"]] == [
        series.name for chart in CHARTS for series in chart.series
    ]
    for trace, series in zip(made["data"], (s for c in CHARTS for s in c.series), strict=True):
        assert (tuple(trace["x"]), tuple(trace["y"])) == (series.x, series.y)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_plotly_takes_it_and_its_colours_are_the_palettes(colours):
    made = spec(colours=colours)
    go.Figure(made)  # validates every property
    assert made["data"][0]["line"]["color"] == colours.tints["d_model"]
    assert made["data"][1]["line"]["color"] == colours.muted
    assert dumps(made)


def test_axes_are_those_of_the_data_on_log_axes():
    layout = spec()["layout"]
    for number, chart in enumerate(CHARTS, 1):
        suffix = "" if number == 1 else str(number)
        for name, axis, log in (
            ("xaxis", x_axis(chart, most=6), chart.log_x), ("yaxis", y_axis(chart), chart.log_y),
        ):  # fmt: skip
            drawn = layout[f"{name}{suffix}"]
            ends = [math.log10(end) if log else end for end in (axis.low, axis.high)]
            assert drawn["range"] == ends
            assert drawn["type"] == ("log" if log else "linear")
        assert layout[f"xaxis{suffix}"]["title"]["text"] == chart.x_title


def test_spreads_are_error_bars_around_the_median():
    (trace,) = [trace for trace in spec()["data"] if trace["name"] == "measured"]
    assert trace["error_y"]["array"] == [1e4, 1e5]
    assert trace["error_y"]["arrayminus"] == [1e3, 1e4]
    assert "middle half 9e+03 s to 2e+04 s" in trace["text"][0]
    assert trace["mode"] == "lines+markers"


def test_marks_within_the_axis_are_drawn_once():
    layout = spec()["layout"]
    assert [shape["x0"] for shape in layout["shapes"]] == [32.0]
    words = [note["text"] for note in layout["annotations"]]
    assert "equal" in words
    assert "far" not in words


def test_what_comes_from_others_is_escaped():
    made = spec()
    words = [note["text"] for note in made["layout"]["annotations"]]
    assert "not &lt;yet&gt;" in words
    assert "closed &lt;form&gt;" in made["data"][0]["hovertemplate"]
    assert "closed &lt;form&gt;" in legend_html(CHARTS, LIGHT)


@pytest.mark.parametrize(("width", "rows"), [(360, 4), (590, 4), (640, 2), (1160, 2)])
def test_panels_stand_where_there_is_room(width, rows):
    layout = spec(width=width)["layout"]
    assert (layout["width"], layout["height"]) == (width, rows * HEIGHT)
    boxes = [
        (*layout[f"xaxis{n}"]["domain"], *layout[f"yaxis{n}"]["domain"]) for n in ("", 2, 3, 4)
    ]
    for left, right, low, high in boxes:
        assert 0 <= left < right <= 1
        assert 0 <= low < high <= 1
    for n, one in enumerate(boxes):
        for other in boxes[n + 1 :]:  # no two overlap
            apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2]
            assert apart or other[3] <= one[2]


def test_ticks_have_room_on_a_phone():
    many = Series("one", tuple(2.0**n for n in range(4, 15)), (1.0,) * 11, "time")
    layout = spec([Chart("x", "time", "number", (many,))], width=350)["layout"]
    assert len(layout["xaxis"]["tickvals"]) <= 4


def test_a_figure_of_its_own_has_a_legend_with_each_name_once():
    figure = chart_figure([*CHARTS, CHARTS[0]], mode="dark")
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert sorted(shown) == sorted({"closed <form>", "dashed", "measured"})
    assert figure.layout.paper_bgcolor == DARK.background
    assert figure.layout.height > spec()["layout"]["height"]
    assert figure.layout.yaxis.domain[0] > 0.1  # above the legend


def test_the_legend_has_the_styles():
    found = legend_html(CHARTS, DARK)
    assert found.count('class="entry') == 3
    assert f'class="entry dash" style="--c:{DARK.muted}"' in found
