"""The flow as Plotly takes it: valid, bounded, its frames and buttons aimed at what there is."""

from __future__ import annotations

import json

import numpy as np
import plotly.graph_objects as go
import pytest

from mha_core import MHAConfig, flow, trace_forward
from mha_core.figures.flow import flow_figure, flow_spec
from mha_core.palette import LIGHT
from mha_core.window import Element, Window, window
from tests.figures.support import FLOWS, array, overflowing, pixels, spec, trace_of, traced
from tests.flow.support import whole

every_flow = pytest.mark.parametrize("name", FLOWS)
TRACES = ("elements", "map", "operands", "path", "followed", "words")


@every_flow
def test_plotly_takes_it_and_writes_valid_json(name):
    made = spec(name, dark=name == "causal", width=340 if name == "default" else 1040)
    figure = go.Figure(made)
    assert [frame.name for frame in figure.frames] == [frame["name"] for frame in made["frames"]]
    told = json.dumps(json.loads(figure.to_json()), allow_nan=False)
    assert "NaN" not in told
    json.dumps(made, allow_nan=False)  # the page sends it as it is


def test_the_figure_is_the_specification_validated():
    made, element = MHAConfig(), Element(0, 3, 21)
    win = window(made, element)
    found = flow.scenes(traced(made), element, win)
    how = {"config": made, "colours": LIGHT, "width": 700, "start": "scores"}
    figure = flow_figure(found, element, win, **how)
    assert json.loads(figure.to_json())["layout"]["width"] == 700
    assert figure == go.Figure(flow_spec(found, element, win, **how))


def test_numbers_that_overflowed_are_drawn_too():
    trace = overflowing()
    element = Element(0, 1, 2)
    win = window(trace.config, element)
    found = flow.scenes(trace, element, win)
    made = flow_spec(found, element, win, config=trace.config, colours=LIGHT)
    json.dumps(json.loads(go.Figure(made).to_json()), allow_nan=False)
    assert set(trace_of(made, "map", "scores")["text"]) == {"∞"}
    assert set(trace_of(made, "map", "softmax")["text"]) == {"NaN"}


@every_flow
def test_a_frame_a_scene_in_order(name):
    made, trace = spec(name), traced(FLOWS[name]) if name != "words" else None
    steps = [step for step in flow.SCENES if step != "mask" or FLOWS[name].causal]
    assert [frame["name"] for frame in made["frames"]] == steps
    if trace is not None:
        assert all(step in trace for step in steps)


@every_flow
def test_every_frame_sets_all_traces_there_are_and_no_axis(name):
    # plotly/plotly.js#4491: a frame that names another trace, or none, animates nothing.
    made = spec(name)
    assert [trace["name"] for trace in made["data"]] == list(TRACES)
    for frame in made["frames"]:
        assert frame["traces"] == list(range(len(made["data"])))
        assert len(frame["data"]) == len(made["data"])
        assert not any("axis" in key for key in frame.get("layout", {}))
        for data in frame["data"]:
            assert {"type", "name", "xaxis", "yaxis"}.isdisjoint(data)


@every_flow
def test_a_frame_shows_the_same_from_wherever_one_comes(name):
    made = spec(name)
    steps = [frame["name"] for frame in made["frames"]]
    for step in steps:
        for label in TRACES:
            direct = trace_of(made, label, step)
            around = trace_of(made, label, *steps, *reversed(steps), step)
            if label == "elements" and direct["marker"].get("opacity") == 0:
                same = ("x", "y", "customdata", "hoverinfo", "hovertemplate")
                assert {key: direct[key] for key in same} == {key: around[key] for key in same}
                assert around["marker"]["opacity"] == 0
            else:
                assert direct == around


@every_flow
def test_every_frame_has_one_place_for_every_element(name):
    made = spec(name)
    count = len(array(trace_of(made, "elements")["customdata"]))
    for frame in made["frames"]:
        assert len(pixels(trace_of(made, "elements", frame["name"]))) == count
        for label in ("map", "operands"):
            trace = trace_of(made, label, frame["name"])
            lengths = {len(array(trace[key])) for key in ("x", "y", "text")}
            lengths.add(len(array(trace["marker"]["color"])))
            assert len(lengths) == 1


@every_flow
def test_no_scene_has_more_marks_than_glide_smoothly(name):
    made = spec(name)
    for frame in made["frames"]:
        for label in TRACES:
            assert len(pixels(trace_of(made, label, frame["name"]))) <= 1000
    assert len(json.dumps(made)) < 600_000


@every_flow
def test_places_are_whole_numbers_of_two_bytes(name):
    made = spec(name, width=1240)
    for data in (made["data"], *(frame["data"] for frame in made["frames"])):
        for trace in data:
            for axis in (trace["x"], trace["y"]):
                assert axis == [] or axis["dtype"] == "i2"


def test_it_opens_at_the_scene_asked_for_and_else_at_the_first():
    for start in ("merge", "input", "scores", "nowhere"):
        made = spec(start=start)
        steps = [frame["name"] for frame in made["frames"]]
        step = start if start in steps else "input"
        for label in TRACES:
            opened, framed = trace_of(made, label), trace_of(made, label, step)
            np.testing.assert_array_equal(pixels(opened), pixels(framed))
            if "text" in framed:
                np.testing.assert_array_equal(array(opened["text"]), array(framed["text"]))
        assert made["layout"]["sliders"][0]["active"] == steps.index(step)


def buttons(made, step=None):
    layout = made["layout"]
    if step is not None:
        layout = next(frame["layout"] for frame in made["frames"] if frame["name"] == step)
    return [button for menu in layout["updatemenus"] for button in menu["buttons"]]


def animations(made):
    """The arguments of every button and every stop of the rail."""
    found = [button["args"] for button in buttons(made)]
    for frame in made["frames"]:
        found += [button["args"] for button in buttons(made, frame["name"])]
    return found + [step["args"] for step in made["layout"]["sliders"][0]["steps"]]


@every_flow
def test_play_and_pause_have_their_arguments_the_right_way_round(name):
    # plotly/plotly.js#1221: play is [null, {…}], pause is [[null], {mode: immediate, …}].
    made = spec(name)
    every = [buttons(made), *(buttons(made, frame["name"]) for frame in made["frames"])]
    for row in every:
        assert {button["method"] for button in row} == {"animate"}
        plays = [button["args"][1] for button in row if button["args"][0] is None]
        stops = [button["args"][1] for button in row if button["args"][0] == [None]]
        assert len(plays) == len(stops) == 1
        assert plays[0]["fromcurrent"] is True
        assert plays[0]["transition"]["duration"] == 900
        assert plays[0]["frame"]["duration"] > 900  # it rests between two glides
        assert stops[0]["mode"] == "immediate"
        assert stops[0]["transition"]["duration"] == stops[0]["frame"]["duration"] == 0


@every_flow
def test_every_button_and_stop_aims_at_a_frame_there_is(name):
    made = spec(name)
    steps = [frame["name"] for frame in made["frames"]]
    for target, _ in animations(made):
        assert target is None or target == [None] or (len(target) == 1 and target[0] in steps)
    assert [stop["args"][0] for stop in made["layout"]["sliders"][0]["steps"]] == [
        [step] for step in steps
    ]


def test_back_and_on_aim_at_the_neighbours_of_the_scene_in_view():
    made = spec("causal")
    steps = [frame["name"] for frame in made["frames"]]
    for n, step in enumerate(steps):
        aims = [button["args"][0] for button in buttons(made, step)]
        before, after = steps[max(n - 1, 0)], steps[min(n + 1, len(steps) - 1)]
        assert [aim for aim in aims if aim not in (None, [None])] == [[before], [after]]


@pytest.mark.parametrize("duration", [0, 450, 1800])
def test_glides_last_as_long_as_asked_and_no_time_means_no_motion(duration):
    for target, how in animations(spec(duration=duration)):
        wanted = 0 if target == [None] else duration
        assert how["transition"]["duration"] == wanted
        if target is not None:
            assert how["frame"]["duration"] == wanted


def test_a_batch_of_many_thousands_is_counted_without_running_over():
    made = MHAConfig(batch=40_000, time=1, d_model=2, heads=1)
    element = Element(39_998, 0, 1)
    win = window(made, element)
    found = flow.scenes(trace_forward(made, profile=False), element, win)
    drawn = flow_spec(found, element, win, config=made, colours=LIGHT)
    for trace in (trace_of(drawn, "elements"), trace_of(drawn, "map", "softmax")):
        assert set(array(trace["customdata"])[:, 0].tolist()) == set(win.batch)


def test_many_heads_drawn_at_once_share_the_colour_scale():
    made = MHAConfig(batch=1, time=2, d_model=40, heads=40, causal=True)
    win = whole(made)
    assert isinstance(win, Window)
    found = flow.scenes(traced(made), Element(0, 0, 0), win)
    drawn = go.Figure(flow_spec(found, Element(0, 0, 0), win, config=made, colours=LIGHT))
    stops = [at for at, _ in drawn.data[0].marker.colorscale]
    assert stops == sorted(stops)
    assert (stops[0], stops[-1]) == (0, 1)
